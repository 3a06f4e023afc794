//! List of the drills.

use anyhow::Result;

use super::Disturbs;
use super::Drill;
use super::Stage;
use crate::patroni::NODES;
use crate::patroni::Replication;

/// All drills, in the order in which they run.
pub static DRILLS: [Drill; 9] = [
    Drill {
        name: "switchover",
        about: "Patroni makes the synchronous standby the leader, and the former leader its replica.",
        replication: Replication::Synchronous,
        disturbs: Disturbs::Primary,
        event: |stage| stage.patroni.switchover(stage.patroni.candidate()?),
    },
    Drill {
        name: "primary-killed",
        about: "The postmaster of the primary is killed with SIGKILL; its agent starts it again.",
        replication: Replication::Synchronous,
        disturbs: Disturbs::Primary,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.kill_postmaster(leader)
        },
    },
    Drill {
        name: "primary-host-killed",
        about: "Agent and postmaster of the primary are killed with SIGKILL; when there is a new leader, the host returns.",
        replication: Replication::Synchronous,
        disturbs: Disturbs::Primary,
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
        replication: Replication::Synchronous,
        disturbs: Disturbs::Primary,
        event: |stage| stage.patroni.restart(stage.patroni.leader()?),
    },
    Drill {
        name: "restart-immediate",
        about: "The postmaster of the primary gets SIGQUIT, an immediate shutdown; its agent starts it again.",
        replication: Replication::Synchronous,
        disturbs: Disturbs::Primary,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.quit_postmaster(leader)
        },
    },
    Drill {
        name: "replica-killed",
        about: "Agent and postmaster of one replica are killed with SIGKILL, and started again later.",
        replication: Replication::Asynchronous,
        disturbs: Disturbs::Replicas,
        event: |stage| down(stage, 1),
    },
    Drill {
        name: "replicas-down",
        about: "Agents and postmasters of both replicas are killed with SIGKILL, and started again later.",
        replication: Replication::Asynchronous,
        disturbs: Disturbs::Replicas,
        event: |stage| down(stage, NODES - 1),
    },
    Drill {
        name: "agent-frozen",
        about: "The agent of the primary is stopped with SIGSTOP until another node is leader, and some time longer: two hosts \
                accept writes.",
        replication: Replication::Synchronous,
        disturbs: Disturbs::Primary,
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
        replication: Replication::Synchronous,
        disturbs: Disturbs::Primary,
        event: |stage| {
            let leader = stage.patroni.leader()?;
            stage.patroni.freeze_agent(leader)?;
            stage.patroni.freeze_server(leader)?;
            thaw_after_failover(stage, leader)
        },
    },
];

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
