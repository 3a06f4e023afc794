//! PostgreSQL of a suite: one server, or a primary with the number of replicas in `CONFORMANCE_REPLICAS`.
//!
//! With replicas, a suite may compare its answers with those of one server only if every replica shows what the primary
//! has committed: [`Hosts::settle`] waits for that.

use std::env;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::Weak;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use crate::Cluster;
use crate::Postgres;
use crate::Raw;
use crate::Weir;
use crate::cluster::LIMIT;
use crate::postgres;
use crate::wait_until;

/// Number of replicas that `CONFORMANCE_REPLICAS` asks for; none without it.
///
/// # Errors
/// When the variable holds no number.
pub fn replicas() -> Result<usize> {
    match env::var("CONFORMANCE_REPLICAS") {
        Ok(text) => text
            .parse()
            .with_context(|| format!("CONFORMANCE_REPLICAS={text}")),
        Err(_) => Ok(0),
    }
}

/// PostgreSQL of a suite: one server, or a primary with its replicas.
#[derive(Debug)]
pub struct Hosts {
    kind: Kind,
    /// Idle groups of connections to the primary and to each replica, in this order, for [`Hosts::settle`].
    watchers: Mutex<Vec<Vec<Raw>>>,
}

#[derive(Debug)]
enum Kind {
    One(Postgres),
    Several(Cluster),
}

impl Hosts {
    /// Starts one server, or as many as `CONFORMANCE_REPLICAS` asks for, with these options.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, or a server does not start in time.
    pub fn start(options: &postgres::Options) -> Result<Self> {
        let kind = match replicas()? {
            0 => Kind::One(Postgres::start(options)?),
            replicas => {
                // Every entry of a pooler watches every host.
                let connections = format!("max_connections = {}", options.max_connections + 1_000);
                let settings = options.settings.iter().map(String::as_str);
                let settings: Vec<_> = settings.chain([&*connections]).collect();
                Kind::Several(Cluster::start(replicas, &settings)?)
            }
        };
        Ok(Self {
            kind,
            watchers: Mutex::default(),
        })
    }

    /// Hosts with default options, which the tests of one binary share while any of them runs.
    ///
    /// # Errors
    /// As [`Hosts::start`].
    pub fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Hosts>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let started = Arc::new(Self::start(&postgres::Options::default())?);
        *shared = Arc::downgrade(&started);
        Ok(started)
    }

    /// TCP port of the primary on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.kind {
            Kind::One(postgres) => postgres.port(),
            Kind::Several(cluster) => cluster.primary().port(),
        }
    }

    /// TCP ports of the replicas on 127.0.0.1.
    #[must_use]
    pub fn replica_ports(&self) -> Vec<u16> {
        match &self.kind {
            Kind::One(_) => Vec::new(),
            Kind::Several(cluster) => {
                let numbers = 1..cluster.host_count();
                numbers
                    .map(|number| cluster.replica(number).port())
                    .collect()
            }
        }
    }

    /// Options of an entry of Weir with these hosts. Reads go to the replicas under any `read_consistency`, as often as
    /// it lets them.
    #[must_use]
    pub fn entry(&self, read_consistency: &str) -> String {
        let entry = format!("host=127.0.0.1 port={}", self.port());
        let replicas = self.replica_ports().into_iter();
        let replicas: Vec<String> = replicas.map(|port| format!("127.0.0.1:{port}")).collect();
        if replicas.is_empty() {
            return entry;
        }
        format!(
            "{entry} replicas={} read_write_split=auto read_consistency={read_consistency} max_staleness=0 max_lag=0 \
             watch_user=postgres watch_dbname=postgres",
            replicas.join(",")
        )
    }

    /// Creates an empty database; drops an existing one of that name.
    ///
    /// # Errors
    /// When the primary refuses.
    pub fn create_database(&self, name: &str) -> Result<()> {
        postgres::create_database(self.port(), name)
    }

    /// Waits until every replica shows what the primary has committed.
    ///
    /// # Errors
    /// When a replica does not get there in time.
    pub fn settle(&self) -> Result<()> {
        let replicas = self.replica_ports();
        if replicas.is_empty() {
            return Ok(());
        }
        let idle = self.lock().pop();
        let mut group = match idle {
            Some(group) => group,
            None => {
                let ports = [self.port()].into_iter().chain(replicas);
                ports
                    .map(|port| Raw::connect(port, "postgres"))
                    .collect::<Result<_>>()?
            }
        };
        let (primary, replicas) = group.split_first_mut().context("no connections")?;
        let floor = primary.query_one("SELECT pg_current_wal_flush_lsn()")?;
        for replica in replicas {
            // The replica itself looks, which is sooner than by questions.
            replica.query(&format!(
                "SET statement_timeout = '{}s'; DO $$ BEGIN WHILE pg_last_wal_replay_lsn() < '{floor}' LOOP \
                 PERFORM pg_sleep(0.0002); END LOOP; END $$",
                LIMIT.as_secs()
            ))?;
        }
        self.lock().push(group);
        Ok(())
    }

    /// Waits until a pooler with this number of entries sends reads to the replicas of each.
    ///
    /// # Errors
    /// When it does not do so in time.
    pub fn wait_watched(&self, weir: &Weir, entries: usize) -> Result<()> {
        let replicas = self.replica_ports().len();
        if replicas == 0 {
            return Ok(());
        }
        let mut console = weir.connect("pgbouncer")?;
        let mut taking = (0, 0);
        let watched = wait_until("reads on the replicas of all entries", LIMIT, || {
            let hosts = console.query_named("SHOW HOSTS")?;
            let count = |column: &str| {
                let values = hosts.iter().filter_map(|host| host.get(column));
                values.filter(|value| *value == "yes").count()
            };
            taking = (count("writes"), count("reads"));
            Ok(taking.0 == entries && taking.1 >= entries * replicas)
        });
        watched.with_context(|| format!("{taking:?}\n{}", weir.log()))?;
        console.terminate();
        Ok(())
    }

    /// Checks that replicas have served some of a pooler's requests.
    ///
    /// # Errors
    /// When they have served none.
    pub fn check_shared(&self, weir: &Weir) -> Result<()> {
        if self.replica_ports().is_empty() {
            return Ok(());
        }
        let [on_primary, on_replicas] = served(weir)?;
        ensure!(
            on_replicas > 0,
            "all {on_primary} requests ran on the primary"
        );
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<Raw>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of requests that ran on the primary and on replicas, over all entries with replicas.
///
/// # Errors
/// When the console does not answer.
pub fn served(weir: &Weir) -> Result<[u64; 2]> {
    let mut console = weir.connect("pgbouncer")?;
    let routes = console.query_named("SHOW ROUTES")?;
    console.terminate();
    let mut served = [0; 2];
    for route in routes {
        let count = route.get("count").context("no count")?.parse::<u64>()?;
        match route.get("verdict").map(String::as_str) {
            Some("primary") => served[0] += count,
            Some("replica") => served[1] += count,
            _ => {}
        }
    }
    Ok(served)
}
