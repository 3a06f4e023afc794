//! List of the drills.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use anyhow::anyhow;

use super::Disturbs;
use super::Drill;
use super::Entry;
use super::Front;
use super::Stage;
use super::Subjects;
use super::World;
use crate::nameserver::Mood;
use crate::patroni::NODES;
use crate::patroni::Network;
use crate::patroni::Shape;

/// All drills, in the order in which they run.
pub static DRILLS: [Drill; 22] = [
    Drill {
        name: "switchover",
        about: "Patroni makes the synchronous standby the leader, and the former leader its replica.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let patroni = stage.patroni()?;
            patroni.switchover(patroni.candidate()?)
        },
    },
    Drill {
        name: "primary-killed",
        about: "The postmaster of the primary is killed with SIGKILL; its agent starts it again.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni()?.leader()?;
            stage.patroni()?.kill_postmaster(leader)
        },
    },
    Drill {
        name: "primary-host-killed",
        about: "Agent and postmaster of the primary are killed with SIGKILL; when there is a new leader, the host returns.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni()?.leader()?;
            stage.patroni()?.kill_host(leader)?;
            stage.patroni()?.wait_leader_beside(leader)?;
            stage.dwell();
            stage.patroni()?.start_agent(leader)
        },
    },
    Drill {
        name: "restart-fast",
        about: "Patroni restarts the primary's PostgreSQL with a fast shutdown.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let patroni = stage.patroni()?;
            patroni.restart(patroni.leader()?)
        },
    },
    Drill {
        name: "restart-immediate",
        about: "The postmaster of the primary gets SIGQUIT, an immediate shutdown; its agent starts it again.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni()?.leader()?;
            stage.patroni()?.quit_postmaster(leader)
        },
    },
    Drill {
        name: "replica-killed",
        about: "Agent and postmaster of one replica are killed with SIGKILL, and started again later.",
        world: World::Patroni(Shape::ASYNCHRONOUS),
        disturbs: Disturbs::Replicas,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| down(stage, 1),
    },
    Drill {
        name: "replicas-down",
        about: "Agents and postmasters of both replicas are killed with SIGKILL, and started again later.",
        world: World::Patroni(Shape::ASYNCHRONOUS),
        disturbs: Disturbs::Replicas,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| down(stage, NODES - 1),
    },
    Drill {
        name: "replica-lagging",
        about: "One replica receives WAL and does not replay it for some time.",
        world: World::Patroni(Shape::ASYNCHRONOUS),
        disturbs: Disturbs::Replicas,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let replica = some_replica(stage)?;
            stage.patroni()?.node(replica).pause_replay()?;
            stage.dwell();
            stage.patroni()?.resume_replay(replica)
        },
    },
    Drill {
        name: "replica-paused",
        about: "All PostgreSQL processes of one replica are stopped with SIGSTOP for some time.",
        world: World::Patroni(Shape::ASYNCHRONOUS),
        disturbs: Disturbs::Replicas,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let replica = some_replica(stage)?;
            stage.patroni()?.freeze_server(replica)?;
            stage.dwell();
            stage.patroni()?.thaw(replica)
        },
    },
    Drill {
        name: "replica-restarted",
        about: "Patroni restarts one replica's PostgreSQL with a fast shutdown.",
        world: World::Patroni(Shape::ASYNCHRONOUS),
        disturbs: Disturbs::Replicas,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let replica = some_replica(stage)?;
            stage.patroni()?.restart(replica)
        },
    },
    Drill {
        name: "agent-frozen",
        about: "The agent of the primary is stopped with SIGSTOP until another node is leader, and some time longer: two hosts \
                accept writes. Weir knows the leader's key in etcd (`fence = patroni`).",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Fenced,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni()?.leader()?;
            stage.patroni()?.freeze_agent(leader)?;
            thaw_after_failover(stage, leader)
        },
    },
    Drill {
        name: "primary-frozen",
        about: "All PostgreSQL processes of the primary, and its agent, are stopped with SIGSTOP until another node is leader, \
                and some time longer.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni()?.leader()?;
            stage.patroni()?.freeze_agent(leader)?;
            stage.patroni()?.freeze_server(leader)?;
            thaw_after_failover(stage, leader)
        },
    },
    Drill {
        name: "network-cut",
        about: "The network cable of the primary's host is pulled until another node is leader, and three times the time of load longer.",
        world: World::Patroni(Shape {
            network: Network::Cables,
            ..Shape::SYNCHRONOUS
        }),
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni()?.leader()?;
            stage.patroni()?.cut(leader)?;
            let next = stage.patroni()?.wait_leader_beside(leader)?;
            // Long enough to tell requests that end by themselves from those that wait for the host.
            (0..3).for_each(|_| stage.dwell());
            stage.patroni()?.heal(leader)?;
            stage.patroni()?.wait_succeeded(leader, next)
        },
    },
    Drill {
        name: "disk-full",
        about: "The volume of the primary's WAL fills up, and has room again some time later.",
        world: World::Patroni(Shape {
            has_volumes: true,
            ..Shape::SYNCHRONOUS
        }),
        disturbs: Disturbs::Disk,
        entry: Entry::Addresses,
        subjects: Subjects::All,
        event: |stage| {
            // Patroni 3.0.2 need not choose another leader: the old one may keep the key while its server does not start.
            let leader = stage.patroni()?.leader()?;
            stage.patroni()?.fill_volume(leader)?;
            stage.dwell();
            stage.patroni()?.free_volume(leader)
        },
    },
    Drill {
        name: "dns-changes",
        about: "A switchover; the name by which Weir knows the only host gets the address of the new leader when there is one.",
        world: World::Patroni(Shape {
            network: Network::OnePort,
            ..Shape::SYNCHRONOUS
        }),
        disturbs: Disturbs::Name,
        entry: Entry::OneName,
        subjects: Subjects::Weir,
        event: |stage| {
            let next = stage.patroni()?.candidate()?;
            stage.patroni()?.switchover(next)?;
            let address = stage.patroni()?.node(next).address();
            stage.front.move_name(address)
        },
    },
    Drill {
        name: "dns-silent",
        about: "A switchover while the name server, by which Weir knows the hosts, answers nothing.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Names,
        subjects: Subjects::Weir,
        event: |stage| switchover_without_names(stage, Mood::Silent),
    },
    Drill {
        name: "dns-silent-restart",
        about: "Patroni restarts the primary with a fast shutdown while the name server, by which Weir knows the only host, answers \
                nothing.",
        world: World::Patroni(Shape {
            network: Network::OnePort,
            ..Shape::SYNCHRONOUS
        }),
        disturbs: Disturbs::Name,
        entry: Entry::OneName,
        subjects: Subjects::Weir,
        event: |stage| {
            stage.front.names()?.turn(Mood::Silent);
            stage.dwell();
            let patroni = stage.patroni()?;
            patroni.restart(patroni.leader()?)?;
            stage.patroni()?.wait_whole()?;
            stage.dwell();
            stage.front.names()?.turn(Mood::Answers);
            Ok(())
        },
    },
    Drill {
        name: "dns-fails",
        about: "A switchover while the name server, by which Weir knows the hosts, answers SERVFAIL.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Names,
        subjects: Subjects::Weir,
        event: |stage| switchover_without_names(stage, Mood::Fails),
    },
    Drill {
        name: "weir-upgraded",
        about: "During a switchover, when the former leader accepts no session any more, `weir upgrade` puts another process in \
                Weir's place.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::Weir,
        event: |stage| amid_switchover(stage, |front| front.pooler()?.upgrade()),
    },
    Drill {
        name: "weir-killed",
        about: "During a switchover, when the former leader accepts no session any more, Weir is killed with SIGKILL and \
                another one started.",
        world: World::Patroni(Shape::SYNCHRONOUS),
        disturbs: Disturbs::Weir,
        entry: Entry::Addresses,
        subjects: Subjects::Weir,
        event: |stage| {
            let mut outage = Duration::ZERO;
            amid_switchover(stage, |front| {
                outage = front.pooler()?.kill()?;
                Ok(())
            })?;
            stage.outage = outage;
            Ok(())
        },
    },
    Drill {
        name: "repmgr-switchover",
        about: "`repmgr standby switchover --siblings-follow` on a standby.",
        world: World::Repmgr,
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::Weir,
        event: |stage| {
            let repmgr = stage.repmgr()?;
            let next = (repmgr.leader()? + 1) % NODES;
            repmgr.switchover(next)
        },
    },
    Drill {
        name: "repmgr-primary-killed",
        about: "The postmaster of the primary is killed with SIGKILL; repmgrd promotes a standby, and some time later \
                `repmgr node rejoin` makes the former primary its standby.",
        world: World::Repmgr,
        disturbs: Disturbs::Primary,
        entry: Entry::Addresses,
        subjects: Subjects::Weir,
        event: |stage| {
            let former = stage.repmgr()?.leader()?;
            stage.repmgr()?.kill_postmaster(former)?;
            stage.repmgr()?.wait_leader_beside(former)?;
            stage.dwell();
            stage.repmgr()?.rejoin(former)
        },
    },
];

/// Acts on Weir when a switchover has closed the former leader, and returns when both are done.
fn amid_switchover(
    stage: &mut Stage<'_>,
    act: impl FnOnce(&mut Front) -> Result<()>,
) -> Result<()> {
    let (patroni, front) = stage.parts()?;
    let (former, next) = (patroni.leader()?, patroni.candidate()?);
    thread::scope(|scope| {
        let switchover = scope.spawn(|| patroni.switchover(next));
        let acted = patroni.wait_closed(former).and_then(|()| act(front));
        let switched = switchover
            .join()
            .map_err(|_| anyhow!("the switchover has panicked"))?;
        switched.and(acted)
    })
}

/// Lets all names grow old without a name server, makes a switchover, and starts the name server again after some time of
/// load.
fn switchover_without_names(stage: &mut Stage<'_>, mood: Mood) -> Result<()> {
    stage.front.names()?.turn(mood);
    stage.dwell();
    let patroni = stage.patroni()?;
    patroni.switchover(patroni.candidate()?)?;
    stage.patroni()?.wait_whole()?;
    stage.dwell();
    stage.front.names()?.turn(Mood::Answers);
    Ok(())
}

/// Returns a node that is not the leader.
fn some_replica(stage: &mut Stage<'_>) -> Result<usize> {
    let leader = stage.patroni()?.leader()?;
    Ok((leader + 1) % NODES)
}

/// Kills the hosts of this many replicas, and starts them again after some time of load.
fn down(stage: &mut Stage<'_>, count: usize) -> Result<()> {
    let leader = stage.patroni()?.leader()?;
    let replicas: Vec<usize> = (0..NODES)
        .filter(|node| *node != leader)
        .take(count)
        .collect();
    for replica in &replicas {
        stage.patroni()?.kill_host(*replica)?;
    }
    stage.dwell();
    for replica in &replicas {
        stage.patroni()?.start_agent(*replica)?;
    }
    Ok(())
}

/// Lets a frozen leader go on some time after another node has taken its place, and waits until it follows that node.
fn thaw_after_failover(stage: &mut Stage<'_>, former: usize) -> Result<()> {
    let leader = stage.patroni()?.wait_leader_beside(former)?;
    stage.dwell();
    stage.patroni()?.thaw(former)?;
    stage.patroni()?.wait_succeeded(former, leader)
}
