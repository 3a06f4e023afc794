//! Guard in front of a read on a replica that may be too old: the replica itself compares its position.
//!
//! The guard is a transaction of its own, sent like a [settings
//! fence](../../../../../docs/internals/decisions/settings-fence.md) in the same write as the client's batch. If the
//! replica has not replayed up to the position, the guard fails, and PostgreSQL skips the client's batch. The net below
//! that batch drops the reply, and the batch runs on the primary. A replica that is fresh enough costs no round trip.
//!
//! The guard precedes the batch, so the snapshot of the batch is the later one: it shows all that was replayed when the
//! guard compared.

use std::fmt;
use std::time::Duration;

use super::net::Net;
use super::reply::Work;
use crate::expected::Duty;
use crate::server::Server;

/// First version of PostgreSQL with `WAIT FOR LSN`.
const WAITS: u32 = 19;

/// Beginning of the guard's transaction. A standby refuses a SERIALIZABLE one.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";

/// Position that a replica must have replayed before it may run a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guard {
    /// Position in PostgreSQL's form.
    lsn: Box<str>,
    /// Time for which the replica may wait for it, if it can.
    wait: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Comes in front of the client's next message.
    Due,
    /// In flight, or passed.
    Sent,
}

impl Guard {
    /// Statement that fails if the replica is too old. It has no rows. A server that is no replica is refused as well:
    /// what it shows is not what was compared.
    fn sql(&self, version: u32) -> String {
        let Self { lsn, wait, .. } = self;
        if version >= WAITS && !wait.is_zero() {
            return format!(
                "WAIT FOR LSN '{lsn}' WITH (TIMEOUT '{}ms')",
                wait.as_millis()
            );
        }
        format!(
            "SELECT WHERE 1 / (pg_is_in_recovery() AND coalesce(pg_last_wal_replay_lsn() >= '{lsn}'::pg_lsn, false))::int = 0"
        )
    }
}

impl Server {
    /// Puts a guard in front of the batch that is sent next, or none. `lsn` is the position that the replica must have
    /// replayed, in PostgreSQL's form; a replica with `WAIT FOR LSN` (PostgreSQL 19) waits for it for `wait` at most. The
    /// batch must be over the net ([`Server::arm_net`]): without it, a guard that fails ends the client.
    pub fn set_guard(&mut self, guard: Option<(&dyn fmt::Display, Duration)>) {
        self.guard = guard.map(|(lsn, wait)| {
            Box::new(Guard {
                lsn: lsn.to_string().into(),
                wait,
                state: State::Due,
            })
        });
    }

    /// True if a guard must precede the client's next message, which need not wait for an answer.
    pub(super) fn owes_guard(&self) -> bool {
        let is_due = (self.guard.as_ref()).is_some_and(|guard| guard.state == State::Due);
        is_due && !self.awaits_required()
    }

    /// Sends the guard.
    #[cold]
    pub(super) fn put_guard(&mut self, out: &mut Vec<u8>) {
        let version = self.version();
        if let Some(guard) = &mut self.guard {
            guard.state = State::Sent;
            let sql = guard.sql(version);
            let all = [BEGIN, &sql, "COMMIT"].into_iter();
            // Cannot fail: short texts without a NUL.
            let _ = self.put_in_front(all, Duty::Guard, out);
        }
    }
}

impl Work<'_, '_> {
    /// Sends an interrupted guard again before the client's next message.
    pub(super) fn comes_again(&mut self) {
        if let Some(guard) = &mut self.server.guard {
            guard.state = State::Due;
        }
    }

    /// Lets the net drop the reply, because the replica is too old. False if there is no net.
    pub(super) fn refuse_by_guard(&mut self) -> bool {
        let is_armed = self.server.net == Net::Armed;
        if is_armed {
            self.server.net = Net::Refused { by_text: false };
        }
        is_armed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_sql::{Functions, Judge};
    use weir_testkit::say::{Say, say};
    use weir_wire::backend::TransactionStatus;
    use weir_wire::encode;

    use super::super::{Link, Replied, Rules, SequencePolicy, StatePolicy, replies, requests};
    use super::*;
    use crate::client::Client;
    use crate::splice::Splice;
    use crate::statement::Registry;

    /// Replies to the guard's first and last statements, and to the Close behind them.
    const BEGUN: &[u8] = b"1\0\0\0\x042\0\0\0\x04C\0\0\0\x0aBEGIN\0";
    const PASSED: &[u8] = b"1\0\0\0\x042\0\0\0\x04C\0\0\0\x0dSELECT 0\0\
        1\0\0\0\x042\0\0\0\x04C\0\0\0\x0bCOMMIT\0\
        3\0\0\0\x04";
    /// Replies to the Parse and Bind of the comparison.
    const COMPARES: &[u8] = b"1\0\0\0\x042\0\0\0\x04";

    struct Lease {
        client: Client,
        server: Server,
    }

    impl Lease {
        /// A client and a replica whose next batch has a guard.
        fn new() -> Self {
            let mut server = Server::new(Arc::default());
            server.hide_host_facts(true);
            server.arm_net();
            server.set_guard(Some((&"0/16B3740", Duration::from_millis(20))));
            Self {
                client: Client::default(),
                server,
            }
        }

        /// Sends a batch. Returns what the server gets.
        fn send(&mut self, batch: &Say) -> String {
            let rules = Rules {
                max_prepared: 10,
                tracks_unnamed: true,
                prepare_unnamed: 0,
                refuse_simple_query: false,
                message_max: u32::MAX,
                state: StatePolicy::Track,
                sequences: SequencePolicy::Learn,
            };
            let mut registry = Registry::new(0, 1);
            let mut link = Link {
                client: &mut self.client,
                server: &mut self.server,
                registry: &mut registry,
                judge: &mut Judge::new(Functions::default()),
                proven: &Arc::default(),
                rules,
                digests: None,
                ruling: None,
            };
            let (mut buffer, mut answers) = (Vec::new(), Vec::new());
            let mut out = Splice::new(batch, &mut buffer);
            requests(&mut link, batch, &mut out, &mut answers).unwrap();
            String::from_utf8_lossy(out.finish()).into_owned()
        }

        /// Passes replies on. Returns what the client gets, and the result.
        fn hear(&mut self, parts: &[&[u8]]) -> (Vec<u8>, Replied) {
            let bytes = parts.concat();
            let mut buffer = Vec::new();
            let mut out = Splice::new(&bytes, &mut buffer);
            let replied = replies(&mut self.client, &mut self.server, &bytes, &mut out).unwrap();
            (out.finish().to_vec(), replied)
        }
    }

    fn error(code: &str) -> Vec<u8> {
        let fields = [
            (b'S', &b"ERROR"[..]),
            (b'V', &b"ERROR"[..]),
            (b'C', code.as_bytes()),
            (b'M', &b"no"[..]),
        ];
        let mut message = Vec::new();
        encode::error_response(&mut message, &fields).unwrap();
        message
    }

    fn ready(status: TransactionStatus) -> Vec<u8> {
        let mut message = Vec::new();
        encode::ready_for_query(&mut message, status).unwrap();
        message
    }

    #[test]
    fn a_guard_precedes_the_batch_and_its_reply_is_hidden() {
        for batch in [
            say().query("select 1"),
            say().parse("", "select 1").run("").sync(),
        ] {
            let mut lease = Lease::new();
            let sent = lease.send(&batch);
            let place = |text| sent.find(text).unwrap();
            assert!(
                place("READ ONLY") < place("'0/16B3740'") && place("COMMIT") < place("select 1")
            );
            let (heard, _) = lease.hear(&[BEGUN, PASSED]);
            assert_eq!(heard, b"");
        }
        // The reply to a query.
        let mut lease = Lease::new();
        lease.send(&say().query("select 1"));
        let answer = [b"C\0\0\0\x0dSELECT 1\0", &*ready(TransactionStatus::Idle)].concat();
        let (heard, replied) = lease.hear(&[BEGUN, PASSED, &answer]);
        assert_eq!((heard, replied.transactions), (answer, 1));
        assert!(lease.server.is_free());
        assert!(!lease.send(&say().query("select 2")).contains("16B3740"));
    }

    #[test]
    fn a_query_behind_a_guard_that_fails_runs_elsewhere() {
        let mut lease = Lease::new();
        lease.send(&say().query("select 1"));
        let (heard, replied) = lease.hear(&[BEGUN, COMPARES, &error("22012")]);
        assert_eq!((heard.len(), replied.is_refused), (0, false));
        assert!(lease.server.has_to_repeat(), "a Sync is missing");
        assert_eq!(lease.send(&say()), "S\0\0\0\u{4}");
        let (heard, replied) = lease.hear(&[&ready(TransactionStatus::Failed)]);
        assert_eq!((heard.len(), replied.is_refused), (0, true));
        assert!(!replied.is_refused_by_text);
        assert!(lease.server.is_quiet_and_synced() && !lease.server.is_over_net());
        assert!(!lease.server.is_free(), "its transaction is to be ended");
    }

    #[test]
    fn a_batch_behind_a_guard_that_fails_runs_elsewhere() {
        let mut lease = Lease::new();
        lease.send(&say().parse("", "select 1").run("").sync());
        let failed = [BEGUN, COMPARES, &error("22012")].concat();
        let (heard, replied) = lease.hear(&[&failed, &ready(TransactionStatus::Failed)]);
        assert_eq!((heard.len(), replied.is_refused), (0, true));
        assert!(lease.server.is_quiet_and_synced() && !lease.server.is_free());
    }

    #[test]
    fn a_cancel_that_hits_the_guard_has_hit_the_clients_request() {
        let mut lease = Lease::new();
        lease.send(&say().query("select 1"));
        let cancelled = error("57014");
        let (heard, _) = lease.hear(&[BEGUN, COMPARES, &cancelled]);
        assert_eq!(heard, cancelled);
        assert_eq!(lease.send(&say()), "S\0\0\0\u{4}");
        let idle = ready(TransactionStatus::Idle);
        let (heard, replied) = lease.hear(&[&ready(TransactionStatus::Failed)]);
        assert_eq!((heard, replied.is_refused), (idle.clone(), false));
        assert!(lease.send(&say()).contains("ROLLBACK"));
        assert_eq!(lease.hear(&[b"C\0\0\0\x0dROLLBACK\0", &idle]).0, b"");
        // What follows is as new to the server as before.
        assert!(lease.send(&say().query("select 2")).contains("16B3740"));
    }

    #[test]
    fn a_replica_that_can_wait_for_the_position_does() {
        let guard = Guard {
            lsn: "16/B374D848".into(),
            wait: Duration::from_millis(20),
            state: State::Due,
        };
        assert_eq!(
            guard.sql(19),
            "WAIT FOR LSN '16/B374D848' WITH (TIMEOUT '20ms')"
        );
        for version in [0, 18] {
            assert!(guard.sql(version).contains("'16/B374D848'::pg_lsn"));
        }
    }
}
