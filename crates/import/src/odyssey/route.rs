//! Settings of a route of Odyssey.

use weir_config::Scope;

use super::facts::{Facts, Place, Route};
use super::rows::ROUTE;
use super::{VERSION, access, storage};
use crate::apply::{How, apply, by_groups, millis, push, secret, set, set_other};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::leaf::Leaf;

const MODES: &[(&str, &str)] = &[
    ("session", "session"),
    ("transaction", "transaction"),
    ("statement", "statement"),
];

/// Maps a setting of a route.
pub(super) fn setting(
    leaf: &Leaf,
    rest: &[&str],
    route: &Route,
    facts: &Facts,
    draft: &mut Draft,
) -> Outcome {
    match *rest {
        ["options" | "backend_startup_options", ..] => Outcome::NotMapped(
            "use ALTER ROLE ... SET or ALTER DATABASE ... SET on the server".to_owned(),
        ),
        ["ldap_storage_credentials", ..] => Outcome::NotMapped(
            "set auth_type = \"ldap\" and auth_ldap_options, see docs/guide/ldap-and-pam.md"
                .to_owned(),
        ),
        ["authentication"] => access::outcome(facts, route),
        _ if route.is_blocked() => Outcome::NoMeaning("nobody gets in by this route"),
        [name] if route.is_console => console(leaf, name, route, draft),
        [name] => served(leaf, name, route, facts, draft),
        _ => Outcome::Unknown(VERSION),
    }
}

/// A route to the console gives its users the rights of the console.
fn console(leaf: &Leaf, name: &str, route: &Route, draft: &mut Draft) -> Outcome {
    let rights = match route.value("role").as_str() {
        "admin" => Some("admin_users"),
        "notallow" => None,
        _ => Some("stats_users"),
    };
    match (name, &route.user, rights) {
        ("name", Some(user), Some(option)) => push(draft, Table::Global, option, user.clone()),
        ("name", ..) => Outcome::NoMeaning("the user has no rights in the console"),
        ("default", ..) => Outcome::NotMapped(
            "name the users of the console in admin_users and stats_users".to_owned(),
        ),
        ("role", ..) => Outcome::Mapped("admin_users or stats_users".to_owned()),
        ("password", Some(user), _) => secret(leaf, user, draft),
        ("password", None, _) => Outcome::NotMapped("a secret belongs to one user".to_owned()),
        _ => Outcome::NoMeaning("the console has no pool"),
    }
}

fn served(leaf: &Leaf, name: &str, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    let table = route.table();
    match name {
        "name" | "default" | "address" | "connection" => {
            draft.touch(table);
            match facts.needs_hba() {
                true => Outcome::Mapped("auth_hba_file".to_owned()),
                false => Outcome::NoMeaning("auth_file and auth_query decide who may log in"),
            }
        }
        "auth_pam_service" => Outcome::Mapped("auth_hba_file".to_owned()),
        "auth_common_name" if leaf.text() == "default" => {
            Outcome::NoMeaning("the name of a certificate is that of the user")
        }
        "auth_common_name" => Outcome::NotMapped(
            "use an ident map: auth_ident_file, and map= in the line of auth_hba_file".to_owned(),
        ),
        "password" => match route.user.as_ref().filter(|_| !route.is_group) {
            Some(user) => secret(leaf, user, draft),
            None => Outcome::NotMapped("a secret belongs to one user; see auth_query".to_owned()),
        },
        "role" => Outcome::NoMeaning("only users of the console have rights there"),
        "storage" => storage::hosts(route, facts, draft),
        "storage_db" | "storage_user" | "storage_password" => {
            identity(leaf, name, route, facts, draft)
        }
        "target_session_attrs" => {
            let storage = facts.storage(&route.value("storage"));
            let is_alone = storage.is_none_or(|storage| storage.endpoints("").len() < 2);
            match facts.target(route) == leaf.text() {
                _ if is_alone => Outcome::NoMeaning("the database has one host"),
                true => Outcome::Mapped(format!("{} = {:?}", table.path("target"), leaf.text())),
                false => Outcome::NotMapped(
                    "another route of this database has another value: give it an entry of its own"
                        .to_owned(),
                ),
            }
        }
        "auth_query" | "auth_query_user" | "auth_query_db" => {
            query(leaf, name, route, facts, draft)
        }
        "client_max" => clients(leaf, route, facts, draft),
        "shared_pool" => shared(leaf, route, facts, draft),
        _ if name.starts_with("pool") || name == "min_pool_size" => {
            pool(leaf, name, route, facts, draft)
        }
        _ => general(leaf, name, route, facts, draft),
    }
}

fn general(leaf: &Leaf, name: &str, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    match name {
        "server_lifetime" if leaf.number() == Some(0) => {
            Outcome::NotMapped("0 closes a server after each use in Weir: give a time".to_owned())
        }
        "server_lifetime" => spread(
            How::Seconds("server_lifetime"),
            leaf,
            name,
            route,
            facts,
            draft,
        ),
        "application_name_add_host" => spread(
            How::Flag("application_name_add_host"),
            leaf,
            name,
            route,
            facts,
            draft,
        ),
        _ => match by_groups(ROUTE, name) {
            Some(how) => apply(how, leaf, Table::Global, draft),
            None => Outcome::Unknown(VERSION),
        },
    }
}

fn pool(leaf: &Leaf, name: &str, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    let is_session = route.value("pool") == "session";
    let how = match name {
        "pool" => How::Word("pool_mode", MODES),
        "pool_size" => return size(leaf, route, facts, draft),
        "min_pool_size" => How::Number("min_pool_size"),
        "pool_timeout" => How::Millis("query_wait_timeout"),
        "pool_ttl" => return idle(leaf, route, facts, draft),
        "pool_client_idle_timeout" | "pool_idle_in_transaction_timeout" if !is_session => {
            return Outcome::NoMeaning("Odyssey looks at it with pool \"session\" only");
        }
        "pool_client_idle_timeout" => How::Seconds("client_idle_timeout"),
        "pool_idle_in_transaction_timeout" => How::Seconds("idle_transaction_timeout"),
        "pool_notice_after_waiting_ms" if leaf.number() == Some(0) => {
            return Outcome::NoMeaning("see query_wait_notify");
        }
        "pool_notice_after_waiting_ms" => How::Millis("query_wait_notify"),
        "pool_discard" | "pool_discard_query" if !is_session => {
            return Outcome::NoMeaning("session state follows the client");
        }
        "pool_discard" if leaf.flag() == Some(false) => {
            let place = facts.place(route, name);
            return match place {
                Place::Everywhere => {
                    set(draft, Table::Global, "server_reset_query", Term::text(""))
                }
                _ => Outcome::NotMapped("all session pools have one server_reset_query".to_owned()),
            };
        }
        "pool_discard" => return Outcome::Default("server_reset_query".to_owned()),
        "pool_discard_query" => How::Copy("server_reset_query"),
        "pool_reserve_prepared_statement" if leaf.flag() == Some(false) && !is_session => {
            let place = facts.place(route, name);
            return match place {
                Place::Everywhere => set(
                    draft,
                    Table::Global,
                    "max_prepared_statements",
                    Term::Number(0),
                ),
                _ => Outcome::NoMeaning("clients without prepared statements notice nothing"),
            };
        }
        "pool_reserve_prepared_statement" => {
            return Outcome::NoMeaning(
                "Weir supports prepared statements; see max_prepared_statements",
            );
        }
        _ => return general(leaf, name, route, facts, draft),
    };
    spread(how, leaf, name, route, facts, draft)
}

/// Writes an option at the widest place where all routes agree.
fn spread(
    how: How,
    leaf: &Leaf,
    name: &str,
    route: &Route,
    facts: &Facts,
    draft: &mut Draft,
) -> Outcome {
    let option = match how {
        How::Copy(option)
        | How::Flag(option)
        | How::Millis(option)
        | How::Number(option)
        | How::Seconds(option)
        | How::Word(option, _) => option,
        How::List(_) | How::Nothing(_) | How::Not(..) => {
            return apply(how, leaf, Table::Global, draft);
        }
    };
    let table = match facts.place(route, name) {
        Place::Everywhere => Table::Global,
        Place::Table(table) => table,
        Place::Nowhere => {
            let why =
                format!("routes disagree, and Weir has no {option} for a user of every database");
            return Outcome::NotMapped(why);
        }
    };
    let scope = match &table {
        Table::Global => Scope::Global,
        Table::Database(_) | Table::Host(..) => Scope::Database,
        Table::Pool(..) => Scope::Pool,
        Table::User(_) => Scope::User,
    };
    match scope.find(option) {
        Some(_) => apply(how, leaf, table, draft),
        None => Outcome::NotMapped(format!(
            "routes disagree, and Weir has no {}",
            table.path(option)
        )),
    }
}

/// Writes the time after which idle servers are closed. Where no place fits, the longest of all routes: 0 means never.
fn idle(leaf: &Leaf, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    let table = match facts.place(route, "pool_ttl") {
        Place::Everywhere => Some(Table::Global),
        Place::Table(Table::User(user)) => {
            let database = route.database.clone();
            database.map(|database| Table::Pool(database, user))
        }
        Place::Table(table) => Some(table),
        Place::Nowhere => None,
    };
    if let Some(table) = table {
        return apply(How::Seconds("server_idle_timeout"), leaf, table, draft);
    }
    let times: Vec<i64> = facts
        .served()
        .filter_map(|route| route.value("pool_ttl").parse().ok())
        .collect();
    let longest = times.iter().copied().max().filter(|_| !times.contains(&0));
    let time = millis(longest.unwrap_or_default().saturating_mul(1000));
    let why = "routes disagree: the longest time counts for all of them";
    set_other(
        draft,
        Table::Global,
        "server_idle_timeout",
        Term::Text(time),
        why,
    )
}

/// Writes the size of a pool; where routes of a database disagree and users cannot tell, the largest counts.
fn size(leaf: &Leaf, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    match facts.place(route, "pool_size") {
        Place::Everywhere => apply(How::Number("default_pool_size"), leaf, Table::Global, draft),
        Place::Table(table) => apply(How::Number("pool_size"), leaf, table, draft),
        Place::Nowhere => {
            let same = facts
                .served()
                .filter(|other| other.database == route.database);
            let sizes: Vec<i64> = same
                .filter_map(|other| other.value("pool_size").parse().ok())
                .collect();
            let is_unlimited = sizes.contains(&0);
            let largest = sizes.into_iter().max().filter(|_| !is_unlimited);
            let largest = largest.unwrap_or_default();
            let why = format!(
                "routes disagree: the largest of this database, {largest}, counts for all of them"
            );
            set_other(
                draft,
                route.table(),
                "pool_size",
                Term::Number(largest),
                why,
            )
        }
    }
}

/// Database and login on the server, which an entry has for all its users.
fn identity(leaf: &Leaf, name: &str, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    let value = route.value(name);
    let mut same = facts
        .served()
        .filter(|other| other.database == route.database);
    let agree = same.all(|other| other.value(name) == value);
    let table = route.table();
    match (name, agree) {
        ("storage_db", true) => apply(How::Copy("dbname"), leaf, table, draft),
        ("storage_user", true) => apply(How::Copy("user"), leaf, table, draft),
        ("storage_password", _) => {
            let user = Some(route.value("storage_user")).filter(|user| !user.is_empty());
            match user.or_else(|| route.user.clone()) {
                Some(user) => secret(leaf, &user, draft),
                None => Outcome::NotMapped("a secret belongs to one user".to_owned()),
            }
        }
        _ => Outcome::NotMapped(
            "routes of this database disagree: give it an entry of its own under another name"
                .to_owned(),
        ),
    }
}

fn query(leaf: &Leaf, name: &str, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    let option = match name {
        "auth_query" => "auth_query",
        "auth_query_user" => "auth_user",
        _ => "auth_dbname",
    };
    let text = leaf.text().replace("'%u'", "$1").replace("%u", "$1");
    if name == "auth_query" && text.contains("%h") {
        return Outcome::NotMapped("the query knows the user, $1, and no address".to_owned());
    }
    let table = match facts.place(route, name) {
        Place::Everywhere => Table::Global,
        _ => route.table(),
    };
    let mut same = facts
        .served()
        .filter(|other| other.database == route.database);
    match table == Table::Global || same.all(|other| other.value(name) == route.value(name)) {
        true => set(draft, table, option, Term::Text(text)),
        false => Outcome::NotMapped(format!("routes of this database disagree on {option}")),
    }
}

/// Limits the clients of a route, if the route is all of a database or of a user.
fn clients(leaf: &Leaf, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    let of_database = facts
        .served()
        .filter(|other| other.database == route.database);
    let of_user = facts.served().filter(|other| other.user == route.user);
    match &route.user {
        _ if of_database.count() == 1 && route.database.is_some() => apply(
            How::Number("max_db_client_connections"),
            leaf,
            route.table(),
            draft,
        ),
        Some(user) if of_user.count() == 1 && !route.is_group => {
            let table = Table::User(user.clone());
            apply(
                How::Number("max_user_client_connections"),
                leaf,
                table,
                draft,
            )
        }
        _ => Outcome::NotMapped(
            "clients are limited per database or per user, not for a pair".to_owned(),
        ),
    }
}

/// A pool that routes share is a limit of their database, if they are all of one.
fn shared(leaf: &Leaf, route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    let name = leaf.text();
    let mut sharing = facts
        .served()
        .filter(|other| other.value("shared_pool") == name);
    let is_one = sharing.all(|other| other.database == route.database);
    match facts.shared.get(&name) {
        Some(size) if is_one => set(
            draft,
            route.table(),
            "max_db_connections",
            Term::Number(*size),
        ),
        Some(_) => {
            Outcome::NotMapped("databases do not share a limit; see max_db_connections".to_owned())
        }
        None => Outcome::NotMapped("there is no shared_pool of this name".to_owned()),
    }
}
