//! Session on one of several hosts: what a standby refuses, and the rows of the ledger that a host shows.

use super::sql::{Select, Sql};
use super::{Backend, Database, Failure};
use crate::cluster::Site;

impl Backend {
    /// Creates a session as [`Backend::open`] does, on a host of a cluster. Rows of `public.sink` belong to the cluster.
    pub fn open_at(
        database: &Database,
        site: &Site,
        user: &str,
        parameters: &[(&str, &str)],
    ) -> Self {
        let mut made = Self::open(database, user, parameters);
        made.site = Some(site.clone());
        made.told = made.reported_now().collect();
        made
    }

    /// True if the session's host is in recovery.
    pub(super) fn is_on_standby(&self) -> bool {
        self.site.as_ref().is_some_and(Site::is_standby)
    }

    /// True if the session's host is in recovery and has replayed up to this position.
    pub(super) fn has_replayed(&self, lsn: u64) -> bool {
        let replayed = self.site.as_ref().and_then(Site::replayed);
        replayed.is_some_and(|replayed| replayed >= lsn)
    }

    /// Refuses a statement that cannot run in recovery, or in a READ ONLY block
    /// (<https://www.postgresql.org/docs/15/hot-standby.html>).
    pub(super) fn refuse_write(&self, sql: &Sql) -> Result<(), Failure> {
        let is_on_standby = self.is_on_standby();
        if !is_on_standby && !self.is_read_only {
            return Ok(());
        }
        let during = |what| format!("cannot execute {what} during recovery");
        let text = match sql {
            Sql::Listen(_) if is_on_standby => during("LISTEN"),
            Sql::Notify(..) if is_on_standby => during("NOTIFY"),
            _ => match command(sql) {
                Some(what) => format!("cannot execute {what} in a read-only transaction"),
                None => return Ok(()),
            },
        };
        Err(Failure::new("25006", text))
    }

    /// Tells the cluster that a statement runs here.
    pub(super) fn record(&self, sql: &Sql) {
        let (Sql::Insert(_, tag)
        | Sql::Select(Select::Ledger(tag) | Select::Literal(tag) | Select::Note(tag))) = sql
        else {
            return;
        };
        if let Some(site) = &self.site {
            site.record(self.process, tag, command(sql).is_some());
        }
    }

    pub(super) fn add_to_ledger(&mut self, mut rows: Vec<String>) {
        self.session.ledger.append(&mut rows);
        if let Some(site) = &self.site {
            site.write();
        }
    }

    /// Returns the rows of the ledger that a query sees: those of the host, then those of its own transaction.
    pub(super) fn ledger_rows(&self) -> Vec<Vec<Option<String>>> {
        let shown = match &self.site {
            Some(site) => site.rows(),
            None => self.database.ledger(""),
        };
        let own = self.session.ledger.iter().cloned();
        let rows = shown.into_iter().chain(own);
        rows.map(|row| vec![Some(row)]).collect()
    }

    /// Commits the rows of a transaction on the session's host.
    pub(super) fn commit_at_site(&mut self) {
        if let Some(site) = &self.site
            && !self.session.ledger.is_empty()
        {
            let waits = self.setting("synchronous_commit") != Some("off");
            site.commit(std::mem::take(&mut self.session.ledger), waits);
        }
    }
}

/// Returns the command of a statement that writes, as errors name it.
fn command(sql: &Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::CreateTemp { .. } => "CREATE TABLE",
        Sql::Insert(..) | Sql::InsertParameter { .. } | Sql::Select(Select::Note(_)) => "INSERT",
        Sql::Select(Select::Nextval(_)) => "nextval()",
        Sql::View(true) => "CREATE VIEW",
        Sql::View(false) => "DROP VIEW",
        _ => return None,
    })
}
