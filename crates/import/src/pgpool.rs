//! Pgpool-II: `pgpool.conf`, `pool_hba.conf`, `pool_passwd` and `pcp.conf`. A session has a process and a server of its own
//! there; Weir shares servers, and splits reads and writes in transaction pooling only.

mod hosts;
mod read;
mod rows;

use std::collections::BTreeMap;

use self::hosts::Nodes;
pub(crate) use self::read::lines as read_lines;
pub(crate) use self::read::read;
use self::read::{HBA, PASSWORDS, PCP};
use self::rows::{COPIED, DEFAULTS, NUMBERED, OTHERS, PARTS};
use crate::apply::{How, apply, by_groups, elements, secret_text, set, set_other};
use crate::draft::{Draft, Table, Term};
use crate::finding::{Finding, Outcome};
use crate::hba;
use crate::leaf::{Leaf, add_defaults};

const VERSION: &str = "Pgpool-II 4.8";
/// Prefix of a password in clear text, and of an encrypted one.
const CLEAR: &str = "TEXT";
const ENCRYPTED: &str = "AES";

/// Values that decide about other settings.
struct Facts {
    values: BTreeMap<String, Leaf>,
    nodes: Nodes,
    /// Lines of each name, for settings that stand twice.
    last: BTreeMap<String, usize>,
    has_hba: bool,
    has_md5: bool,
    /// Users of `pcp.conf`.
    admins: Vec<String>,
}

impl Facts {
    fn gather(leaves: &[Leaf]) -> Self {
        let mut values = BTreeMap::new();
        let mut last = BTreeMap::new();
        for (at, leaf) in leaves.iter().enumerate() {
            if let [name] = leaf.path.as_slice() {
                values.insert(name.clone(), leaf.clone());
                last.insert(name.clone(), at);
            }
        }
        let is_in = |leaf: &&Leaf, name: &str| leaf.path.first().is_some_and(|first| first == name);
        let secrets = leaves.iter().filter(|leaf| is_in(leaf, PASSWORDS));
        let admins = leaves.iter().filter(|leaf| is_in(leaf, PCP));
        Self {
            nodes: Nodes::gather(&values),
            values,
            last,
            has_hba: leaves.iter().any(|leaf| is_in(&leaf, HBA)),
            has_md5: secrets.clone().any(|leaf| leaf.text().starts_with("md5")),
            admins: admins
                .filter_map(|leaf| leaf.path.get(1).cloned())
                .collect(),
        }
    }

    fn is_on(&self, name: &str) -> bool {
        let value = self.values.get(name);
        value.and_then(Leaf::flag).unwrap_or_default()
    }

    fn text(&self, name: &str) -> String {
        self.values.get(name).map(Leaf::text).unwrap_or_default()
    }

    fn number(&self, name: &str) -> i64 {
        let value = self.values.get(name);
        value.and_then(Leaf::number).unwrap_or_default().max(0)
    }

    /// True if reads go to replicas.
    fn splits(&self) -> bool {
        self.is_on("load_balance_mode") && self.nodes.are_several()
    }

    fn children(&self) -> i64 {
        self.number("num_init_children").max(1)
    }

    fn backlog(&self) -> i64 {
        let factor = self.number("listen_backlog_multiplier").max(1);
        self.children().saturating_mul(factor)
    }

    /// Returns the user that asks hosts for their roles, and the name of its setting.
    fn watcher(&self) -> Option<(String, &'static str)> {
        let users = ["sr_check_user", "health_check_user"];
        let named = users.map(|name| (self.text(name), name));
        named.into_iter().find(|(user, _)| !user.is_empty())
    }
}

/// Maps all settings.
pub(crate) fn map(mut leaves: Vec<Leaf>, draft: &mut Draft) -> Vec<Finding> {
    for leaf in &mut leaves {
        if let [name] = leaf.path.as_mut_slice() {
            rename(name);
        }
    }
    add_defaults(&mut leaves, DEFAULTS);
    let facts = Facts::gather(&leaves);
    whole(&facts, draft);
    let mut findings = Vec::new();
    for (at, leaf) in leaves.iter().enumerate() {
        let is_last = leaf.path.len() > 1
            || leaf.path.first().and_then(|name| facts.last.get(name)) == Some(&at);
        let outcome = match is_last {
            true => setting(leaf, &facts, draft),
            false => Outcome::NoMeaning("a later line sets it again"),
        };
        findings.push(Finding::new(leaf, outcome));
    }
    findings
}

/// Translates names of older versions.
fn rename(name: &mut String) {
    let new = match name.as_str() {
        "socket_dir" => "unix_socket_directories",
        "white_function_list" => "read_only_function_list",
        "black_function_list" => "write_function_list",
        "black_query_pattern_list" => "primary_routing_query_pattern_list",
        _ => return,
    };
    new.clone_into(name);
}

/// Writes what no single setting decides.
fn whole(facts: &Facts, draft: &mut Draft) {
    if facts.splits() {
        draft.set(Table::Global, "pool_mode", Term::text("transaction"));
        draft.note(
            "load_balance_mode: Weir splits reads and writes with pool_mode = \"transaction\" only, where the state of \
             sessions follows their clients; see docs/guide/session-state.md",
        );
    }
    let children = facts.children();
    let cached = children.saturating_mul(facts.number("max_pool").max(1));
    draft.note(format!(
        "servers on each host at most: Pgpool-II {cached} (num_init_children x max_pool); Weir {children} for each pair \
         of database and user (default_pool_size), of which transaction pooling needs only as many as have a \
         transaction at once"
    ));
    if !facts.is_on("enable_pool_hba") {
        let method = match facts.has_md5 {
            true => "md5",
            false => "scram-sha-256",
        };
        draft.set(Table::Global, "auth_type", Term::text(method));
        draft.note(
            "enable_pool_hba is off: PostgreSQL checked the clients; Weir checks them itself, so each user needs a line in \
             auth_file, or set auth_user for auth_query",
        );
    }
    draft.note(
        "applications may send PGPOOL SHOW, PGPOOL SET and /*NO LOAD BALANCE*/, which mean nothing to Weir; SHOW POOL_NODES \
         and the pcp commands are the console's SHOW HOSTS, PAUSE and RESUME",
    );
}

fn setting(leaf: &Leaf, facts: &Facts, draft: &mut Draft) -> Outcome {
    match leaf.parts().as_slice() {
        [HBA, _] => hba_line(leaf, facts, draft),
        [PASSWORDS, user] => password(&leaf.text(), user, draft),
        [PCP, _] => {
            let why = "its hash cannot be used: the user needs a line in auth_file";
            set_other(
                draft,
                Table::Global,
                "admin_users",
                Term::List(facts.admins.clone()),
                why,
            )
        }
        [name] => of_file(leaf, name, facts, draft),
        _ => Outcome::Unknown(VERSION),
    }
}

fn of_file(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let (base, node) = split_number(name);
    if let Some((_, how)) = COPIED.iter().find(|(known, _)| *known == base) {
        return match node {
            Some(_) => Outcome::NoMeaning("the setting without a number counts for all hosts"),
            None => copied(*how, leaf, draft),
        };
    }
    if let Some((switch, why, _)) = PARTS.iter().find(|(.., names)| names.contains(&base)) {
        return match facts.is_on(switch) {
            true => Outcome::NotMapped((*why).to_owned()),
            false => Outcome::NoMeaning(why),
        };
    }
    if let Some(how) = by_groups(OTHERS, base) {
        return apply(how, leaf, Table::Global, draft);
    }
    match base {
        "backend_hostname" | "backend_port" | "backend_weight" | "backend_flag" => {
            facts.nodes.setting(leaf, base, node, facts, draft)
        }
        _ if name.starts_with("ssl") => tls(leaf, name, facts, draft),
        _ if name.starts_with("log_") || name.starts_with("syslog") => logging(leaf, name, draft),
        _ if base.starts_with("health_check_") || name.starts_with("sr_check_") => {
            watching(leaf, base, facts, draft)
        }
        _ => single(leaf, name, facts, draft),
    }
}

/// Empty values are those of a setting that is not set.
fn copied(how: How, leaf: &Leaf, draft: &mut Draft) -> Outcome {
    match leaf.text().is_empty() && !matches!(how, How::List(_)) {
        true => Outcome::NoMeaning("not set"),
        false => apply(how, leaf, Table::Global, draft),
    }
}

fn single(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let text = leaf.text();
    match name {
        "backend_clustering_mode" => match text.as_str() {
            "streaming_replication" | "logical_replication" => {
                Outcome::NoMeaning("PostgreSQL replicates, and Weir asks each host for its role")
            }
            "raw" if !facts.nodes.are_several() => Outcome::NoMeaning("there is one host"),
            _ => {
                Outcome::NotMapped("Weir does not replicate: use streaming replication".to_owned())
            }
        },
        "unix_socket_directories" => {
            let first = elements(&text).into_iter().next().unwrap_or_default();
            set(draft, Table::Global, "unix_socket_dir", Term::Text(first))
        }
        "num_init_children" => {
            let waiting = facts.children().saturating_add(facts.backlog());
            draft.set(Table::Global, "max_client_conn", Term::Number(waiting));
            let why = "further clients wait for a server instead of a process; max_client_conn counts them too";
            set_other(
                draft,
                Table::Global,
                "default_pool_size",
                Term::Number(facts.children()),
                why,
            )
        }
        "listen_backlog_multiplier" => set(
            draft,
            Table::Global,
            "listen_backlog",
            Term::Number(facts.backlog()),
        ),
        "reset_query_list" => reset(&text, draft),
        "enable_pool_hba" if leaf.flag() == Some(false) => {
            Outcome::Mapped("auth_type, see the notes".to_owned())
        }
        "enable_pool_hba" if facts.has_hba => {
            set(draft, Table::Global, "auth_type", Term::text("hba"))
        }
        "enable_pool_hba" => Outcome::NotMapped("give pool_hba.conf as a further file".to_owned()),
        "pool_passwd" => match facts.values.is_empty() || text.is_empty() {
            true => Outcome::NoMeaning("there is no file of passwords"),
            false => {
                Outcome::NoMeaning("give this file as a further one: its lines go to auth_file")
            }
        },
        "allow_clear_text_frontend_auth" => apply(
            How::Not("off", "use auth_query, or auth_type = \"plain\" with TLS"),
            leaf,
            Table::Global,
            draft,
        ),
        _ => splitting(leaf, name, facts, draft),
    }
}

/// Settings about reads on replicas.
fn splitting(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    const NO_SPLIT: &str = "no statement is sent to a replica";
    let table = hosts::table();
    let text = leaf.text();
    match name {
        "load_balance_mode" if facts.splits() => {
            set(draft, table, "read_write_split", Term::text("auto"))
        }
        "load_balance_mode" => Outcome::NoMeaning(NO_SPLIT),
        "statement_level_load_balance" => {
            Outcome::NoMeaning("each transaction chooses its host, not each session")
        }
        "disable_load_balance_on_write"
        | "delay_threshold"
        | "delay_threshold_by_time"
        | "read_only_function_list"
        | "write_function_list"
            if !facts.splits() =>
        {
            Outcome::NoMeaning(NO_SPLIT)
        }
        "disable_load_balance_on_write" => match text.as_str() {
            "off" => Outcome::NotMapped(
                "reads of a transaction that has written stay on the primary, and see what it wrote".to_owned(),
            ),
            _ => {
                let why = "a session never reads data that is older than its own commits (read_consistency)";
                set_other(draft, table, "split_begin", Term::text("until-write"), why)
            }
        },
        "delay_threshold" => apply(How::Number("max_lag"), leaf, table, draft),
        "delay_threshold_by_time" if leaf.number().is_some_and(|number| number != 0) => {
            let why = "a number alone means seconds in Pgpool-II 4.4 and milliseconds in later versions: write the unit";
            Outcome::NotMapped(why.to_owned())
        }
        "delay_threshold_by_time" => apply(How::Millis("max_staleness"), leaf, table, draft),
        "read_only_function_list" => functions(&text, "read_functions", draft),
        "write_function_list" => functions(&text, "primary_functions", draft),
        _ => Outcome::Unknown(VERSION),
    }
}

/// Copies names of functions. Regular expressions have no counterpart.
fn functions(text: &str, option: &'static str, draft: &mut Draft) -> Outcome {
    let names = elements(text);
    let is_plain = |name: &String| {
        let mut rest = name.chars();
        rest.all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    };
    match names.iter().all(is_plain) {
        _ if names.is_empty() => Outcome::NoMeaning("no function is listed"),
        true => set(draft, hosts::table(), option, Term::List(names)),
        false => Outcome::NotMapped(format!("{option} takes names, no regular expressions")),
    }
}

fn reset(text: &str, draft: &mut Draft) -> Outcome {
    let statements = text.split(';').map(str::trim);
    let kept: Vec<&str> = statements
        .filter(|statement| !statement.is_empty() && !statement.eq_ignore_ascii_case("abort"))
        .collect();
    set(
        draft,
        Table::Global,
        "server_reset_query",
        Term::Text(kept.join("; ")),
    )
}

fn tls(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let text = leaf.text();
    let is_on = facts.is_on("ssl");
    let both = |draft: &mut Draft, names: [&'static str; 2], term: Term| {
        let [client, server] = names;
        draft.set(Table::Global, client, term.clone());
        set(draft, Table::Global, server, term);
        Outcome::Mapped(format!("{client} and {server}"))
    };
    match name {
        "ssl" if is_on => both(
            draft,
            ["client_tls_sslmode", "server_tls_sslmode"],
            Term::text("prefer"),
        ),
        "ssl" => set(
            draft,
            Table::Global,
            "server_tls_sslmode",
            Term::text("disable"),
        ),
        "ssl_key" | "ssl_cert" | "ssl_ca_cert" | "ssl_crl_file" if !is_on || text.is_empty() => {
            Outcome::NoMeaning("ssl is off, or the name is empty")
        }
        "ssl_key" => set(
            draft,
            Table::Global,
            "client_tls_key_file",
            Term::Text(text),
        ),
        "ssl_cert" => set(
            draft,
            Table::Global,
            "client_tls_cert_file",
            Term::Text(text),
        ),
        "ssl_ca_cert" => both(
            draft,
            ["client_tls_ca_file", "server_tls_ca_file"],
            Term::Text(text),
        ),
        "ssl_crl_file" => set(
            draft,
            Table::Global,
            "client_tls_crl_file",
            Term::Text(text),
        ),
        _ => Outcome::Unknown(VERSION),
    }
}

fn logging(leaf: &Leaf, name: &str, draft: &mut Draft) -> Outcome {
    let text = leaf.text().to_lowercase();
    match name {
        "log_destination" => {
            let is_syslog = elements(&text).iter().any(|place| place == "syslog");
            set(draft, Table::Global, "syslog", Term::Flag(is_syslog))
        }
        "syslog_facility" => set(draft, Table::Global, "syslog_facility", Term::Text(text)),
        _ => Outcome::Unknown(VERSION),
    }
}

/// Settings of the connections that look after hosts. One user remains in Weir.
fn watching(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let text = leaf.text();
    if !facts.nodes.are_several() {
        return Outcome::NoMeaning("a single host is not watched");
    }
    let Some((user, used)) = facts.watcher() else {
        return Outcome::NoMeaning("no user is named; see watch_user");
    };
    let stem = used.trim_end_matches("_user");
    match name.strip_prefix(stem) {
        Some("_user") => set(draft, hosts::table(), "watch_user", Term::Text(user)),
        Some("_password") if text.is_empty() => {
            Outcome::NoMeaning("the password is that of auth_file")
        }
        Some("_password") => password(&text, &user, draft),
        Some("_database") if !text.is_empty() => {
            set(draft, hosts::table(), "watch_dbname", Term::Text(text))
        }
        Some("_database") => Outcome::NoMeaning("not set"),
        _ if name.starts_with("health_check_") => {
            Outcome::NoMeaning("one user watches hosts, that of sr_check_user")
        }
        _ => Outcome::Unknown(VERSION),
    }
}

/// Moves a password of any of the three forms.
fn password(text: &str, user: &str, draft: &mut Draft) -> Outcome {
    if text.starts_with(ENCRYPTED) {
        let why = "it is encrypted with a key of Pgpool-II: put the password into auth_file";
        return Outcome::NotMapped(why.to_owned());
    }
    secret_text(text.strip_prefix(CLEAR).unwrap_or(text), user, draft)
}

/// Copies a line of the HBA file, which has PostgreSQL's format.
fn hba_line(leaf: &Leaf, facts: &Facts, draft: &mut Draft) -> Outcome {
    if !facts.is_on("enable_pool_hba") {
        return Outcome::NoMeaning("enable_pool_hba is off");
    }
    hba::copy(&leaf.text(), draft)
}

/// Splits the number of a node from a name that may have one.
fn split_number(name: &str) -> (&str, Option<usize>) {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name
        .get(base.len()..)
        .and_then(|digits| digits.parse().ok());
    match number {
        Some(number) if NUMBERED.contains(&base) => (base, Some(number)),
        _ => (name, None),
    }
}
