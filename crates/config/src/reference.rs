//! Generator of the reference page `docs/reference/configuration.md` from the table.

use crate::env::RESERVED;
use crate::options::{Effect, Kind, Opt, Scope, Unit};
use crate::settings::{Format, default_of};

const INTRO: &str = "\
# Configuration

<!-- Generated from the table of options in crates/config; edit that. -->

Weir reads two formats. A file whose name ends in `.toml` is native; every other file is read as PgBouncer's ini. The
options are the same in both. A file with a mistake is refused whole: each mistake is listed with file, line and key.

**Native** (`weir.toml`): global options stand at the top, before the tables.

```toml
listen_addr = \"127.0.0.1\"
auth_file = \"/etc/weir/userlist.txt\"
pool_mode = \"transaction\"
query_wait_timeout = \"30s\"

[databases.shop]
host = \"10.0.0.5\"
pool_size = 40

[databases.\"*\"]        # every other database
host = \"10.0.0.6\"

[users.reports]
query_timeout = \"5min\"

[pools.shop.reports]     # this user in this database
pool_size = 4
```

- A time is a string with the unit `us`, `ms`, `s`, `min`, `h` or `d`. A plain number is in the unit named below.
- A size is a string with the unit `B`, `KiB`, `MiB` or `GiB`, or a plain number of bytes.
- A list is an array, or a string with commas. A flag is `true` or `false`, or PgBouncer's 1 or 0.
- `${NAME}` in a string stands for the environment variable of this name, which must be set. `$${` stands for a plain `${`.
- If the argument is a directory (`weir run conf.d/`), Weir reads all its files named `*.toml`, in the order of their
  names, as one configuration. An option set in two files is a mistake.
- Editors complete and check the file by the schema that `weir schema` prints. The first line
  `#:schema weir.schema.json` names the schema.
- `weir convert pgbouncer.ini` prints PgBouncer's file as weir.toml, with its comments.

**PgBouncer's ini**: Weir reads the sections `[pgbouncer]`, `[databases]`, `[users]` and `[peers]`, comments on lines of
their own (`;` or `#`), and `%include FILE` up to 10 levels deep, relative to the working directory. Entries of the last
three sections have values such as `host=10.0.0.5 password='it''s'`. Times are plain numbers. A second section
`[pgbouncer]` discards the options of the first, as in PgBouncer. Weir's own section `[hosts]` has the options of single
hosts, for example `shop/10.0.0.7:5432 = role=replica weight=50`. Its section `[pools]` has those of one user of one
database, `DATABASE/USER`, for example `shop/reports = pool_size=4 pool_mode=session`. A name with other characters than
`A-Z a-z 0-9 _ . * -` is written in single quotes with the whole key, `'my shop/reports' = pool_size=4`. If a name has a
slash, the longest name of `[databases]` that fits is the database. `*/USER` stands for all databases of the entry `*`.

**Several hosts**: `host = a, b` without `replicas` is one host with alternatives, as in PgBouncer: a new connection takes
the next address. A database has several hosts with roles if its entry has `replicas` or a table of a single host. Then
each address of `host` is a host of its own, and a host that has only a table is added.

```toml
watch_user = \"weir\"            # asks each host for its role and position

[databases.shop]
host = \"10.0.0.5\"
replicas = [\"10.0.0.6\", \"10.0.0.7:5433\"]
read_write_split = \"auto\"
pool_mode = \"transaction\"

[databases.shop.hosts.\"10.0.0.7:5433\"]
weight = 50
```

**Listeners**: an entry of `[listeners]` opens another port or unix socket, whose clients get its pool mode or begin on hosts of its role.

```toml
[listeners.replicas]
listen_port = 5001
role = \"replica\"
```

**Environment**: the variable `WEIR_` plus the name of a global option in upper case sets this option, for example
`WEIR_WORKERS=1`. The variable takes precedence over the file, and its value is written as in either format. An unknown
`WEIR_` variable is a mistake, except
";

const INTRO_REST: &str = ",
names that begin with `WEIR_TEST_`, and the variables that Kubernetes sets for a service named weir
(`WEIR_SERVICE_HOST`, `WEIR_PORT`, `WEIR_PORT_6432_TCP`, ...) or weir-something.

**Precedence** where an option can be set in several places: pool, then user, then database, then global. If a database
forces a user, options of the pool (mode, sizes, waiting, servers) are those of that user, and time-outs of queries,
transactions and idle clients are those of the user who logged in.

`weir check FILE` prints every value with the place where it was set, or `default`. With `--database NAME` and
`--user NAME` it prints the values of this pool, and the entry that each comes from.

A reload applies the options marked `yes`; a change of the others needs a restart. *Without effect* marks an option that
Weir accepts for compatibility with PgBouncer and ignores, with the reason. Every reload also reads certificates, keys and
the files of users and rules again. If one of them has a mistake, nothing changes.

The guide explains [TLS](../guide/tls.md) and [authentication](../guide/authentication.md).
";

/// Returns the text of the page. A test compares it with the committed file.
#[must_use]
pub fn reference_markdown() -> String {
    let reserved: Vec<_> = RESERVED.iter().map(|name| format!("`{name}`")).collect();
    let mut out = format!("{INTRO}{}{INTRO_REST}", reserved.join(", "));
    for (scope, title) in [
        (Scope::Global, "Global options"),
        (Scope::Database, "`[databases]`"),
        (
            Scope::Host,
            "`[databases.NAME.hosts.ADDRESS]`, in the ini `[hosts]`",
        ),
        (Scope::Listener, "`[listeners]`"),
        (Scope::Pool, "`[pools.DATABASE.USER]`, in the ini `[pools]`"),
        (Scope::User, "`[users]`"),
        (Scope::Peer, "`[peers]`"),
    ] {
        out.push_str(&format!("\n## {title}\n\n"));
        out.push_str("| option | default | values | reload | meaning |\n|---|---|---|---|---|\n");
        scope
            .options()
            .iter()
            .for_each(|opt| out.push_str(&row(opt)));
    }
    out
}

fn row(opt: &Opt) -> String {
    let mut name = format!("`{}`", opt.name);
    for alias in opt.aliases {
        name.push_str(&format!(", `{alias}`"));
    }
    let reload = if opt.reloadable { "yes" } else { "restart" };
    let later = match opt.effect {
        Effect::Full => String::new(),
        Effect::None(why) => format!(" *Without effect:* {why}"),
    };
    format!(
        "| {name} | {} | {} | {reload} | {}{later} |\n",
        default(opt),
        values(opt),
        opt.doc.trim()
    )
}

fn default(opt: &Opt) -> String {
    if opt.default.is_none() {
        return String::new();
    }
    match (
        default_of(opt, Format::Ini).to_ini(opt.kind),
        opt.default_native,
    ) {
        (text, _) if text.is_empty() => "empty".to_owned(),
        (text, None) => format!("`{text}`"),
        (text, Some(native)) => format!("`{text}`; in weir.toml `{native}`"),
    }
}

/// Describes the values that an option accepts.
pub(crate) fn values(opt: &Opt) -> String {
    match opt.kind {
        Kind::Bool => "flag".to_owned(),
        Kind::Int => format!("{} to {}", opt.min, opt.max),
        Kind::Mode => "octal permissions".to_owned(),
        Kind::Duration(Unit::Seconds) if opt.min > 0 => format!("seconds, at least {}", opt.min),
        Kind::Duration(Unit::Seconds) => "seconds".to_owned(),
        Kind::Duration(Unit::Milliseconds) => "milliseconds".to_owned(),
        Kind::Duration(Unit::Microseconds) => format!("microseconds, at most {}", opt.max),
        Kind::Size => format!("bytes, {} to {}", opt.min, opt.max),
        Kind::Enum(words) => words.join(", "),
        Kind::Text => "text".to_owned(),
        Kind::Secret => "text, never shown".to_owned(),
        Kind::PoolSize => format!("{} to {}, or auto", opt.min, opt.max),
        Kind::StateCheck => "off, always, sample(N%)".to_owned(),
        Kind::List | Kind::Hosts | Kind::Listen | Kind::ListenPoints => "list".to_owned(),
        Kind::Networks => "list of ADDRESS or ADDRESS/BITS".to_owned(),
        Kind::Hints => "list of TOOL:URL".to_owned(),
        Kind::HostPoints => "list of HOST or HOST:PORT".to_owned(),
        Kind::Patterns => "list of NAME, NAME*, SCHEMA.NAME, SCHEMA.*".to_owned(),
        Kind::Functions => "list of NAME or SCHEMA.NAME".to_owned(),
    }
}
