//! Finds and runs the tools that the suites need, with errors that name the Debian package.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::bail;
use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::getrlimit;
use rustix::process::setrlimit;

/// Root of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Directory for downloads and builds that are kept between runs: `target/conformance/NAME`.
///
/// # Errors
/// When the directory cannot be made.
pub fn cache_dir(name: &str) -> Result<PathBuf> {
    let path = workspace().join("target/conformance").join(name);
    fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
    Ok(path)
}

/// Path of `program`, or an error that names the Debian package to install.
///
/// # Errors
/// When `program` is not on the `PATH`.
pub fn require(program: &str, package: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
        .with_context(|| format!("{program} is not installed: apt-get install {package}"))
}

/// Directory of PostgreSQL's server programs: `CONFORMANCE_POSTGRES_BIN` if it is set (`scripts/versions.sh`), or else the newest
/// version's.
///
/// # Errors
/// When no `initdb` is found.
pub fn postgres_bin_dir() -> Result<PathBuf> {
    if let Some(directory) = env::var_os("CONFORMANCE_POSTGRES_BIN") {
        return Ok(directory.into());
    }
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.path().join("bin"))
                .collect()
        })
        .unwrap_or_default();
    versions.sort();
    versions.reverse();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        versions.push(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ));
    }
    let found = versions
        .into_iter()
        .find(|directory| directory.join("initdb").is_file());
    found.context("no initdb found: apt-get install postgresql-15 postgresql-client-15")
}

/// True if the suite runs as root; then servers run as user `postgres`.
#[must_use]
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Unused port on loopback, as [`weir_lab::ports::free_port`] says.
///
/// # Errors
/// When none is free.
pub fn free_port() -> Result<u16> {
    Ok(weir_lab::ports::free_port()?)
}

/// Runs a command to its end; fails with all output unless the exit code is zero.
///
/// # Errors
/// When the program cannot be started or fails.
pub fn run(command: &mut Command) -> Result<String> {
    let (output, success) = run_any(command)?;
    if !success {
        bail!("{command:?} failed:\n{output}");
    }
    Ok(output)
}

/// Runs a command to its end; returns output followed by errors, and true if the exit code was zero.
///
/// # Errors
/// When the program cannot be started.
pub fn run_any(command: &mut Command) -> Result<(String, bool)> {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .map_err(|error| anyhow!("{command:?}: {error}"))?;
    let mut text = String::from_utf8_lossy(&stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&stderr));
    Ok((text, status.success()))
}

/// The last `count` lines.
#[must_use]
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .iter()
        .skip(lines.len().saturating_sub(count))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Copies a directory with all its content.
///
/// # Errors
/// When `cp` fails.
pub fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("-r").arg("-T").arg(from).arg(to))?;
    Ok(())
}

/// Raises the soft limit of open files to the hard one, for this process and those started later.
///
/// # Errors
/// When even the hard limit is below `needed`; the error says how to raise it.
pub fn require_open_files(needed: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised)?;
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        bail!(
            "{needed} open files are needed, the hard limit is lower: run `ulimit -Hn {needed}` as root first"
        );
    }
    Ok(())
}
