//! `cargo xtask sim`: the seeded simulator of whole workers, by the seeds that are asked for, and
//! `cargo xtask sim advisor`: simulated pools that find their size.

use anyhow::{Result, bail};

use crate::workspace::cargo;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    other: Option<Other>,
    /// How many seeds
    #[arg(default_value_t = 500)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only this one; a failure names it
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
}

#[derive(clap::Subcommand)]
enum Other {
    /// Print what `pool_size = "auto"` reaches in simulated pools, beside the best fixed size
    Advisor {
        /// One seed and the known best sizes, as the tests do; else three seeds and all sizes, some minutes
        #[arg(long)]
        quick: bool,
    },
}

/// # Errors
/// When a simulation failed; its output says how.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    if let Some(Other::Advisor { quick }) = &flags.other {
        return advisor(*quick);
    }
    let mut command = cargo();
    command
        .args([
            "test",
            "-p",
            "weir-proxy",
            "--lib",
            "worker::tests::simulator",
        ])
        .env("WEIR_SIM_FROM", flags.from.to_string())
        .env("WEIR_SIM_SEEDS", flags.seeds.to_string());
    if let Some(seed) = flags.seed {
        command.env("WEIR_SIM_SEED", seed.to_string());
    }
    if !command.status()?.success() {
        bail!("the simulator found something");
    }
    Ok(())
}

fn advisor(is_quick: bool) -> Result<()> {
    let mut command = cargo();
    command
        .args(["test", "--quiet", "-p", "weir-advisor"])
        // One after the other, so that the tables stay whole.
        .args([
            "--test",
            "simulation",
            "--",
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env("WEIR_SIM_ADVISOR", if is_quick { "quick" } else { "full" });
    if !command.status()?.success() {
        bail!("the pool size that was found is not good enough");
    }
    Ok(())
}
