//! Plan of the runs: the flags, and the values derived from them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::judge;
use super::mix::Mix;
use super::run::{Job, Size};

#[derive(Clone, Debug, clap::Args, Serialize, Deserialize)]
pub(crate) struct Flags {
    /// Which loads [default: all]
    #[arg(long, value_delimiter = ',')]
    pub(super) mixes: Vec<Mix>,
    /// Sizes that adaptive pools begin with
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 20, 100])]
    pub(super) starts: Vec<u32>,
    /// Fixed sizes; 10 and twice the server's cores come in any case
    /// [default: 1,2,3,4,6,8,12,16,24,32,48; quick: 2,4,8,16,32]
    #[arg(long, value_delimiter = ',')]
    pub(super) sizes: Vec<u32>,
    /// Number of runs of everything [default: 3; quick: 1]
    #[arg(long)]
    pub(super) blocks: Option<u32>,
    /// Seconds of a run with an adaptive pool [default: 90; quick: 28]
    #[arg(long)]
    pub(super) seconds: Option<u64>,
    /// Number of these that count, at the end [default: two thirds of them]
    #[arg(long)]
    pub(super) measured: Option<u64>,
    /// Seconds that count of a run of the sweep [default: 15; quick: 5]
    #[arg(long)]
    pub(super) fixed_seconds: Option<u64>,
    /// Clients of pgbench
    #[arg(long, default_value_t = 100)]
    pub(super) clients: u32,
    /// pool_size_goal: throughput, balanced or latency
    #[arg(long)]
    pub(super) goal: Option<String>,
    /// A single block and short runs: about half an hour for all mixes
    #[arg(long)]
    pub(super) quick: bool,
    /// Let everybody run on all processors; otherwise PostgreSQL has the first half for itself
    #[arg(long)]
    pub(super) no_pin: bool,
    /// Repeats the order of an earlier run [default: from the clock]
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Run nothing: write the report of these raw data, of one run or of several, once more
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mixes", "blocks", "quick", "seed"])]
    #[serde(default, skip_serializing)]
    pub(super) again: Vec<PathBuf>,
    /// Where the report is written besides the working directory
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

/// Seconds of a run with a fixed size before measuring begins: caches fill.
pub(super) const WARM_UP: u64 = 3;
/// Seconds per run for starting Weir, restoring the data and logging in.
const OVERHEAD: u64 = 2;
/// pool_size_max of the adaptive pools.
pub(super) const SIZE_MAX: u32 = 100;

/// Values of all flags, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) mixes: Vec<Mix>,
    pub(super) starts: Vec<u32>,
    pub(super) sizes: Vec<u32>,
    /// Commonly used sizes.
    pub(super) usual: [u32; 2],
    pub(super) blocks: u32,
    pub(super) seconds: u64,
    pub(super) measured: u64,
    pub(super) fixed_seconds: u64,
}

impl Plan {
    pub(super) fn of(flags: &Flags, server_cores: u32) -> Result<Self> {
        let or =
            |flag: Option<u64>, quick, full| flag.unwrap_or(if flags.quick { quick } else { full });
        let usual = [10, 2 * server_cores];
        let mut sizes = match (flags.sizes.is_empty(), flags.quick) {
            (false, _) => flags.sizes.clone(),
            (true, true) => vec![2, 4, 8, 16, 32],
            (true, false) => vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48],
        };
        sizes.extend(usual);
        sizes.sort_unstable();
        sizes.dedup();
        let seconds = or(flags.seconds, 28, 90);
        let plan = Self {
            mixes: match flags.mixes.is_empty() {
                true => Mix::ALL.to_vec(),
                false => flags.mixes.clone(),
            },
            starts: flags.starts.clone(),
            sizes,
            usual,
            blocks: flags.blocks.unwrap_or(if flags.quick { 1 } else { 3 }),
            seconds,
            measured: flags.measured.unwrap_or(seconds * 2 / 3),
            fixed_seconds: or(flags.fixed_seconds, 5, 15),
        };
        if plan.measured == 0 || plan.measured > plan.seconds || plan.fixed_seconds == 0 {
            bail!("of {} seconds {} cannot count", plan.seconds, plan.measured);
        }
        if plan.blocks == 0 || plan.starts.is_empty() || plan.sizes.contains(&0) {
            bail!("nothing to run");
        }
        if let Some(start) = plan
            .starts
            .iter()
            .find(|start| !(1..=SIZE_MAX).contains(*start))
        {
            bail!("no pool begins with {start}: 1 to {SIZE_MAX}");
        }
        Ok(plan)
    }

    /// Estimated duration in minutes.
    pub(super) fn minutes(&self) -> u64 {
        let count = |list: &[u32]| u64::try_from(list.len()).unwrap_or(u64::MAX);
        let fixed = self.fixed_seconds + WARM_UP + OVERHEAD;
        let adaptive = self.seconds + OVERHEAD;
        let finals = 2 * self.sizes.len().min(judge::FINALISTS);
        let sweep = count(&self.sizes) + u64::try_from(finals).unwrap_or(u64::MAX);
        let block = sweep * fixed + count(&self.starts) * 2 * adaptive;
        let mixes = u64::try_from(self.mixes.len()).unwrap_or(u64::MAX);
        (block * mixes * u64::from(self.blocks)).div_ceil(60)
    }

    /// Makes the job of one run. Both runs of a pair last equally long. The reason: an event once in 20 s is in
    /// the tail of every long run, but of few short ones.
    pub(super) fn job(&self, mix: Mix, size: Size, seed: u64, is_paired: bool) -> Job {
        let (total, measured) = match is_paired {
            false => (WARM_UP + self.fixed_seconds, self.fixed_seconds),
            true => (self.seconds, self.measured),
        };
        Job {
            mix,
            size,
            total: Duration::from_secs(total),
            measured: Duration::from_secs(measured),
            seed,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    pub(in super::super) fn flags(line: &str) -> Flags {
        try_flags(line).unwrap()
    }

    fn try_flags(line: &str) -> Result<Flags, clap::Error> {
        let words = ["accept-auto"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.flags)
    }

    fn plan(line: &str) -> Result<Plan> {
        Plan::of(&try_flags(line)?, 1)
    }

    #[test]
    fn what_is_usual_is_always_compared() {
        let full = plan("").unwrap();
        assert_eq!(full.sizes, [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48]);
        assert_eq!((full.seconds, full.measured, full.blocks), (90, 60, 3));
        let few = plan("--sizes 5,7 --mixes chatty,lane-bound --starts 3").unwrap();
        assert_eq!(few.sizes, [2, 5, 7, 10]);
        assert_eq!(few.mixes, [Mix::Chatty, Mix::LaneBound]);
    }

    #[test]
    fn the_quick_one_ends_within_half_an_hour() {
        let quick = plan("--quick").unwrap();
        assert!((10..=30).contains(&quick.minutes()), "{quick:?}");
        assert_eq!(plan("--quick --blocks 2 --seconds 9").unwrap().seconds, 9);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "--mixes tpcb",
            "--seconds 5 --measured 6",
            "--seconds 0",
            "--blocks 0",
            "--sizes 0",
            "--starts 101",
        ] {
            assert!(plan(line).is_err(), "{line}");
        }
    }
}
