//! Logins of Odyssey: each route has a method. Weir has one method for all, or an HBA file.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Facts, Route};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::hba::{self, quoted};

/// Method of a route whose method Weir does not have.
const UNKNOWN: &str = "unknown";

impl Facts {
    /// True if one method for everybody would let in clients that Odyssey refuses, or the other way round.
    pub(super) fn needs_hba(&self) -> bool {
        let routes = self.routes.iter().map(|(_, route)| route);
        let open = routes.filter(|route| !route.is_console);
        let methods: BTreeSet<String> = open.map(|route| method(route).0).collect();
        let is_special =
            |route: &Route| route.is_group || route.address.is_some() || route.connection.is_some();
        // Without passwords, or with passwords from a query, names are not limited by auth_file.
        let is_open = |route: &Route| {
            route.user.is_some() && (method(route).0 == "trust" || route.has("auth_query"))
        };
        let mut users: BTreeMap<&Option<String>, BTreeSet<&Option<String>>> = BTreeMap::new();
        for route in self.served() {
            users
                .entry(&route.database)
                .or_default()
                .insert(&route.user);
        }
        let mut sets = users.values().map(|users| match users.contains(&None) {
            true => BTreeSet::from([&None]),
            false => users.clone(),
        });
        let first = sets.next();
        let differ = sets.any(|set| Some(set) != first);
        let is_plain = methods.iter().all(|method| auth_type(method).is_some());
        methods.len() > 1
            || !is_plain
            || differ
            || self.served().any(is_special)
            || self.served().any(is_open)
    }

    /// Returns the method of all routes, if they have one.
    pub(super) fn common_method(&self) -> Option<String> {
        let mut methods = self.served().map(|route| method(route).0);
        let first = methods.next()?;
        methods.all(|method| method == first).then_some(first)
    }
}

/// Writes `auth_type`, or the lines of the HBA file in the order in which Odyssey looks for a route.
pub(super) fn write(facts: &Facts, draft: &mut Draft) {
    if facts.has_hba_file {
        draft.set(Table::Global, "auth_type", Term::text("hba"));
        return;
    }
    if !facts.needs_hba() {
        let method = facts.common_method().unwrap_or_default();
        if let Some(method) = auth_type(&method) {
            draft.set(Table::Global, "auth_type", Term::text(method));
        }
        return;
    }
    draft.set(Table::Global, "auth_type", Term::text("hba"));
    let is_sequential = facts
        .global
        .get("sequential_routing")
        .is_some_and(|value| value == "true");
    let mut routes: Vec<&Route> = facts.routes.iter().map(|(_, route)| route).collect();
    if !is_sequential {
        routes.sort_by_key(|route| (route.database.is_none(), route.user.is_none()));
    }
    for route in routes {
        for line in lines(route) {
            // A line that cannot be written lets in nobody, and the finding about its method says so.
            let _refused = hba::copy(&line, draft);
        }
    }
}

/// Says where the method of a route went.
pub(super) fn outcome(facts: &Facts, route: &Route) -> Outcome {
    let (method, _) = method(route);
    if auth_type(&method).is_none() && !matches!(method.as_str(), "reject" | "pam") {
        return Outcome::NotMapped("Weir has no such method; see auth_type".to_owned());
    }
    match facts.needs_hba() || facts.has_hba_file {
        true => Outcome::Mapped("auth_hba_file".to_owned()),
        false => Outcome::Mapped(format!("auth_type, {method}")),
    }
}

/// Returns method and options of a route, as an HBA line has them.
fn method(route: &Route) -> (String, String) {
    let method = match route.value("authentication").as_str() {
        "none" => "trust",
        "block" => "reject",
        "clear_text" if route.has("auth_pam_service") => {
            let service = quoted(&route.value("auth_pam_service"));
            return ("pam".to_owned(), format!(" pamservice={service}"));
        }
        "clear_text" => "password",
        "md5" => "md5",
        "scram-sha-256" => "scram-sha-256",
        "cert" => "cert",
        // Odyssey has no default.
        _ => UNKNOWN,
    };
    (method.to_owned(), String::new())
}

/// Returns the global method for a method of an HBA line.
fn auth_type(method: &str) -> Option<&'static str> {
    Some(match method {
        "trust" => "trust",
        "password" => "plain",
        "md5" => "md5",
        "scram-sha-256" => "scram-sha-256",
        "cert" => "cert",
        _ => return None,
    })
}

fn lines(route: &Route) -> Vec<String> {
    let database = match (&route.database, route.is_console) {
        (_, true) => hba::CONSOLE.to_owned(),
        (Some(name), false) => quoted(name),
        (None, false) => "all".to_owned(),
    };
    let user = match (&route.user, route.is_group) {
        (Some(name), true) => format!("+{}", name.trim_start_matches('+')),
        (Some(name), false) => quoted(name),
        (None, _) => "all".to_owned(),
    };
    let (method, options) = method(route);
    let address = route.address.as_deref().unwrap_or("all");
    let remote = |kind: &str| format!("{kind} {database} {user} {address} {method}{options}");
    let local = format!("local {database} {user} {method}{options}");
    match route.connection.as_deref() {
        Some("local") => vec![local],
        Some(kind) => vec![remote(kind)],
        None if method == "cert" => vec![remote("hostssl")],
        None if route.address.is_some() => vec![remote("host")],
        None => vec![local, remote("host")],
    }
}

/// Maps a line of Odyssey's HBA file, whose method is `allow` or `deny`.
pub(super) fn hba_line(line: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let (front, verdict) = line.rsplit_once(char::is_whitespace).unwrap_or((line, ""));
    let method = match verdict {
        "deny" | "reject" => "reject".to_owned(),
        "allow" => match facts.common_method() {
            Some(method) if auth_type(&method).is_some() => method,
            _ => {
                hba::refuse(line, draft);
                let why =
                    "routes have methods of their own: write the line with the method of its route";
                return Outcome::NotMapped(why.to_owned());
            }
        },
        _ => {
            hba::refuse(line, draft);
            return Outcome::NotMapped("the line ends in neither allow nor deny".to_owned());
        }
    };
    hba::copy(&format!("{front} {method}"), draft)
}
