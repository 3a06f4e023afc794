//! World of one watching thread and scripted hosts, in which nothing moves unless a test says so.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use weir_auth::userlist::UserList;
use weir_config::{HostAddr, Settings};
use weir_pool::{HostId, Moment};
use weir_watch::{Configured, Host, HostView, Rules, SplitBrain};

use super::hosts::{HostSide, Manner};
use crate::clock::Clock;
use crate::console::{Console, Conversation, Role, Step};
use crate::driver::memory::{End, Layer, MemoryDriver, Peer};
use crate::driver::{Owner, Wake};
use crate::global::{Cluster, Clusters, Global};
use crate::mailbox::channel::mailbox;
use crate::offload::{Job, Offload};
use crate::settled::{Access, Settled, Setup};
use crate::transport::Transport;
use crate::watching::message::{MESSAGES_MAX, Message, WatcherMailbox};
use crate::watching::spec::{ClusterSpec, HostSpec, WatchLogin};
use crate::watching::{Stage, Watcher};

/// Capacity of a connection, in bytes.
const ROOM: usize = 1 << 16;
/// Turns after which everything that can happen without time has happened.
const TURNS: usize = 16;

/// Interval between the probes of a host.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Limit of an attempt to connect, and of a probe.
pub(super) const TIMEOUT: Duration = Duration::from_millis(400);

struct NoConsole;

impl Console for NoConsole {
    fn greeting(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn open(&self, _: Role) -> Box<dyn Conversation> {
        Box::new(Mute)
    }
}

struct Mute;

impl Conversation for Mute {
    fn handle(&mut self, _: u8, _: &[u8]) -> Step {
        Step::Gather { digests: false }
    }

    fn gathered(&mut self, _: &weir_stats::Snapshot) -> Vec<u8> {
        Vec::new()
    }

    fn performed(&mut self, _: Result<(), crate::console::Refusal>) -> Vec<u8> {
        Vec::new()
    }
}

/// Counts wakeups of the watching thread.
#[derive(Debug, Default)]
pub(super) struct Wakeups(AtomicUsize);

impl Wake for Wakeups {
    fn wake(&self) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// See the module's page.
pub(super) struct World {
    pub(super) global: Arc<Global>,
    pub(super) watcher: Watcher<MemoryDriver>,
    mailbox: WatcherMailbox,
    hands: &'static AtomicU64,
    pub(super) clusters: Clusters,
    /// Behaviour of each host, over all clusters, by the last part of its address.
    pub(super) manners: Vec<Manner>,
    /// Connections that were made, in their order.
    pub(super) sides: Vec<HostSide>,
    /// Attempts that nobody answers.
    pub(super) pending: Vec<(usize, Peer)>,
    /// Number of attempts to connect.
    pub(super) dials: usize,
    /// True if hosts have TLS, false if they refuse it; none if they are not asked.
    pub(super) has_tls: Option<bool>,
    wakeups: Arc<Wakeups>,
    woken: Arc<AtomicUsize>,
    jobs: Receiver<Job>,
}

/// Reads settings from lines of a global section.
pub(super) fn settings(lines: &str) -> Settings {
    let text = format!("[databases]\n[pgbouncer]\nauth_type = any\nauth_file = users\n{lines}\n");
    let mut read = |_: &Path| Ok(text.clone());
    let loaded = weir_config::load("weir.ini".as_ref(), &mut read, std::iter::empty());
    loaded.unwrap().settings
}

/// Makes the state that all threads share.
pub(super) fn global(lines: &str, transport: Transport) -> Global {
    let setup = Setup {
        settings: Arc::new(settings(lines)),
        users: Arc::new(UserList::parse(b"").unwrap()),
        access: Access::default(),
        transport: Arc::new(transport),
    };
    let (commands, _) = bounded(1);
    Global::new(Settled::new(setup, None), Arc::new(NoConsole), 1, commands).unwrap()
}

pub(super) fn rules() -> Rules {
    Rules {
        probe_interval: INTERVAL,
        probe_timeout: TIMEOUT,
        fall: 3,
        rise: 2,
        max_lag: None,
        max_staleness: None,
        slow_start: Duration::ZERO,
        split_brain: SplitBrain::Newest,
        hold: Duration::from_secs(60),
    }
}

/// Describes the host 10.0.0.n.
pub(super) fn host(n: u8) -> HostSpec {
    HostSpec {
        host: Host {
            id: HostId(n.into()),
            name: format!("10.0.0.{n}:5432").into(),
            az: "".into(),
            role: Configured::Auto,
            weight: 100,
            reads: true,
        },
        address: HostAddr::Ip([10, 0, 0, n].into()),
        port: 5432,
    }
}

/// Describes a cluster of these hosts.
pub(super) fn spec(clusters: &Clusters, database: &str, hosts: Vec<HostSpec>) -> ClusterSpec {
    ClusterSpec {
        database: database.into(),
        hosts,
        rules: rules(),
        login: WatchLogin {
            user: "watcher".to_owned(),
            dbname: "postgres".to_owned(),
            secret: None,
            tls: settings("").server_tls().remove(0).1,
            outgoing: Ok(None),
            iterations_max: 10_000,
        },
        is_fenced: false,
        cluster: {
            let cluster = clusters.of(database);
            cluster.follow_writes();
            cluster
        },
    }
}

impl World {
    /// Makes a thread that watches nothing. Host n behaves as the n-th manner.
    pub(super) fn empty(manners: &[Manner]) -> Self {
        Self::with(manners, "", Transport::default())
    }

    /// Makes such a thread with these lines of configuration and this TLS.
    pub(super) fn with(manners: &[Manner], lines: &str, transport: Transport) -> Self {
        let hands: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(1_000_000)));
        let (sender, jobs) = bounded(64);
        let mut global = global(lines, transport);
        global.clock = Clock::set_by(hands);
        global.helpers.handshakers = Offload::by_hand(sender.clone());
        global.helpers.derivers = Offload::by_hand(sender.clone());
        global.helpers.resolvers = Offload::by_hand(sender);
        let global = Arc::new(global);
        let wakeups = Arc::<Wakeups>::default();
        let (mailbox, inbox) = mailbox(MESSAGES_MAX, Arc::<Wakeups>::clone(&wakeups));
        let clusters = Clusters::default();
        clusters.wakeup().set(Arc::<Wakeups>::clone(&wakeups));
        let woken = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&woken);
        let watcher = Watcher::new(
            Arc::clone(&global),
            MemoryDriver::new(ROOM),
            (mailbox.clone(), inbox),
            Box::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            }),
        );
        Self {
            global,
            watcher,
            mailbox,
            hands,
            clusters,
            manners: manners.to_vec(),
            sides: Vec::new(),
            pending: Vec::new(),
            dials: 0,
            has_tls: None,
            wakeups,
            woken,
            jobs,
        }
    }

    /// Makes a thread that watches the hosts 0, 1, … of the database `shop`, and lets it begin.
    pub(super) fn new(manners: &[Manner]) -> Self {
        let mut world = Self::empty(manners);
        let spec = world.spec();
        world.watch(vec![spec]);
        world
    }

    /// Describes the database `shop` with all hosts.
    pub(super) fn spec(&self) -> ClusterSpec {
        let hosts = (0..self.manners.len()).map(|n| host(u8::try_from(n).unwrap()));
        spec(&self.clusters, "shop", hosts.collect())
    }

    /// Puts clusters in force.
    pub(super) fn watch(&mut self, specs: Vec<ClusterSpec>) {
        self.mailbox.send_waiting(Message::Settings(specs));
        self.settle();
    }

    /// Lets everything happen that takes no time.
    pub(super) fn settle(&mut self) {
        for _ in 0..TURNS {
            self.step();
        }
    }

    /// Lets the thread turn once, and the hosts answer once.
    pub(super) fn step(&mut self) {
        self.watcher.turn().unwrap();
        for (owner, peer) in self.watcher.driver.take_dialled() {
            self.dials += 1;
            let host = self.host_of(owner);
            match self.manners[host] {
                Manner::Refuses => peer.refuse(),
                Manner::Silent => self.pending.push((host, peer)),
                _ => {
                    peer.accept();
                    if let Some(has_tls) = self.has_tls {
                        peer.protect(Layer::accepting(7, has_tls, false));
                    }
                    self.sides.push(HostSide::new(host, peer));
                }
            }
        }
        for side in &mut self.sides {
            side.serve(self.manners[side.host]);
        }
        self.check();
    }

    /// Returns the host that a connection is for, by its address.
    fn host_of(&self, owner: Owner) -> usize {
        let Owner::Server(id) = owner else {
            panic!("{owner:?}")
        };
        let link = &self.watcher.links[id];
        let spec = &self.watcher.watched[link.watched].spec.hosts[link.host];
        usize::try_from(spec.host.id.0).unwrap()
    }

    /// Checks what always holds.
    #[track_caller]
    fn check(&self) {
        for (id, link) in &self.watcher.links {
            let watched = &self.watcher.watched[link.watched];
            assert_eq!(watched.hosts[link.host].link, Some(id), "one for each host");
            let is_idle = matches!(link.stage, Stage::Idle);
            assert_eq!(link.deadline.is_none(), is_idle, "each wait has a limit");
        }
        for side in &self.sides {
            assert!(side.parameters.len() != 1);
        }
    }

    pub(super) fn now(&self) -> Moment {
        Moment(self.hands.load(Ordering::Relaxed))
    }

    /// Lets time pass without anything happening.
    pub(super) fn pass(&self, span: Duration) {
        self.hands.store(self.now().plus(span).0, Ordering::Relaxed);
    }

    /// Lets time pass, step by step.
    pub(super) fn advance(&mut self, span: Duration) {
        let until = self.now().plus(span);
        while self.now() < until {
            let step = until.since(self.now()).min(Duration::from_millis(10));
            self.pass(step);
            self.settle();
        }
    }

    /// Runs the next job of the helpers. True if there was one.
    pub(super) fn help(&self) -> bool {
        let job = self.jobs.try_recv();
        job.map(|job| job()).is_ok()
    }

    /// Takes the next job of the helpers.
    pub(super) fn take_job(&self) -> Job {
        self.jobs.try_recv().expect("a job")
    }

    pub(super) fn cluster(&self) -> Arc<Cluster> {
        self.clusters.of("shop")
    }

    /// Returns what is known of a host of `shop`.
    pub(super) fn view(&self, host: usize) -> HostView {
        self.cluster().snapshot().hosts[host].clone()
    }

    /// Returns the last error of a host of `shop`.
    pub(super) fn error(&self, host: usize) -> String {
        let error = self.view(host).last_error;
        error.as_deref().unwrap_or_default().to_owned()
    }

    /// Number of times that the thread was woken since the last call.
    pub(super) fn take_wakeups(&self) -> usize {
        self.wakeups.0.swap(0, Ordering::SeqCst)
    }

    /// Number of times that the workers were woken since the last call.
    pub(super) fn take_woken(&self) -> usize {
        self.woken.swap(0, Ordering::SeqCst)
    }

    /// Returns the newest connection to a host.
    pub(super) fn side(&mut self, host: usize) -> &mut HostSide {
        let mut sides = self.sides.iter_mut().rev();
        sides.find(|side| side.host == host).expect("a connection")
    }

    /// Number of open connections to a host.
    pub(super) fn open(&self, host: usize) -> usize {
        let sides = self.sides.iter().filter(|side| side.host == host);
        sides.filter(|side| !side.is_closed()).count()
    }

    /// Ends the newest connection of a host, with a FATAL error or without.
    pub(super) fn end(&mut self, host: usize, how: End) {
        self.side(host).peer.end(how);
    }
}
