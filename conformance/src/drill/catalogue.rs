//! List of the drills.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use anyhow::anyhow;

use super::Disturbs;
use super::Drill;
use super::Front;
use super::Stage;
use super::Subjects;
use crate::patroni::NODES;
use crate::patroni::Network;
use crate::patroni::Shape;

/// All drills, in the order in which they run.
pub static DRILLS: [Drill; 15] = [
    Drill {
        name: "switchover",
        about: "Patroni makes the synchronous standby the leader, and the former leader its replica.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Primary,
        subjects: Subjects::All,
        event: |stage| stage.patroni.switchover(stage.patroni.candidate()?),
    },
    Drill {
        name: "primary-killed",
        about: "The postmaster of the primary is killed with SIGKILL; its agent starts it again.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Primary,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.kill_postmaster(leader)
        },
    },
    Drill {
        name: "primary-host-killed",
        about: "Agent and postmaster of the primary are killed with SIGKILL; when there is a new leader, the host returns.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Primary,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.kill_host(leader)?;
            stage.patroni.wait_leader_beside(leader)?;
            stage.dwell();
            stage.patroni.start_agent(leader)
        },
    },
    Drill {
        name: "restart-fast",
        about: "Patroni restarts the primary's PostgreSQL with a fast shutdown.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Primary,
        subjects: Subjects::All,
        event: |stage| stage.patroni.restart(stage.patroni.leader()?),
    },
    Drill {
        name: "restart-immediate",
        about: "The postmaster of the primary gets SIGQUIT, an immediate shutdown; its agent starts it again.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Primary,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.quit_postmaster(leader)
        },
    },
    Drill {
        name: "replica-killed",
        about: "Agent and postmaster of one replica are killed with SIGKILL, and started again later.",
        shape: Shape::ASYNCHRONOUS,
        disturbs: Disturbs::Replicas,
        subjects: Subjects::All,
        event: |stage| down(stage, 1),
    },
    Drill {
        name: "replicas-down",
        about: "Agents and postmasters of both replicas are killed with SIGKILL, and started again later.",
        shape: Shape::ASYNCHRONOUS,
        disturbs: Disturbs::Replicas,
        subjects: Subjects::All,
        event: |stage| down(stage, NODES - 1),
    },
    Drill {
        name: "replica-lagging",
        about: "One replica receives WAL and does not replay it for some time.",
        shape: Shape::ASYNCHRONOUS,
        disturbs: Disturbs::Replicas,
        subjects: Subjects::All,
        event: |stage| {
            let replica = some_replica(stage)?;
            stage.patroni.node(replica).pause_replay()?;
            stage.dwell();
            stage.patroni.resume_replay(replica)
        },
    },
    Drill {
        name: "replica-paused",
        about: "All PostgreSQL processes of one replica are stopped with SIGSTOP for some time.",
        shape: Shape::ASYNCHRONOUS,
        disturbs: Disturbs::Replicas,
        subjects: Subjects::All,
        event: |stage| {
            let replica = some_replica(stage)?;
            stage.patroni.freeze_server(replica)?;
            stage.dwell();
            stage.patroni.thaw(replica)
        },
    },
    Drill {
        name: "replica-restarted",
        about: "Patroni restarts one replica's PostgreSQL with a fast shutdown.",
        shape: Shape::ASYNCHRONOUS,
        disturbs: Disturbs::Replicas,
        subjects: Subjects::All,
        event: |stage| stage.patroni.restart(some_replica(stage)?),
    },
    Drill {
        name: "agent-frozen",
        about: "The agent of the primary is stopped with SIGSTOP until another node is leader, and some time longer: two hosts \
                accept writes.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Primary,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.freeze_agent(leader)?;
            thaw_after_failover(stage, leader)
        },
    },
    Drill {
        name: "primary-frozen",
        about: "All PostgreSQL processes of the primary, and its agent, are stopped with SIGSTOP until another node is leader, \
                and some time longer.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Primary,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.freeze_agent(leader)?;
            stage.patroni.freeze_server(leader)?;
            thaw_after_failover(stage, leader)
        },
    },
    Drill {
        name: "network-cut",
        about: "The network cable of the primary's host is pulled until another node is leader, and some time longer.",
        shape: Shape {
            network: Network::Cables,
            ..Shape::SYNCHRONOUS
        },
        disturbs: Disturbs::Primary,
        subjects: Subjects::All,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.cut(leader)?;
            let next = stage.patroni.wait_leader_beside(leader)?;
            stage.dwell();
            stage.patroni.heal(leader)?;
            stage.patroni.wait_succeeded(leader, next)
        },
    },
    Drill {
        name: "weir-upgraded",
        about: "During a switchover, when the former leader accepts no session any more, `weir upgrade` puts another process in \
                Weir's place.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Primary,
        subjects: Subjects::Weir,
        event: |stage| amid_switchover(stage, |front| front.pooler()?.upgrade()),
    },
    Drill {
        name: "weir-killed",
        about: "During a switchover, when the former leader accepts no session any more, Weir is killed with SIGKILL and \
                another one started.",
        shape: Shape::SYNCHRONOUS,
        disturbs: Disturbs::Weir,
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
];

/// Acts on Weir when a switchover has closed the former leader, and returns when both are done.
fn amid_switchover(
    stage: &mut Stage<'_>,
    act: impl FnOnce(&mut Front) -> Result<()>,
) -> Result<()> {
    let patroni = &*stage.patroni;
    let (former, next) = (patroni.leader()?, patroni.candidate()?);
    thread::scope(|scope| {
        let switchover = scope.spawn(|| patroni.switchover(next));
        let acted = patroni.wait_closed(former).and_then(|()| act(stage.front));
        let switched = switchover
            .join()
            .map_err(|_| anyhow!("the switchover has panicked"))?;
        switched.and(acted)
    })
}

/// Returns a node that is not the leader.
fn some_replica(stage: &Stage<'_>) -> Result<usize> {
    let leader = stage.patroni.leader()?;
    Ok((leader + 1) % NODES)
}

/// Kills the hosts of this many replicas, and starts them again after some time of load.
fn down(stage: &mut Stage<'_>, count: usize) -> Result<()> {
    let leader = stage.patroni.leader()?;
    let replicas: Vec<usize> = (0..NODES)
        .filter(|node| *node != leader)
        .take(count)
        .collect();
    for replica in &replicas {
        stage.patroni.kill_host(*replica)?;
    }
    stage.dwell();
    for replica in &replicas {
        stage.patroni.start_agent(*replica)?;
    }
    Ok(())
}

/// Lets a frozen leader go on some time after another node has taken its place, and waits until it follows that node.
fn thaw_after_failover(stage: &mut Stage<'_>, former: usize) -> Result<()> {
    let leader = stage.patroni.wait_leader_beside(former)?;
    stage.dwell();
    stage.patroni.thaw(former)?;
    stage.patroni.wait_succeeded(former, leader)
}
