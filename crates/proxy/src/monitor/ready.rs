//! Readiness of the servers: one SSLRequest of eight bytes, which PostgreSQL answers before a login, at most once a
//! second.
//!
//! Open connections prove nothing about the present, and a new Weir has none, so a server has to be asked. SSLRequest
//! (manual, 55.2.10 "SSL Session Encryption") needs no user. It costs the server no login, and leaves no line in its
//! log.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::bounded;
use weir_config::{HostAddr, PoolSettings, Settings};
use weir_pool::Moment;

use crate::global::{Global, cluster_name, lock};

/// Bytes of an SSLRequest.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
/// Time for all servers together to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Time for which the outcome is reused.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum number of servers asked, in the order of the databases' names.
const SERVERS_MAX: usize = 16;

/// Address of a server that may answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    host: HostAddr,
    port: u16,
}

/// Outcomes of the last probes: of all servers together, and of the server of each database that was checked.
#[derive(Debug, Default)]
pub(super) struct Probes {
    all: Probe,
    /// By the name of the entry in `[databases]`.
    databases: Mutex<HashMap<String, Arc<Probe>>>,
}

/// Outcome of the last probe.
#[derive(Debug, Default)]
struct Probe {
    last: Mutex<Option<Found>>,
}

#[derive(Debug, Clone)]
struct Found {
    at: Moment,
    /// Server that answered, or the reason why none did.
    outcome: Result<Place, String>,
}

impl Probes {
    /// Succeeds if any configured server answers.
    ///
    /// # Errors
    /// The reason why no server answers.
    pub(super) fn check(&self, global: &Global) -> Result<(), String> {
        self.all.check(global, places)
    }

    /// Succeeds if a server of this database answers.
    ///
    /// # Errors
    /// The reason why none answers.
    pub(super) fn check_database(
        &self,
        global: &Global,
        pool: &PoolSettings,
    ) -> Result<(), String> {
        let probe = self.of(global, cluster_name(pool));
        probe.check(global, |_| places_of(pool).collect())
    }

    /// Returns the probe of an entry, and forgets those of entries that a reload has removed.
    fn of(&self, global: &Global, entry: &str) -> Arc<Probe> {
        let mut databases = lock(&self.databases);
        if let Some(probe) = databases.get(entry) {
            return Arc::clone(probe);
        }
        let settled = global.settled();
        databases.retain(|name, _| settled.settings.databases.contains_key(name));
        Arc::clone(databases.entry(entry.to_owned()).or_default())
    }
}

impl Probe {
    /// Succeeds if any of these servers answers.
    fn check(
        &self,
        global: &Global,
        places: impl FnOnce(&Settings) -> Vec<Place>,
    ) -> Result<(), String> {
        // Concurrent callers wait here for the running probe.
        let mut last = lock(&self.last);
        let now = global.clock.now();
        if let Some(found) = last.as_ref().filter(|found| now < found.at.plus(FRESH)) {
            return found.outcome.clone().map(drop);
        }
        let mut places = places(&global.settled().settings);
        if let Some(Ok(answered)) = last.take().map(|found| found.outcome) {
            // The server that answered last is asked first.
            places.sort_by_key(|place| *place != answered);
        }
        let outcome = first_to_answer(global, places, now.plus(ANSWER_MAX));
        *last = Some(Found {
            at: global.clock.now(),
            outcome: outcome.clone(),
        });
        outcome.map(drop)
    }
}

/// Returns every server of the configuration, once.
fn places(settings: &Settings) -> Vec<Place> {
    let mut places = Vec::new();
    for name in settings.databases.keys() {
        let Some(pool) = settings.pool(name, "") else {
            continue;
        };
        for place in places_of(&pool) {
            if !places.contains(&place) && places.len() < SERVERS_MAX {
                places.push(place);
            }
        }
    }
    places
}

/// Returns the servers of a database.
fn places_of(pool: &PoolSettings) -> impl Iterator<Item = Place> + '_ {
    let port = pool.port;
    let hosts = pool.hosts.iter().take(SERVERS_MAX).cloned();
    hosts.map(move |host| Place { host, port })
}

fn first_to_answer(global: &Global, places: Vec<Place>, until: Moment) -> Result<Place, String> {
    let mut why = "no server is configured".to_owned();
    let mut left = u32::try_from(places.len()).unwrap_or(u32::MAX);
    for place in places {
        // A silent server uses only its share of the time.
        let share = until.since(global.clock.now()) / left.max(1);
        left = left.saturating_sub(1);
        match ask(global, &place, share) {
            Ok(()) => return Ok(place),
            Err(error) => {
                let Place { host, port } = place;
                why = format!("no server answers; {host} port {port}: {error}");
            }
        }
    }
    Err(why)
}

fn ask(global: &Global, place: &Place, share: Duration) -> io::Result<()> {
    // A socket takes a timeout of zero for none.
    let share = share.max(Duration::from_millis(1));
    match &place.host {
        HostAddr::Ip(ip) => ask_tcp((*ip, place.port).into(), share),
        HostAddr::Name(name) => {
            let ip = resolved(global, name, share)?;
            ask_tcp((ip, place.port).into(), share)
        }
        HostAddr::UnixDir(directory) => {
            let path = directory.join(format!(".s.PGSQL.{}", place.port));
            ask_unix(&UnixStream::connect(path)?, share)
        }
        HostAddr::Abstract(name) => {
            let full = format!("{name}/.s.PGSQL.{}", place.port);
            let address = UnixAddr::from_abstract_name(full)?;
            ask_unix(&UnixStream::connect_addr(&address)?, share)
        }
    }
}

/// Returns an address of a name: from the workers' cache, or from the resolver within `share`.
fn resolved(global: &Global, name: &str, share: Duration) -> io::Result<IpAddr> {
    if let Some(Ok(known)) = global.resolver.cached(name, global.clock.now())
        && let Some(ip) = known.first()
    {
        return Ok(*ip);
    }
    let (sender, answer) = bounded(1);
    let asked = name.to_owned();
    let job = move || {
        let found = (asked.as_str(), 0).to_socket_addrs();
        // The caller may have given up.
        drop(sender.try_send(found.map(|mut found| found.next().map(|address| address.ip()))));
    };
    let busy = |_| io::Error::other("too many names are being resolved");
    global.helpers.resolvers.run(job).map_err(busy)?;
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let found = answer.recv_timeout(share).map_err(late)??;
    found.ok_or_else(|| io::Error::other("the name has no address"))
}

fn ask_tcp(address: SocketAddr, share: Duration) -> io::Result<()> {
    let stream = TcpStream::connect_timeout(&address, share)?;
    stream.set_read_timeout(Some(share))?;
    stream.set_write_timeout(Some(share))?;
    answered(&stream)
}

fn ask_unix(stream: &UnixStream, share: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(share))?;
    stream.set_write_timeout(Some(share))?;
    answered(stream)
}

fn answered(mut stream: impl Read + Write) -> io::Result<()> {
    stream.write_all(&REQUEST)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    match &answer {
        b"S" | b"N" => Ok(()),
        _ => Err(io::Error::other("it does not speak as PostgreSQL does")),
    }
}
