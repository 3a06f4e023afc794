//! `cargo xtask sim`: the seeded simulator of whole workers, by the seeds that are asked for.

use anyhow::{Result, bail};

use crate::workspace::cargo;

#[derive(clap::Args)]
pub(crate) struct Flags {
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

/// # Errors
/// When a simulation failed; its output says how.
pub(crate) fn run(flags: &Flags) -> Result<()> {
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
