//! Hosts of a virtual cluster: branches of WAL, replication, crashes. Knows nothing of the watch.

use weir_watch::Answer;
use weir_watch::Lsn;
use weir_watch::Position;
use weir_watch::Receiver;

/// Branch of the history: a timeline with its parent. Numbers of timelines are unique, as a shared archive makes them.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// Parent, and the position at which this branch left it.
    pub(crate) parent: Option<(usize, u64)>,
}

/// State of a host's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Dead,
    /// Starts until this time.
    Starting(u64),
    Up,
}

/// Role and positions. Positions count bytes on the host's branch and its ancestors.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    Primary {
        flushed: u64,
        inserted: u64,
    },
    Standby {
        upstream: usize,
        received: u64,
        replayed: u64,
        /// Position to which a crash leads back.
        restart: u64,
        is_paused: bool,
        receiver_stopped: bool,
        streams: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) life: Life,
    pub(crate) role: Role,
    pub(crate) branch: usize,
    pub(crate) started: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) branches: Vec<Branch>,
    pub(crate) hosts: Vec<Host>,
    starts: i64,
}

impl Cluster {
    /// Host 0 is the primary; the others stream from it.
    pub(crate) fn new(count: usize) -> Self {
        let host = |index: usize| Host {
            life: Life::Up,
            role: if index == 0 {
                Role::Primary {
                    flushed: 1000,
                    inserted: 1000,
                }
            } else {
                standby(0, 1000)
            },
            branch: 0,
            started: i64::try_from(index).unwrap(),
        };
        Self {
            branches: vec![Branch { parent: None }],
            hosts: (0..count).map(host).collect(),
            starts: 100,
        }
    }

    /// Timeline of a branch, as PostgreSQL would number it.
    fn timeline(branch: usize) -> u32 {
        u32::try_from(branch + 1).unwrap()
    }

    /// Returns true if a position of one branch belongs to the history of another.
    pub(crate) fn contains(&self, history: usize, branch: usize, position: u64) -> bool {
        let (mut at, mut limit) = (history, u64::MAX);
        loop {
            if at == branch {
                return position <= limit;
            }
            let Some((parent, fork)) = self.branches[at].parent else {
                return false;
            };
            (at, limit) = (parent, limit.min(fork));
        }
    }

    /// End of the WAL that a host has durably.
    pub(crate) fn end(&self, host: usize) -> u64 {
        match self.hosts[host].role {
            Role::Primary { flushed, .. } => flushed,
            Role::Standby { received, .. } => received,
        }
    }

    /// Position that queries on a host see.
    pub(crate) fn visible(&self, host: usize) -> u64 {
        match self.hosts[host].role {
            Role::Primary { inserted, .. } => inserted,
            Role::Standby { replayed, .. } => replayed,
        }
    }

    pub(crate) fn is_primary(&self, host: usize) -> bool {
        self.is_up(host) && matches!(self.hosts[host].role, Role::Primary { .. })
    }

    pub(crate) fn is_up(&self, host: usize) -> bool {
        self.hosts[host].life == Life::Up
    }

    pub(crate) fn streams(&self, host: usize) -> bool {
        matches!(self.hosts[host].role, Role::Standby { streams: true, .. })
    }

    pub(crate) fn crash(&mut self, host: usize) {
        self.hosts[host].life = Life::Dead;
    }

    /// Starts a dead host in its role. WAL that was not flushed is lost, and a standby replays from its restart point.
    pub(crate) fn start(&mut self, host: usize, until: u64) {
        self.starts += 1;
        let started = self.starts;
        let host = &mut self.hosts[host];
        host.life = Life::Starting(until);
        host.started = started;
        match &mut host.role {
            Role::Primary { flushed, inserted } => *inserted = *flushed,
            Role::Standby {
                replayed,
                restart,
                streams,
                received,
                ..
            } => {
                *received = *replayed;
                *replayed = *restart;
                *streams = false;
            }
        }
    }

    /// Promotes a standby that is up: replays what it received and begins a branch.
    pub(crate) fn promote(&mut self, host: usize) {
        let end = self.end(host);
        let parent = Some((self.hosts[host].branch, end));
        self.branches.push(Branch { parent });
        let host = &mut self.hosts[host];
        host.branch = self.branches.len() - 1;
        host.role = Role::Primary {
            flushed: end,
            inserted: end,
        };
    }

    /// Makes a host a standby of another one. `rewinds` copies that one's history, as pg_rewind does.
    pub(crate) fn follow(&mut self, host: usize, upstream: usize, rewinds: bool, until: u64) {
        let end = self.end(host);
        let role = if rewinds {
            self.hosts[host].branch = self.hosts[upstream].branch;
            standby(upstream, self.end(upstream))
        } else {
            standby(upstream, end)
        };
        self.hosts[host].role = role;
        self.start(host, until);
    }

    /// Lets time pass: hosts start, standbys receive and replay. `dice` gives random numbers.
    pub(crate) fn advance(&mut self, now: u64, mut dice: impl FnMut(u64) -> u64) {
        for index in 0..self.hosts.len() {
            if let Life::Starting(until) = self.hosts[index].life
                && until <= now
            {
                self.hosts[index].life = Life::Up;
            }
            self.replicate(index, &mut dice);
        }
    }

    fn replicate(&mut self, index: usize, dice: &mut impl FnMut(u64) -> u64) {
        let &Role::Standby {
            upstream,
            receiver_stopped,
            ..
        } = &self.hosts[index].role
        else {
            return;
        };
        let source = &self.hosts[upstream];
        let (source_branch, source_end) = (source.branch, self.end(upstream));
        let can_stream = self.is_up(index)
            && self.is_primary(upstream)
            && !receiver_stopped
            && self.contains(source_branch, self.hosts[index].branch, self.end(index))
            && self.end(index) <= source_end;
        let is_up = self.is_up(index);
        let host = &mut self.hosts[index];
        let Role::Standby {
            received,
            replayed,
            restart,
            is_paused,
            streams,
            ..
        } = &mut host.role
        else {
            return;
        };
        *streams = can_stream;
        if can_stream {
            host.branch = source_branch;
            *received += dice(source_end - *received + 1);
        }
        if is_up && !*is_paused {
            *replayed += dice(*received - *replayed + 1);
            if dice(8) == 0 {
                *restart += dice(*replayed - *restart + 1);
            }
        }
    }

    /// Answer of a host that is up.
    pub(crate) fn answer(&self, index: usize) -> Answer {
        let host = &self.hosts[index];
        let timeline = Self::timeline(host.branch);
        let position = match host.role {
            Role::Primary { flushed, inserted } => Position::Primary {
                flushed: Lsn(flushed),
                inserted: Lsn(inserted),
                timeline,
            },
            Role::Standby {
                received,
                replayed,
                is_paused,
                streams,
                ..
            } => Position::Replica {
                replayed: Lsn(replayed),
                received: Some(Lsn(received)),
                receiver: match (streams, received % 2) {
                    (true, _) => Receiver::Streaming { timeline },
                    (false, 0) => Receiver::Other { timeline },
                    (false, _) => Receiver::None,
                },
                is_paused,
            },
        };
        Answer {
            position,
            started: host.started,
            system: Some(42),
            checkpoint_timeline: Some(timeline),
            is_read_only: false,
        }
    }
}

fn standby(upstream: usize, at: u64) -> Role {
    Role::Standby {
        upstream,
        received: at,
        replayed: at,
        restart: at,
        is_paused: false,
        receiver_stopped: false,
        streams: true,
    }
}
