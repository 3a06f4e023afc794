//! `cargo xtask drill`: runs the drills of `conformance`, which break real clusters of PostgreSQL under load. Its flags are
//! those of the program `drill` there.

use std::env;

use anyhow::{Result, bail};

use crate::workspace::{cargo, root, target_directory};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Flags {
    /// Arguments of the program; `--help` describes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the drills against `WEIR_BIN`, or the debug build, which checks itself while it runs.
///
/// # Errors
/// If Weir is not built, if a drill cannot be carried out, or if a guarantee was broken.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let mut drill = cargo();
    drill.args(["run", "--quiet", "-p", "weir-conformance", "--bin", "drill"]);
    drill.arg("--").args(&flags.arguments).current_dir(root());
    if env::var_os("WEIR_BIN").is_none() {
        let binary = target_directory().join("debug").join("weir");
        if !binary.is_file() {
            bail!(
                "{} is not there; build it with: cargo build -p weir-cli",
                binary.display()
            );
        }
        drill.env("WEIR_BIN", binary);
    }
    if !drill.status()?.success() {
        bail!("the drills did not pass");
    }
    Ok(())
}
