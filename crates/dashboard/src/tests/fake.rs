//! A pooler for tests: its tables, users and options are what a test says.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_rustls::rustls::ServerConfig;

use crate::desk::lock;
use crate::source::{
    Action, Column, Denied, Kind, Line, Missing, Options, Role, Scope, Series, Source, Table, Who,
};

#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) tables: Mutex<HashMap<String, Table>>,
    pub(crate) options: Mutex<Options>,
    /// Actions that were carried out.
    pub(crate) acts: Mutex<Vec<(Action, Who)>>,
    /// Number of fetches of tables.
    pub(crate) fetches: AtomicUsize,
    pub(crate) failures: AtomicUsize,
    /// Users without rights any more.
    pub(crate) removed: Mutex<Vec<String>>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Reason why the workers do not answer.
    pub(crate) failure: Mutex<Option<String>>,
}

/// Makes a table. Names with `#` in front are of numbers.
pub(crate) fn table(columns: &[&str], rows: &[&[&str]]) -> Table {
    let column = |name: &&str| Column {
        name: name.trim_start_matches('#').to_owned(),
        kind: if name.starts_with('#') {
            Kind::Number
        } else {
            Kind::Text
        },
    };
    let row = |row: &&[&str]| row.iter().map(|text| Some((*text).to_owned())).collect();
    Table {
        columns: columns.iter().map(column).collect(),
        rows: rows.iter().map(row).collect(),
    }
}

impl Fake {
    pub(crate) fn set(&self, name: &str, table: Table) {
        lock(&self.tables).insert(name.to_owned(), table);
    }
}

impl Source for Fake {
    fn table(&self, name: &str) -> Result<Table, Missing> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        if let Some(why) = lock(&self.failure).clone() {
            return Err(Missing::Failed(why));
        }
        let found = lock(&self.tables).get(name).cloned();
        found.ok_or_else(|| Missing::Unknown(format!("SHOW {name}")))
    }

    fn history(&self, scope: &Scope, _: u32) -> Result<Series, Missing> {
        if *scope != Scope::Process {
            return Err(Missing::Unknown("a history of pools".to_owned()));
        }
        Ok(Series {
            from: 1_700_000_000,
            step: 1,
            lines: vec![Line {
                name: "clients".to_owned(),
                values: vec![Some(1.0), Some(3.0), None],
            }],
            marks: Vec::new(),
        })
    }

    fn act(&self, action: &Action, who: &Who) -> Result<String, String> {
        if *action == Action::Pause("absent".to_owned()) {
            return Err("no such database: absent".to_owned());
        }
        lock(&self.acts).push((action.clone(), who.clone()));
        Ok("done".to_owned())
    }

    /// Ann administers, Bob reads; passwords are the names.
    fn sign_in(&self, user: &str, password: &[u8], _: IpAddr) -> Result<Role, Denied> {
        if self.failures.load(Ordering::SeqCst) >= 3 {
            return Err(Denied::TooMany);
        }
        match self.role(user) {
            Some(role) if password == user.as_bytes() => Ok(role),
            _ => {
                self.failures.fetch_add(1, Ordering::SeqCst);
                Err(Denied::Wrong(Duration::from_millis(1)))
            }
        }
    }

    fn role(&self, user: &str) -> Option<Role> {
        let is_removed = lock(&self.removed).iter().any(|removed| removed == user);
        match user {
            _ if is_removed => None,
            "ann" => Some(Role::Admin),
            "bob" => Some(Role::Stats),
            _ => None,
        }
    }

    fn options(&self) -> Options {
        lock(&self.options).clone()
    }

    fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.clone()
    }

    fn unix(&self) -> i64 {
        1_700_000_000
    }
}
