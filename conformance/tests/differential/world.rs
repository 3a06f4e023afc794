//! Two equal clusters, one for direct connections and one behind Weir, with a fresh database for each program.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::postgres;
use weir_conformance::wait_until;

/// Resets the roles of both clusters to their state at the beginning of each program.
const ROLES: &str = "
    do $$ declare r text; begin
      foreach r in array array['app', 'ra', 'rb', 'rc'] loop
        if exists (select from pg_roles where rolname = r) then
          execute 'drop owned by ' || r || ' cascade'; execute 'drop role ' || r;
        end if;
      end loop;
    end $$;
    create role ra; create role rb; create role rc; create role app login;
    grant ra, rb, rc to app;
    grant set on parameter log_min_duration_statement to app, ra";

const FIXTURE: &str = include_str!("fixture.sql");

/// Maximum of programs per Weir process: each program has a database and so creates pools that stay.
const PROGRAMS_MAX: u32 = 60;

/// Time limit for events that no client waits for.
const WAIT: Duration = Duration::from_secs(15);

/// Both clusters, and each Weir that was started in front of the second one.
pub(crate) struct World {
    oracle: Postgres,
    subject: Postgres,
    /// Poolers by pool size and number of workers.
    weirs: BTreeMap<(u32, u32), Pooler>,
    programs: u64,
}

struct Pooler {
    weir: Weir,
    console: Raw,
    programs: u32,
}

/// Databases of one program.
pub(crate) struct Stage<'a> {
    pub(crate) database: String,
    pub(crate) oracle: Side,
    pub(crate) subject: Side,
    pooler: &'a mut Pooler,
    world: (&'a Postgres, &'a Postgres),
}

/// Port for clients of one side, and its administrator's connection.
pub(crate) struct Side {
    pub(crate) port: u16,
    pub(crate) admin: Raw,
}

/// State of the pooler that decides which clients can act.
#[derive(Debug)]
pub(crate) struct Sight {
    /// Ports of the pinned clients, with the reason.
    pub(crate) pinned: BTreeMap<u16, String>,
    /// Ports of the clients that have a server; zero for a server that is not idle and has no client.
    pub(crate) linked: Vec<u16>,
}

impl World {
    /// Starts both clusters and fills their template databases.
    pub(crate) fn start() -> Result<Self> {
        let options = postgres::Options {
            settings: vec![
                // Clients must not wait for each other: the other client could not act meanwhile.
                "lock_timeout = 200ms".to_owned(),
                "deadlock_timeout = 30s".to_owned(),
                "wal_level = minimal".to_owned(),
                "max_wal_senders = 0".to_owned(),
            ],
            ..postgres::Options::default()
        };
        let world = Self {
            oracle: Postgres::start(&options)?,
            subject: Postgres::start(&options)?,
            weirs: BTreeMap::new(),
            programs: 0,
        };
        for cluster in [&world.oracle, &world.subject] {
            let mut admin = Raw::connect(cluster.port(), "postgres")?;
            admin.query(ROLES).context("roles")?;
            cluster.create_database("fixture")?;
            let mut admin = Raw::connect(cluster.port(), "fixture")?;
            admin.query(FIXTURE).context("fixture")?;
            admin.terminate();
        }
        Ok(world)
    }

    /// True if PostgreSQL has crashed without Weir in front: by a fault of its own, which a program met.
    pub(crate) fn has_crashed(&self) -> bool {
        self.oracle.log().contains("was terminated by signal 11")
    }

    /// Stops all Weir processes, so that the next program runs on a fresh one.
    pub(crate) fn renew(&mut self) {
        self.weirs.clear();
    }

    /// Resets the roles; creates a database for a program on both sides, and a Weir of this size.
    pub(crate) fn stage(&mut self, pool: u32, workers: u32) -> Result<Stage<'_>> {
        self.programs += 1;
        let database = format!("p{}", self.programs);
        let (oracle, subject) = thread::scope(|scope| {
            let oracle = scope.spawn(|| make(&self.oracle, &database));
            let subject = make(&self.subject, &database);
            (oracle.join(), subject)
        });
        let oracle = oracle.map_err(|_| anyhow!("a thread has panicked"))??;
        let subject = subject?;
        let key = (pool, workers);
        let old = self.weirs.get(&key);
        if old.is_some_and(|pooler| pooler.programs >= PROGRAMS_MAX) {
            self.weirs.remove(&key);
        }
        if !self.weirs.contains_key(&key) {
            let pooler = pooler(self.subject.port(), pool, workers)?;
            self.weirs.insert(key, pooler);
        }
        let pooler = self.weirs.get_mut(&key).context("no pooler")?;
        pooler.programs += 1;
        Ok(Stage {
            database,
            oracle: Side {
                port: self.oracle.port(),
                admin: oracle,
            },
            subject: Side {
                port: pooler.weir.port(),
                admin: subject,
            },
            pooler,
            world: (&self.oracle, &self.subject),
        })
    }
}

/// Makes `app`, the user of clients, the owner of everything that programs change.
const OWNERS: &str = "
    do $$ declare o text; begin
      for o in select format('alter table %s owner to app', c.oid::regclass)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind = 'r' and (n.nspname in ('one', 'two') or c.relname in ('d1', 'd2'))
      loop execute o; end loop;
      alter type mood owner to app; alter type pair owner to app; alter domain amount owner to app;
      alter function f(int) owner to app; alter view w owner to app;
    end $$";

/// Resets the roles and creates a database; returns its administrator's connection.
fn make(cluster: &Postgres, database: &str) -> Result<Raw> {
    let mut admin = Raw::connect(cluster.port(), "postgres")?;
    admin.query(ROLES).context("roles")?;
    admin.query(&format!("create database {database} template fixture"))?;
    admin.terminate();
    let mut admin = Raw::connect(cluster.port(), database)?;
    admin.query(OWNERS).context("owners")?;
    Ok(admin)
}

/// Starts a Weir. Some sizes also evict statements all the time, or keep unnamed ones.
fn pooler(postgres: u16, pool: u32, workers: u32) -> Result<Pooler> {
    let config = Config::to(postgres)
        .set("default_pool_size", &pool.to_string())
        // Default values: `Config::new` turns these off for scripted servers.
        .set("catalogue_refresh", "15")
        .set("role_check_delay", "1")
        .set("query_wait_timeout", "20")
        .set("query_wait_notify", "0")
        .set(
            "max_prepared_statements",
            if pool == 2 { "3" } else { "100" },
        )
        .set(
            "prepare_unnamed_after",
            if workers == 2 { "2" } else { "0" },
        )
        .userlist("\"postgres\" \"\"\n\"app\" \"\"\n")
        .env("WEIR_WORKERS", &workers.to_string());
    let weir = Weir::start(&config)?;
    let console = weir.connect("pgbouncer")?;
    Ok(Pooler {
        weir,
        console,
        programs: 0,
    })
}

impl Stage<'_> {
    /// True if a server of Weir runs a statement that neither sleeps nor waits for a lock or for its client.
    pub(crate) fn is_working(&mut self) -> Result<bool> {
        let rows = self.subject.admin.query(
            "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
             and backend_type = 'client backend' and state = 'active'
             and (wait_event_type is null or wait_event_type not in ('Client', 'Lock', 'Timeout'))",
        )?;
        Ok(!rows.is_empty())
    }

    /// Queries the pooler for the clients that have a server of this program's pool.
    pub(crate) fn sight(&mut self) -> Result<Sight> {
        let console = &mut self.pooler.console;
        let of_ours = |row: &std::collections::HashMap<String, String>| {
            row.get("database") == Some(&self.database)
        };
        let clients = console.query_named("show clients")?;
        let servers = console.query_named("show servers")?;
        let mut ports = BTreeMap::new();
        let mut pinned = BTreeMap::new();
        for client in clients.into_iter().filter(of_ours) {
            let port: u16 = client.get("port").context("no port")?.parse()?;
            ports.insert(client.get("ptr").cloned().unwrap_or_default(), port);
            let pin = client.get("pin").cloned().unwrap_or_default();
            if !pin.is_empty() {
                pinned.insert(port, pin);
            }
        }
        let busy = servers
            .into_iter()
            .filter(of_ours)
            .filter(|server| server.get("state").is_none_or(|state| state != "idle"));
        let linked = busy.map(|server| {
            let link = server.get("link").cloned().unwrap_or_default();
            ports.get(&link).copied().unwrap_or(0)
        });
        Ok(Sight {
            linked: linked.collect(),
            pinned,
        })
    }

    /// Waits until no query of a departed client runs on any server, on both sides.
    pub(crate) fn settle(&mut self, in_transaction: usize) -> Result<()> {
        let sql = format!(
            "select count(*) from pg_stat_activity where datname = '{}' and state <> 'idle' \
             and pid <> pg_backend_pid()",
            self.database
        );
        for side in [&mut self.oracle, &mut self.subject] {
            wait_until("the end of what a client left", WAIT, || {
                let busy: usize = side.admin.query_one(&sql)?.parse()?;
                Ok(busy <= in_transaction)
            })?;
        }
        Ok(())
    }

    /// Drops the program's database; fails if Weir has panicked.
    pub(crate) fn close(self) -> Result<()> {
        self.pooler.weir.check_healthy()?;
        let (database, clusters) = (self.database, self.world);
        let (oracle, subject) = thread::scope(|scope| {
            let oracle = scope.spawn(|| self.oracle.drop_database(clusters.0, &database));
            let subject = self.subject.drop_database(clusters.1, &database);
            (oracle.join(), subject)
        });
        oracle.map_err(|_| anyhow!("a thread has panicked"))??;
        subject
    }

    /// Last lines of Weir's log that name the program's database.
    pub(crate) fn log(&self) -> String {
        let log = self.pooler.weir.log();
        let needle = format!("{}/", self.database);
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| line.contains(&needle) || line.contains("WARN"))
            .collect();
        let from = lines.len().saturating_sub(20);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

impl Side {
    fn drop_database(self, cluster: &Postgres, database: &str) -> Result<()> {
        self.admin.terminate();
        // A program may crash PostgreSQL, which then recovers (57P03).
        let mut admin = None;
        wait_until("a login after the program", WAIT, || {
            admin = Raw::connect(cluster.port(), "postgres").ok();
            Ok(admin.is_some())
        })?;
        let mut admin = admin.context("no login")?;
        admin.query(&format!("drop database {database} with (force)"))?;
        admin.terminate();
        Ok(())
    }

    /// All rows of all tables, one line each.
    pub(crate) fn content(&mut self) -> Result<Vec<String>> {
        let tables = self.admin.query(
            "select format('%I.%I', n.nspname, c.relname) from pg_class c \
             join pg_namespace n on n.oid = c.relnamespace \
             where c.relkind = 'r' and n.nspname in ('public', 'one', 'two') order by 1",
        )?;
        let selects =
            tables.into_iter().flatten().flatten().map(|table| {
                format!("select '{table}: ' || whole::text as line from {table} whole")
            });
        let sql = selects.collect::<Vec<_>>().join(" union all ");
        let rows = self.admin.query(&format!("{sql} order by 1"))?;
        let lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
        ensure!(!lines.is_empty(), "no rows at all");
        Ok(lines)
    }

    /// True if a query with this text sleeps or waits for a lock.
    pub(crate) fn waits(&mut self, marker: &str) -> Result<bool> {
        let sql = format!(
            "select count(*) from pg_stat_activity where query like '%{marker}%' \
             and pid <> pg_backend_pid() and state = 'active' \
             and (wait_event = 'PgSleep' or wait_event_type = 'Lock')"
        );
        Ok(self.admin.query_one(&sql)? != "0")
    }
}
