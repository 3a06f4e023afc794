//! Ring of the latest events, and the events that follow from a change between two snapshots.

use std::collections::{BTreeMap, VecDeque};

use weir_stats::{EventKind, EventRow, Snapshot};

use crate::text;

/// Events that are kept.
const EVENTS_MAX: usize = 500;
/// Bytes of the text of an event that are kept; all events take 600 KB at most.
const TEXT_MAX: usize = 1024;
/// Hosts that are compared, at most.
const HOSTS_MAX: usize = 1024;
/// Certificates that are compared, at most.
const CERTIFICATES_MAX: usize = 1024;

/// The latest 500 events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Newest first.
    rows: VecDeque<EventRow>,
}

impl Events {
    /// Adds an event. A text of more than 1024 bytes is cut.
    pub(crate) fn push(&mut self, mut event: EventRow) {
        text::cut(&mut event.text, TEXT_MAX);
        self.rows.truncate(EVENTS_MAX - 1);
        self.rows.push_front(event);
    }

    /// Events, newest first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &EventRow> {
        self.rows.iter()
    }
}

/// State of hosts and certificates in the snapshot before.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    hosts: Option<BTreeMap<(String, String), HostState>>,
    certificates: Option<BTreeMap<CertificateKey, CertificateState>>,
}

type CertificateKey = (String, String, String);
type CertificateState = (String, i64, i64);

/// Facts about a host that change with a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HostState {
    role: &'static str,
    state: &'static str,
    takes_writes: bool,
}

impl Earlier {
    /// Compares with a snapshot, keeps its state, and adds an event for each change. Nothing is known before the first
    /// snapshot.
    pub(crate) fn compare(&mut self, snapshot: &Snapshot, events: &mut Events) {
        let mut add = |kind, text| {
            events.push(EventRow {
                at: snapshot.unix,
                kind,
                text,
            });
        };
        let hosts = hosts(snapshot);
        if let Some(before) = &self.hosts {
            for (key, now) in &hosts {
                for text in host_changes(key, before.get(key), now) {
                    add(EventKind::Failover, text);
                }
            }
        }
        self.hosts = Some(hosts);
        let certificates = certificates(snapshot);
        if let Some(before) = &self.certificates {
            for (key @ (side, database, file), now) in &certificates {
                if before.get(key).is_some_and(|before| before != now) {
                    let of = if database.is_empty() {
                        String::new()
                    } else {
                        format!(" of {database}")
                    };
                    let (subject, _, until) = now;
                    let until = text::date(*until);
                    add(
                        EventKind::Certificate,
                        format!(
                            "certificate of the {side} side{of} was replaced: {file}, subject \
                             {subject}, valid until {until}"
                        ),
                    );
                }
            }
        }
        self.certificates = Some(certificates);
    }
}

fn hosts(snapshot: &Snapshot) -> BTreeMap<(String, String), HostState> {
    let rows = snapshot.database_hosts.iter().take(HOSTS_MAX);
    rows.map(|row| {
        let state = HostState {
            role: row.role,
            state: row.state,
            takes_writes: row.takes_writes,
        };
        ((row.database.clone(), row.host.clone()), state)
    })
    .collect()
}

fn certificates(snapshot: &Snapshot) -> BTreeMap<CertificateKey, CertificateState> {
    let rows = snapshot.tls.iter().take(CERTIFICATES_MAX);
    rows.map(|row| {
        let key = (row.side.clone(), row.database.clone(), row.file.clone());
        (key, (row.subject.clone(), row.not_before, row.not_after))
    })
    .collect()
}

fn host_changes(
    (database, host): &(String, String),
    before: Option<&HostState>,
    now: &HostState,
) -> Vec<String> {
    let Some(before) = before else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    if before.state != now.state {
        texts.push(format!(
            "host {host} of {database} is {}, was {}",
            now.state, before.state
        ));
    }
    if before.role != now.role {
        texts.push(format!(
            "host {host} of {database} has the role {}, had {}",
            now.role, before.role
        ));
    }
    match (before.takes_writes, now.takes_writes) {
        (false, true) => texts.push(format!("host {host} takes the writes of {database}")),
        (true, false) => texts.push(format!(
            "host {host} no longer takes the writes of {database}"
        )),
        _ => {}
    }
    texts
}
