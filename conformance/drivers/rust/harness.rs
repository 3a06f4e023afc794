//! Runs clients side by side and records their results.

use std::env;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use anyhow::anyhow;
use tokio::sync::Barrier;
use tokio::time::timeout;

pub const CLIENTS: usize = 6;
const LONGEST: Duration = Duration::from_secs(120);
const LONGEST_MEETING: Duration = Duration::from_secs(60);

/// A client of a scenario, with its own lines of output.
pub struct Client {
    pub number: usize,
    scenario: &'static str,
    barrier: Arc<Barrier>,
    lines: Vec<String>,
}

impl Client {
    /// Records a client's result of a step.
    pub fn say(&mut self, step: &str, told: impl Debug) {
        let line = format!("{}[{}] {step}: {told:?}", self.scenario, self.number);
        self.lines.push(line);
    }

    /// Records a remark, which may differ between runs.
    pub fn remark(&mut self, text: &str) {
        self.lines.push(format!("# {text}"));
    }

    /// Waits until every client has arrived here.
    pub async fn meet(&self) -> Result<()> {
        timeout(LONGEST_MEETING, self.barrier.wait()).await?;
        Ok(())
    }
}

/// Selection of scenarios, and their overall result.
pub struct Runs {
    pub good: bool,
    chosen: Vec<String>,
}

impl Runs {
    pub fn new(chosen: Vec<String>) -> Self {
        Self { good: true, chosen }
    }

    /// Runs a scenario with all clients at the same time.
    pub async fn scenario<F, R>(&mut self, name: &'static str, steps: F)
    where
        F: Fn(Client) -> R,
        R: Future<Output = (Client, Result<()>)> + Send + 'static,
    {
        if !self.wants(name) {
            return;
        }
        let barrier = Arc::new(Barrier::new(CLIENTS));
        let mut tasks = Vec::new();
        for number in 0..CLIENTS {
            let client = Client {
                number,
                scenario: name,
                barrier: Arc::clone(&barrier),
                lines: Vec::new(),
            };
            tasks.push(tokio::spawn(timeout(LONGEST, steps(client))));
        }
        for (number, task) in tasks.into_iter().enumerate() {
            let ended = match task.await {
                Ok(Ok((client, ended))) => {
                    client.lines.iter().for_each(|line| println!("{line}"));
                    ended
                }
                Ok(Err(_)) => Err(anyhow!("hangs")),
                Err(panic) => Err(panic.into()),
            };
            if let Err(error) = ended {
                self.good = false;
                println!(
                    "FAIL {name}[{number}] {}",
                    format!("{error:#}").replace('\n', " | ")
                );
            }
        }
        println!("done {name}");
    }

    fn wants(&self, name: &str) -> bool {
        let left_out = self
            .chosen
            .iter()
            .any(|one| one.strip_prefix('-') == Some(name));
        let alone = self.chosen.iter().any(|one| !one.starts_with('-'));
        !left_out && (!alone || self.chosen.iter().any(|one| one == name))
    }
}

/// Value of an environment variable, empty if it is not set.
pub fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Number of servers that a client can reach. A scenario about a change of servers repeats its query until it has
/// seen this many.
pub fn reachable_servers() -> usize {
    variable("TX_SERVERS").parse().unwrap_or(1)
}

/// Turns an async function of a client into what [`Runs::scenario`] takes.
#[macro_export]
macro_rules! scenarios {
    ($runs:expr, $($steps:ident),+ $(,)?) => {
        $($runs
            .scenario(stringify!($steps), |mut client| async move {
                let ended = $steps(&mut client).await;
                (client, ended)
            })
            .await;)+
    };
}
