//! The console's tables, orders and users for the dashboard.
//!
//! Tables come from the table of commands by their names, so that pages and console cannot differ, and a new `SHOW` is
//! there at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use weir_config::PgBouncerVersion;
use weir_dashboard::{
    Action, Column, Denied, Kind, Line, Missing, Options, Role, Scope, Series, Source, Table, Who,
};
use weir_proxy::console;
use weir_proxy::diagnosis::EventKind;
use weir_proxy::inspect::{Barred, Detail, Inspector};
use weir_stats::Snapshot;

use crate::command::{self, Action as Effect, SHOW_DIGESTS};
use crate::digests;
use crate::shared::Shared;
use crate::show::{self, Context, Heading, Row};

/// Time for which a snapshot serves several tables of a page.
const FRESH: Duration = Duration::from_millis(500);

/// Text in place of charts for an object without a history.
const NO_HISTORY: &str =
    "no figures yet: the fifty busiest pools have a history, from the start of the process on";
/// Microseconds in a second.
const MICROSECONDS: f64 = 1e6;

/// Tables that need no row for each client and server.
const OF_POOLS: [&str; 17] = [
    "APPLICATIONS",
    "CONFIG",
    "DATABASES",
    "DIAGNOSIS",
    "ERRORS",
    "EVENTS",
    "EXTENDED POOLS",
    "HOSTS",
    "LIMITS",
    "LOGINS",
    "MIRRORS",
    "POOL_SIZE",
    "POOL_SIZE_DECISIONS",
    "RULES",
    "STATE",
    "TLS",
    "VERSION",
];

/// Returns what the dashboard shows. `version` is Weir's own, such as `0.1.0`.
pub fn dashboard(shared: Shared, version: &str, inspector: Inspector) -> impl Source + use<> {
    Desk {
        shared,
        version: version.to_owned(),
        inspector,
        snapshots: Mutex::default(),
    }
}

struct Desk {
    shared: Shared,
    version: String,
    inspector: Inspector,
    /// Last snapshots with their times.
    snapshots: Mutex<HashMap<Detail, (Duration, Arc<Snapshot>)>>,
}

impl Desk {
    /// Returns a recent snapshot. Concurrent callers wait for one collection.
    fn snapshot(&self, detail: Detail) -> Result<Arc<Snapshot>, Missing> {
        // A snapshot is always complete, so the map left by a panicking thread can be used.
        let mut kept = self
            .snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = self.inspector.now();
        kept.retain(|_, (at, _)| now.saturating_sub(*at) < FRESH);
        if let Some((_, snapshot)) = kept.get(&detail) {
            return Ok(Arc::clone(snapshot));
        }
        let snapshot = self.inspector.snapshot(detail).map_err(Missing::Failed)?;
        let snapshot = Arc::new(snapshot);
        kept.insert(detail, (self.inspector.now(), Arc::clone(&snapshot)));
        Ok(snapshot)
    }

    fn digests(&self) -> Result<Table, Missing> {
        let snapshot = self.snapshot(Detail::Digests)?;
        let counted = snapshot.digests.as_deref();
        let counted = counted.ok_or_else(|| Missing::Unknown("digests = 1".to_owned()))?;
        let question = digests::Question::default();
        let rows = self.shared.known_digests().rows(&question, counted);
        Ok(table(digests::HEADINGS, rows))
    }
}

impl Source for Desk {
    fn table(&self, name: &str) -> Result<Table, Missing> {
        let words = format!("SHOW {name}");
        if words == SHOW_DIGESTS {
            return self.digests();
        }
        let found = command::COMMANDS.iter().find(|entry| entry.name == words);
        let show = match found.map(|entry| (entry.role, &entry.action)) {
            Some((console::Role::Stats, Effect::Show(show))) => *show,
            _ => return Err(Missing::Unknown(words)),
        };
        let detail = match OF_POOLS.contains(&name) {
            true => Detail::Watch,
            false => Detail::Rows,
        };
        let snapshot = match show.is_live {
            true => self.snapshot(detail)?,
            false => Arc::default(),
        };
        let view = self.shared.view();
        let context = Context {
            settings: &view.settings,
            users: &view.users,
            snapshot: &snapshot,
            version: &self.version,
        };
        // Pages name the columns that they show, and have those of the newest version.
        let version = PgBouncerVersion::default();
        Ok(table(&show.columns(version), show.rows(&context, version)))
    }

    fn history(&self, scope: &Scope, seconds: u32) -> Result<Series, Missing> {
        let name = match scope {
            Scope::Pool { database, user } => format!("{database}/{user}"),
            Scope::Process => String::new(),
        };
        let found = self.inspector.history(&name, seconds);
        let found = found.ok_or_else(|| Missing::Failed(NO_HISTORY.to_owned()))?;
        let snapshot = self.snapshot(Detail::Watch)?;
        let is_within = |at: i64| at >= found.start;
        let events = snapshot.events.iter().filter(|event| is_within(event.at));
        Ok(Series {
            from: found.start,
            step: found.step_seconds,
            lines: found.lines.iter().map(line).collect(),
            marks: events.map(|event| (event.at, event.text.clone())).collect(),
        })
    }

    fn act(&self, action: &Action, who: &Who) -> Result<String, String> {
        let inspector = &self.inspector;
        let done = match action {
            Action::KillClient(id) => inspector.kill_client(*id).map(|()| "disconnected"),
            Action::Pause(database) => inspector
                .pause(database)
                .map(|()| "paused; servers in use stay until their clients release them"),
            Action::Reload => inspector
                .reload()
                .map(|()| "reloaded; the log has the changes"),
            Action::Resume(database) => inspector.resume(database).map(|()| "resumed"),
            Action::RuleOff(rule) => inspector.set_rule_dry(rule, true).map(|()| "counts only"),
            Action::RuleOn(rule) => inspector.set_rule_dry(rule, false).map(|()| "in force"),
        };
        let kind = match action {
            Action::RuleOff(_) | Action::RuleOn(_) => EventKind::Rule,
            _ => EventKind::Order,
        };
        let outcome = match &done {
            Ok(done) => (*done).to_owned(),
            Err(refusal) => format!("refused, {refusal}"),
        };
        let (user, address) = (&who.user, who.address);
        let text = format!("{action} by {user:?} from {address} on the dashboard: {outcome}");
        inspector.note(kind, text);
        done.map(str::to_owned)
            .map_err(|refusal| refusal.to_string())
    }

    fn sign_in(&self, user: &str, password: &[u8], address: IpAddr) -> Result<Role, Denied> {
        let checked = self.inspector.check_password(user, password, address);
        checked.map(role).map_err(|barred| match barred {
            Barred::TooMany => Denied::TooMany,
            Barred::Wrong(hold_back) => Denied::Wrong(hold_back),
        })
    }

    fn role(&self, user: &str) -> Option<Role> {
        self.inspector.role(user).map(role)
    }

    fn options(&self) -> Options {
        let view = self.shared.view();
        let global = &view.settings.global;
        Options {
            hosts: global.dashboard_hosts.clone(),
            has_actions: global.dashboard_actions,
        }
    }

    fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.inspector.web_tls()
    }

    fn unix(&self) -> i64 {
        self.inspector.unix()
    }
}

/// Returns a line of the history by the name and in the unit of the page's charts.
fn line(line: &weir_diagnosis::Line) -> Line {
    let (name, factor) = match line.name {
        "transactions" => ("tps", 1.0),
        "queries" => ("qps", 1.0),
        "resident" => ("memory", 1.0),
        "cpu" => ("cpu", 100.0),
        "oldest_wait" => ("oldest_wait_us", MICROSECONDS),
        "wait_p99" => ("wait_p99_us", MICROSECONDS),
        "query_p99" => ("query_p99_us", MICROSECONDS),
        same => (same, 1.0),
    };
    let values = line.values.iter();
    let values = values.map(|value| value.is_finite().then(|| f64::from(*value) * factor));
    Line {
        name: name.to_owned(),
        values: values.collect(),
    }
}

fn role(role: console::Role) -> Role {
    match role {
        console::Role::Admin => Role::Admin,
        console::Role::Stats => Role::Stats,
    }
}

fn table(headings: &[Heading], rows: Vec<Row>) -> Table {
    let columns = headings.iter().map(|heading| Column {
        name: heading.name.to_owned(),
        kind: match heading.kind {
            show::Kind::Text => Kind::Text,
            show::Kind::Int4 | show::Kind::Int8 | show::Kind::Numeric => Kind::Number,
        },
    });
    Table {
        columns: columns.collect(),
        rows,
    }
}
