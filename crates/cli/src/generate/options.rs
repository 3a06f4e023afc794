//! Manual page of section 5: weir.toml, with every option from the table.

use clap_mangen::roff::{Roff, bold, roman};
use weir_command::pages::{DATE, Page, VERSION};
use weir_config::{Effect, Opt, Scope};

const EXAMPLE: &str = r#"listen_addr = "127.0.0.1"
auth_file = "/etc/weir/userlist.txt"
pool_mode = "transaction"
query_wait_timeout = "30s"

[databases.shop]
host = "10.0.0.5"
pool_size = 40

[databases."*"]        # every other database
host = "10.0.0.6"

[users.reports]
query_timeout = "5min""#;

const DESCRIPTION: &[&str] = &[
    "Weir reads weir.toml, whose format is TOML, and PgBouncer's ini under any name that does not end in .toml. The \
     options are the same. Global options stand at the top, before the tables. A file with a mistake is refused whole; \
     weir check names each mistake with its line, and prints what would be in force.",
    "A time is a text with us, ms, s, min, h or d; a plain number is in the unit named below. A size is a text with B, \
     KiB, MiB or GiB, or a plain number of bytes. A list is an array or a text with commas.",
    "In a text, ${NAME} is the environment variable of this name, and $${ a plain ${. A directory in place of the file \
     means all its files named *.toml, by name, as one configuration.",
    "Every global option can be set by an environment variable too, WEIR_ and its name in upper case; it wins over the \
     file. Where several places may set an option, user wins over database, and database over global.",
    "Options marked (restart) are read at the start only; the others also by a reload.",
];

/// Page weir.toml(5).
pub(super) fn page() -> Page {
    let mut roff = Roff::default();
    let source = format!("Weir {}", VERSION);
    roff.control("TH", ["WEIR.TOML", "5", DATE, source.as_str(), "Weir"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(
        "weir.toml - configuration of the Weir connection pooler",
    )]);
    roff.control("SH", ["DESCRIPTION"]);
    for paragraph in DESCRIPTION {
        roff.control("PP", []);
        roff.text([roman(*paragraph)]);
    }
    roff.control("SH", ["EXAMPLE"]);
    roff.control("nf", []);
    for line in EXAMPLE.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    for (scope, heading) in [
        (Scope::Global, "GLOBAL OPTIONS"),
        (Scope::Database, "[DATABASES.NAME]"),
        (Scope::Listener, "[LISTENERS.NAME]"),
        (Scope::Pool, "[POOLS.DATABASE.USER]"),
        (Scope::User, "[USERS.NAME]"),
        (Scope::Peer, "[PEERS.ID]"),
    ] {
        roff.control("SH", [heading]);
        scope
            .options()
            .iter()
            .for_each(|option| describe(option, &mut roff));
    }
    roff.control("SH", ["FILES"]);
    roff.text([roman("/etc/weir/weir.toml, /etc/weir/userlist.txt")]);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman("weir(1), weir-check(1)")]);
    Page {
        file: "weir.toml.5".to_owned(),
        text: roff.to_roff(),
    }
}

fn describe(option: &Opt, roff: &mut Roff) {
    let mut head = vec![bold(option.name)];
    for alias in option.aliases {
        head.extend([roman(", "), bold(*alias)]);
    }
    head.push(roman(format!(" ({})", option.values_text())));
    if let Some(default) = option.default_text() {
        head.push(roman(format!(", default {default}")));
    }
    if !option.reloadable {
        head.push(roman(" (restart)"));
    }
    roff.control("TP", []);
    roff.text(head);
    // Backquotes are for the reference page.
    let mut meaning = option.doc.trim().replace('`', "");
    match option.effect {
        Effect::Full => {}
        Effect::None(why) => {
            meaning.push_str(" Accepted, without effect: ");
            meaning.push_str(&why.replace('`', ""));
        }
    }
    roff.text([roman(meaning)]);
}
