//! Programs between the clients and the cluster: Weir, and others that the same drills are run through.
//!
//! The others get the configuration that their manuals give for this use. They are run as Debian ships them.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use clap::ValueEnum;

use super::Options;
use super::pooler::Pooler;
use super::world::Cluster;
use crate::Config;
use crate::Raw;
use crate::TempDir;
use crate::Weir;
use crate::child::Guarded;
use crate::child::Runner;
use crate::cluster::LIMIT;
use crate::nameserver::NameServer;
use crate::patroni;
use crate::patroni::NODES;
use crate::tools;
use crate::wait_until;

mod files;

/// Time in which a client that tries several hosts gives each of them up (`connect_timeout` of libpq).
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Name that has the address of the primary.
const ONE_NAME: &str = "primary.drill.test";

/// Number of sessions in a row that must reach the primary before a drill begins.
const IN_A_ROW: u32 = 12;

/// Program between the clients and the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// Weir with the three hosts in one entry
    Weir,
    /// None: clients try the hosts in turn, as libpq does with target_session_attrs=read-write
    Direct,
    /// HAProxy in front of a PgBouncer for each host, which asks Patroni who is the primary
    HaproxyPgbouncer,
    /// Pgpool-II with load balancing
    Pgpool,
}

impl Subject {
    /// Name for the command line and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Weir => "weir",
            Self::Direct => "direct",
            Self::HaproxyPgbouncer => "haproxy-pgbouncer",
            Self::Pgpool => "pgpool",
        }
    }
}

/// Address for clients.
#[derive(Clone, Debug)]
pub(super) struct Entrance {
    /// Addresses, which are tried in turn.
    pub(super) addresses: Vec<SocketAddr>,
    /// True if a client must look for the primary among them.
    pub(super) seeks_primary: bool,
    /// True if 08006 says that nothing was committed.
    pub(super) knows_outcomes: bool,
}

impl Entrance {
    /// Time limit of a login at one of several hosts; none if there is one host only.
    pub(super) fn login_max(&self) -> Option<Duration> {
        self.seeks_primary.then_some(CONNECT_MAX)
    }
}

/// Hosts of the cluster in Weir's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The addresses of all hosts.
    Addresses,
    /// The addresses of all hosts, with the leader in Patroni's etcd as a witness (`fence = patroni`).
    Fenced,
    /// A name for each host.
    Names,
    /// Name of the primary, and no other host.
    OneName,
}

/// A running subject; dropping it stops its processes.
#[derive(Debug)]
pub(super) struct Front {
    weir: Option<Pooler>,
    // Dropped before the directory of their files.
    processes: Vec<Guarded>,
    directory: TempDir,
    entrance: Entrance,
    names: Option<NameServer>,
}

impl Front {
    /// Starts a subject in front of a cluster, and returns when it takes requests.
    pub(super) fn start(options: &Options, entry: Entry, cluster: &Cluster) -> Result<Self> {
        let mut front = Self {
            weir: None,
            processes: Vec::new(),
            directory: TempDir::new()?,
            entrance: Entrance {
                addresses: cluster.addresses(),
                seeks_primary: true,
                knows_outcomes: false,
            },
            names: None,
        };
        match options.subject {
            Subject::Weir => {
                let pooler = Pooler::start(front.weir_config(options, entry, cluster)?)?;
                front.listens(pooler.weir().port());
                front.entrance.knows_outcomes = true;
                if entry != Entry::OneName {
                    wait_watched(pooler.weir())?;
                }
                front.weir = Some(pooler);
            }
            Subject::Direct => {}
            Subject::HaproxyPgbouncer => front.start_haproxy(cluster)?,
            Subject::Pgpool => front.start_pgpool(cluster)?,
        }
        Ok(front)
    }

    pub(super) fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    /// Fails if a process has ended, or Weir has logged a panic.
    pub(super) fn check_healthy(&mut self) -> Result<()> {
        if let Some(weir) = &mut self.weir {
            weir.check_healthy()?;
        }
        self.processes
            .iter_mut()
            .try_for_each(Guarded::check_running)
    }

    /// Logs of all processes.
    pub(super) fn log(&self) -> String {
        let weir = self.weir.iter().map(Pooler::log);
        weir.chain(self.processes.iter().map(Guarded::log))
            .collect()
    }

    /// Returns the name server, for the drills about names.
    pub(super) fn names(&self) -> Result<&NameServer> {
        self.names.as_ref().context("this drill is about names")
    }

    /// Moves the one name to a host.
    pub(super) fn move_name(&self, host: SocketAddr) -> Result<()> {
        self.names()?.set(ONE_NAME, four(host)?);
        Ok(())
    }

    /// Returns Weir, for the drills that disturb it.
    pub(super) fn pooler(&mut self) -> Result<&mut Pooler> {
        self.weir.as_mut().context("this drill is about Weir")
    }

    /// Starts a PgBouncer beside each host, and HAProxy in front of them.
    fn start_haproxy(&mut self, cluster: &Cluster) -> Result<()> {
        let Cluster::Patroni(patroni) = cluster else {
            bail!("HAProxy asks Patroni");
        };
        let mut servers = Vec::new();
        for number in 0..NODES {
            let node = patroni.node(number);
            let port = tools::free_port()?;
            let users = self.directory.write("users.txt", "\"postgres\" \"\"\n")?;
            let text = files::pgbouncer(port, node.address(), &users);
            let file = self
                .directory
                .write(&format!("pgbouncer{number}.ini"), &text)?;
            self.run("pgbouncer", &[&file.to_string_lossy()], number)?;
            servers.push((port, node.rest()));
        }
        let port = tools::free_port()?;
        let file = self
            .directory
            .write("haproxy.cfg", &files::haproxy(port, &servers))?;
        self.run("haproxy", &["-db", "-f", &file.to_string_lossy()], 0)?;
        self.listens(port);
        self.wait_primary(port)
    }

    fn start_pgpool(&mut self, cluster: &Cluster) -> Result<()> {
        patroni::give_to_postgres(&self.directory)?;
        let (port, pcp) = (tools::free_port()?, tools::free_port()?);
        let text = files::pgpool([port, pcp], self.directory.path(), &cluster.addresses());
        let file = self.directory.write("pgpool.conf", &text)?;
        let empty = self.directory.write("pcp.conf", "")?;
        let (file, empty) = (file.to_string_lossy(), empty.to_string_lossy());
        self.run(
            "pgpool",
            &["-n", "-f", &file, "-F", &empty, "-a", &empty],
            0,
        )?;
        self.listens(port);
        self.wait_primary(port)
    }

    /// Weir's configuration: the hosts of the cluster in one entry, and its defaults else.
    fn weir_config(
        &mut self,
        options: &Options,
        entry: Entry,
        cluster: &Cluster,
    ) -> Result<Config> {
        let addresses = cluster.addresses();
        let mut hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let mut config = Config::new()
            .set("role_check_delay", "1")
            .set("catalogue_refresh", "15");
        if options.rounds > 1 {
            // Events follow one another sooner than the default of 60 s permits.
            config = config.set("min_time_between_holds", "0");
        }
        if matches!(entry, Entry::Names | Entry::OneName) {
            let names = NameServer::start()?;
            config = config.under(names.outer()).set("dns_max_ttl", "1");
            hosts.clear();
            for (number, address) in addresses.iter().enumerate() {
                let name = format!("n{number}.drill.test");
                names.set(&name, four(*address)?);
                hosts.push(format!("{name}:{}", address.port()));
            }
            self.names = Some(names);
        }
        for (key, value) in &options.settings {
            config = config.set(key, value);
        }
        if entry == Entry::OneName {
            let leader = addresses.get(cluster.leader()?).context("the leader")?;
            let leader = *leader;
            self.move_name(leader)?;
            let port = leader.port();
            return Ok(config.database(&format!("postgres = host={ONE_NAME} port={port}")));
        }
        let (first, others) = hosts.split_first().context("a cluster has hosts")?;
        let (host, port) = first.split_once(':').unwrap_or_default();
        Ok(config.database(&format!(
            "postgres = host={host} port={port} replicas={} read_write_split=auto watch_user=postgres{}",
            others.join(","),
            if entry == Entry::Fenced {
                cluster.fence()?
            } else {
                String::new()
            }
        )))
    }

    fn run(&mut self, program: &str, arguments: &[&str], number: usize) -> Result<()> {
        let path = tools::require(program, program)?;
        let path = path.to_string_lossy();
        let command: Vec<&str> = [&*path]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let log = self.directory.path().join(format!("{program}{number}.log"));
        let process = Guarded::start(Runner::Postgres, "INT", &command, &[], &log)?;
        self.processes.push(process);
        Ok(())
    }

    fn listens(&mut self, port: u16) {
        self.entrance = Entrance {
            addresses: vec![(Ipv4Addr::LOCALHOST, port).into()],
            seeks_primary: false,
            knows_outcomes: false,
        };
    }

    /// Waits until sessions reach the primary only.
    fn wait_primary(&mut self, port: u16) -> Result<()> {
        let mut in_a_row = 0;
        let waited = wait_until("sessions on the primary", LIMIT, || {
            self.check_healthy()?;
            in_a_row = if writes(port).is_ok() {
                in_a_row + 1
            } else {
                0
            };
            Ok(in_a_row > IN_A_ROW)
        });
        waited.with_context(|| tools::tail(&self.log(), 20))
    }
}

/// Writes a row on a new session. A session may hang while HAProxy takes its server out of use.
fn writes(port: u16) -> Result<()> {
    let mut raw = Raw::tcp(port, CONNECT_MAX)?;
    raw.login(&[("user", "postgres"), ("database", "postgres")])?;
    raw.query("INSERT INTO pulse DEFAULT VALUES")?;
    raw.terminate();
    Ok(())
}

/// Address of a name: DNS has no ports.
fn four(address: SocketAddr) -> Result<Ipv4Addr> {
    match address.ip() {
        IpAddr::V4(four) => Ok(four),
        IpAddr::V6(six) => bail!("{six} is no address of this cluster"),
    }
}

/// Waits until Weir writes to one host and reads from the others.
fn wait_watched(weir: &Weir) -> Result<()> {
    let mut console = weir.connect("pgbouncer")?;
    let watched = wait_until("reads on all replicas", LIMIT, || {
        let hosts = console.query_named("SHOW HOSTS")?;
        let count = |column: &str| {
            let values = hosts.iter().filter_map(|host| host.get(column));
            values.filter(|value| *value == "yes").count()
        };
        Ok(count("writes") == 1 && count("reads") + 1 >= hosts.len())
    });
    console.terminate();
    watched.with_context(|| weir.log())
}
