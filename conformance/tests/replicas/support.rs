//! Weir in front of a primary and its replicas, and which host has executed what.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_conformance::raw::Row;
use weir_conformance::{Cluster, Config, Faulty, Raw, Weir, frontend, wait_until};

/// Time limit for Weir to notice a change by itself, longer than the time it promises: machines are busy.
pub(crate) const NOTICED: Duration = Duration::from_secs(10);

/// Reads that a host gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    None,
    Some,
}

/// A cluster and Weir in front of it, as database `shop`.
pub(crate) struct World {
    // Dropped first: its servers end before the hosts do.
    pub(crate) weir: Weir,
    /// Paths from Weir to hosts by their numbers. Weir connects directly to the others.
    paths: HashMap<usize, Faulty>,
    pub(crate) cluster: Cluster,
}

impl World {
    /// Starts everything, with further options of the database, and returns when reads reach a replica.
    pub(crate) fn start(replicas: usize, options: &str) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        Self::around(cluster, HashMap::new(), &[("shop", options)])
    }

    /// Starts everything as [`World::start`], with hosts that are asked for their positions every half minute only, unless
    /// something hastens that.
    pub(crate) fn start_rarely_asked(replicas: usize, options: &str) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        let config = Config::new().set("probe_interval", "30");
        let entry = [("shop", &*format!("max_staleness=600 {options}"))];
        Self::around_by(config, cluster, HashMap::new(), &entry)
    }

    /// Starts everything as [`World::start_rarely_asked`], with the monitoring pages at this port.
    pub(crate) fn start_rarely_asked_and_monitored(metrics_port: u16) -> Result<Self> {
        let cluster = Cluster::start(1, &["log_statement = all"])?;
        let config = Config::new()
            .set("probe_interval", "30")
            .set("metrics_listen", &format!("127.0.0.1:{metrics_port}"));
        let entry = [("shop", "max_staleness=600")];
        Self::around_by(config, cluster, HashMap::new(), &entry)
    }

    /// Starts everything as [`World::start`], with several databases: their names and options.
    pub(crate) fn start_entries(replicas: usize, entries: &[(&str, &str)]) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        Self::around(cluster, HashMap::new(), entries)
    }

    /// Starts everything as [`World::start`], with a path to each replica that can be broken.
    pub(crate) fn start_with_paths(replicas: usize, options: &str) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        Self::with_paths(cluster, 1..=replicas, options)
    }

    /// Starts everything as [`World::start`], with a path to the primary that can be broken.
    pub(crate) fn start_with_path_to_primary(replicas: usize, options: &str) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        Self::with_paths(cluster, 0..=0, options)
    }

    /// Starts everything as [`World::start`], with this section in the file.
    pub(crate) fn start_with_section(replicas: usize, section: &str) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        let config = Config::new().section(section);
        Self::around_by(config, cluster, HashMap::new(), &[("shop", "")])
    }

    /// Starts everything as [`World::start_with_path_to_primary`], with the monitoring pages at this port.
    pub(crate) fn start_monitored(replicas: usize, metrics_port: u16) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        let path = Faulty::to(cluster.host(0).port())?;
        let config = Config::new().set("metrics_listen", &format!("127.0.0.1:{metrics_port}"));
        Self::around_by(config, cluster, HashMap::from([(0, path)]), &[("shop", "")])
    }

    /// Starts everything as [`World::start`], with room for thousands of clients and a pool of this size.
    pub(crate) fn start_for_many(replicas: usize, pool_size: usize) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        let config = Config::new()
            .set("max_client_conn", "20000")
            .set("query_wait_notify", "0")
            .set("default_pool_size", &pool_size.to_string());
        Self::around_by(config, cluster, HashMap::new(), &[("shop", "")])
    }

    /// Starts Weir before a cluster that was prepared, of which some hosts need not run.
    pub(crate) fn start_before(cluster: Cluster) -> Result<Self> {
        Self::around(cluster, HashMap::new(), &[("shop", "")])
    }

    /// Starts everything as [`World::start`]; the path to the last replica leads to this port instead.
    pub(crate) fn start_with_stranger(replicas: usize, port: u16) -> Result<Self> {
        let cluster = Cluster::start(replicas, &["log_statement = all"])?;
        let paths = HashMap::from([(replicas, Faulty::to(port)?)]);
        Self::around(cluster, paths, &[("shop", "")])
    }

    fn with_paths(cluster: Cluster, numbers: RangeInclusive<usize>, options: &str) -> Result<Self> {
        let path = |number: usize| Ok((number, Faulty::to(cluster.host(number).port())?));
        let paths = numbers.map(path).collect::<Result<_>>()?;
        Self::around(cluster, paths, &[("shop", options)])
    }

    fn around(
        cluster: Cluster,
        paths: HashMap<usize, Faulty>,
        entries: &[(&str, &str)],
    ) -> Result<Self> {
        Self::around_by(Config::new(), cluster, paths, entries)
    }

    fn around_by(
        config: Config,
        cluster: Cluster,
        paths: HashMap<usize, Faulty>,
        entries: &[(&str, &str)],
    ) -> Result<Self> {
        let config = config.set("catalogue_refresh", "2");
        let config = entries.iter().fold(config, |config, (name, options)| {
            config.database(&Self::entry(&cluster, &paths, name, options))
        });
        let world = Self {
            weir: Weir::start(&config)?,
            paths,
            cluster,
        };
        let mut client = world.client()?;
        world.until_replica_serves(&mut client, "start")?;
        client.terminate();
        Ok(world)
    }

    /// Line of a database with all hosts of the cluster.
    fn entry(
        cluster: &Cluster,
        paths: &HashMap<usize, Faulty>,
        name: &str,
        options: &str,
    ) -> String {
        let port = |number: usize| {
            let path = paths.get(&number);
            path.map_or_else(|| cluster.host(number).port(), Faulty::port)
        };
        let replicas =
            (1..cluster.host_count()).map(|number| format!("127.0.0.1:{}", port(number)));
        let replicas: Vec<String> = replicas.collect();
        format!(
            "{name} = host=127.0.0.1 port={} dbname=postgres replicas={} read_write_split=auto watch_user=postgres {options}",
            port(0),
            replicas.join(",")
        )
    }

    /// Path from Weir to a host.
    pub(crate) fn path(&self, number: usize) -> Result<&Faulty> {
        let path = self.paths.get(&number);
        path.context("the world has no path to this host")
    }

    /// Row of a host in `SHOW HOSTS`.
    pub(crate) fn shown(&self, number: usize) -> Result<HashMap<String, String>> {
        let port = match self.path(number) {
            Ok(path) => path.port(),
            Err(_) => self.cluster.host(number).port(),
        };
        let rows = self.weir.connect("pgbouncer")?.query_named("SHOW HOSTS")?;
        let mut rows = rows.into_iter().filter(|row| {
            row.get("database").is_some_and(|name| name == "shop")
                && row.get("host") == Some(&format!("127.0.0.1:{port}"))
        });
        rows.next()
            .with_context(|| format!("no row for host {number}"))
    }

    /// Value of a column in the row of a host in `SHOW HOSTS`; empty if it is NULL.
    pub(crate) fn shows(&self, number: usize, column: &str) -> Result<String> {
        Ok(self.shown(number)?.remove(column).unwrap_or_default())
    }

    /// Waits until a column in the row of a host in `SHOW HOSTS` has this value.
    pub(crate) fn until(&self, number: usize, column: &str, value: &str) -> Result<()> {
        let what = format!("{column} = {value} of host {number}");
        wait_until(&what, NOTICED, || Ok(self.shows(number, column)? == value))
            .with_context(|| format!("{:?}\n{}", self.shown(number), self.weir.log()))
    }

    /// Waits until a host gets reads, or gets none.
    pub(crate) fn until_reads(&self, number: usize, reads: Reads) -> Result<()> {
        let value = match reads {
            Reads::None => "no",
            Reads::Some => "yes",
        };
        self.until(number, "reads", value)
    }

    /// Port of Weir.
    pub(crate) fn port(&self) -> u16 {
        self.weir.port()
    }

    /// Logs in through Weir.
    pub(crate) fn client(&self) -> Result<Raw> {
        self.weir.connect("shop")
    }

    /// Runs statements on the primary, past Weir, and waits until all replicas have them.
    pub(crate) fn prepare(&self, sql: &str) -> Result<()> {
        self.cluster.primary().query(sql)?;
        for number in self.replicas() {
            self.cluster.wait_until_replayed(number)?;
        }
        Ok(())
    }

    /// Numbers of all hosts but the primary.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = usize> {
        let primary = self.cluster.primary().port();
        let numbers = 0..self.cluster.host_count();
        numbers.filter(move |number| self.cluster.host(*number).port() != primary)
    }

    /// Number of statements with this mark that the primary has executed.
    pub(crate) fn on_primary(&self, mark: &str) -> usize {
        self.cluster.primary().count_statements(&comment(mark))
    }

    /// Numbers of statements with this mark that the replicas have executed.
    pub(crate) fn on_replicas(&self, mark: &str) -> Vec<usize> {
        let hosts = self.replicas().map(|number| self.cluster.host(number));
        hosts
            .map(|host| host.count_statements(&comment(mark)))
            .collect()
    }

    /// Reads until a replica has served one of the reads. Marks begin with `mark`.
    pub(crate) fn until_replica_serves(&self, client: &mut Raw, mark: &str) -> Result<()> {
        wait_until("a read on a replica", NOTICED, || {
            client.query(&marked("SELECT 1", mark))?;
            Ok(self.on_replicas(mark).iter().sum::<usize>() > 0)
        })
    }

    /// Checks that this text runs on the primary, without an error.
    pub(crate) fn runs_on_primary(
        &self,
        client: &mut Raw,
        sql: &str,
        mark: &str,
    ) -> Result<Vec<Row>> {
        let rows = client.query(&marked(sql, mark))?;
        ensure!(
            self.on_primary(mark) == 1,
            "{sql} did not run on the primary"
        );
        Ok(rows)
    }
}

/// Statement whose log lines can be counted by a mark. The verdict does not depend on comments.
pub(crate) fn marked(sql: &str, mark: &str) -> String {
    format!("{} {sql}", comment(mark))
}

fn comment(mark: &str) -> String {
    format!("/* {mark}. */")
}

/// Runs a text and returns the SQLSTATE of its error, if it has one.
pub(crate) fn state(client: &mut Raw, sql: &str) -> Result<Option<String>> {
    let messages = client.ask(&frontend::query(sql))?;
    let error = messages.iter().find(|message| message.tag == b'E');
    Ok(error.and_then(|error| error.field(b'C')))
}
