//! The Debian packages weir and weir-lab: built from the binaries, then installed into an empty root, started there,
//! upgraded, removed and purged with dpkg itself. The packages, accounts and services of the machine are never touched.

#[path = "package/hand_over.rs"]
mod hand_over;
#[path = "package/root.rs"]
mod root;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::target::weir_bin;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::root::Root;

/// Files that users work with; everything else in the package serves these.
const FILES: &[&str] = &[
    "etc/default/weir",
    "etc/weir/userlist.txt",
    "etc/weir/weir.toml",
    "usr/bin/weir",
    "usr/lib/systemd/system/weir.service",
    "usr/share/bash-completion/completions/weir",
    "usr/share/doc/weir/NOTICE",
    "usr/share/doc/weir/changelog.Debian.gz",
    "usr/share/doc/weir/changelog.gz",
    "usr/share/doc/weir/copyright",
    "usr/share/doc/weir/examples/notify-reload.conf",
    "usr/share/doc/weir/examples/weir.socket",
    "usr/share/fish/vendor_completions.d/weir.fish",
    "usr/share/weir/monitoring/alerts.yml",
    "usr/share/weir/monitoring/grafana-dashboard.json",
    "usr/share/lintian/overrides/weir",
    "usr/share/man/man1/weir-check.1.gz",
    "usr/share/man/man1/weir-run.1.gz",
    "usr/share/man/man1/weir.1.gz",
    "usr/share/man/man5/weir.toml.5.gz",
    "usr/share/zsh/vendor-completions/_weir",
];

#[test]
fn it_installs_whole_with_its_user_and_its_secrets_protected() -> Result<()> {
    let root = Root::new()?;
    let before = account_files();
    root.dpkg(&["--install", &package()?.first])?;
    for file in FILES {
        let about = fs::metadata(root.path(file)).with_context(|| (*file).to_owned())?;
        ensure!(about.len() > 0, "{file} is empty");
    }
    // Every file, also configuration, has the package's checksum.
    ensure!(root.dpkg(&["--verify", "weir"])?.is_empty());
    ensure!(
        root.dpkg(&["--status", "weir"])?
            .contains("Depends: libc6 ")
    );
    let passwd = root.read("etc/passwd")?;
    let account = passwd.lines().find(|line| line.starts_with("weir:"));
    let account = account.context("no account weir")?;
    ensure!(
        account.ends_with(":/nonexistent:/usr/sbin/nologin"),
        "{account}"
    );
    ensure!(
        root.read("etc/shadow")?.contains("weir:!:"),
        "it has a password"
    );
    ensure!(root.mode("etc/weir/userlist.txt")? == 0o640);
    if tools::is_root() {
        let (_, group) = root.ids("weir")?;
        let secrets = fs::metadata(root.path("etc/weir/userlist.txt"))?;
        ensure!((secrets.uid(), secrets.gid()) == (0, group));
    }
    let wanted = root.path("etc/systemd/system/multi-user.target.wants/weir.service");
    ensure!(wanted.is_symlink(), "it is not enabled");
    ensure!(
        account_files() == before,
        "the machine's own accounts changed"
    );
    Ok(())
}

/// Files of the package weir-lab that users work with.
const LAB_FILES: &[&str] = &[
    "usr/bin/weir-lab",
    "usr/share/bash-completion/completions/weir-lab",
    "usr/share/doc/weir-lab/NOTICE",
    "usr/share/doc/weir-lab/changelog.Debian.gz",
    "usr/share/doc/weir-lab/changelog.gz",
    "usr/share/doc/weir-lab/copyright",
    "usr/share/fish/vendor_completions.d/weir-lab.fish",
    "usr/share/lintian/overrides/weir-lab",
    "usr/share/man/man1/weir-bench-run.1.gz",
    "usr/share/man/man1/weir-bench.1.gz",
    "usr/share/man/man1/weir-lab.1.gz",
    "usr/share/man/man1/weir-tune-watch.1.gz",
    "usr/share/man/man1/weir-tune.1.gz",
    "usr/share/zsh/vendor-completions/_weir-lab",
];

#[test]
fn the_lab_is_a_package_of_its_own_that_weir_runs_when_it_is_installed() -> Result<()> {
    let root = Root::new()?;
    let package = package()?;
    root.dpkg(&["--install", &package.first])?;
    // Not confined to the root: the program runs on this machine, with an empty PATH.
    let bench = || {
        let mut command = Command::new(root.path("usr/bin/weir"));
        command.args(["bench", "list"]).env("PATH", "/nowhere");
        tools::run_any(&mut command)
    };
    let (said, _) = bench()?;
    ensure!(said.contains("Debian package weir-lab"), "{said}");
    // No file is in both packages, or dpkg would refuse.
    root.dpkg(&["--install", &package.lab])?;
    for file in LAB_FILES {
        let about = fs::metadata(root.path(file)).with_context(|| (*file).to_owned())?;
        ensure!(about.len() > 0, "{file} is empty");
    }
    ensure!(root.dpkg(&["--verify", "weir-lab"])?.is_empty());
    let (said, is_done) = bench()?;
    ensure!(is_done && said.contains("pgbouncer"), "{said}");
    root.dpkg(&["--purge", "weir-lab"])?;
    let files = root.files()?;
    let left: Vec<_> = files
        .iter()
        .filter(|file| file.contains("weir-lab"))
        .collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn lintian_has_nothing_to_say() -> Result<()> {
    tools::require("lintian", "lintian")?;
    let package = package()?;
    for deb in [&package.first, &package.lab] {
        let mut command = Command::new("lintian");
        command.args(["--allow-root", "--tag-display-limit", "0"]);
        command.args(["--fail-on", "error,warning"]).arg(deb);
        // Perl has words of its own on a machine without this locale.
        command.env("LC_ALL", "C");
        let (said, is_clean) = tools::run_any(&mut command)?;
        ensure!(is_clean, "{said}");
    }
    Ok(())
}

#[test]
fn it_starts_with_the_configuration_it_comes_with() -> Result<()> {
    let root = Root::new()?;
    root.dpkg(&["--install", &package()?.first])?;
    let mut weir = root.start()?;
    // The access to the console that the file describes, and as it describes it.
    let described = root.read("etc/weir/weir.toml")?;
    ensure!(described.contains("psql -h /run/weir -p 6432 -U pgbouncer pgbouncer"));
    let state = weir.console("SHOW STATE")?;
    ensure!(state.contains("weir_version"), "{state}");
    // AuthenticationSASL.
    ensure!(weir.method_for_nobody()? == [0, 0, 0, 10]);
    weir.stop()
}

#[test]
fn an_upgrade_keeps_what_was_changed() -> Result<()> {
    let root = Root::new()?;
    let package = package()?;
    root.dpkg(&["--install", &package.first])?;
    root.append("etc/weir/weir.toml", "# mine\n")?;
    root.append("etc/weir/userlist.txt", "\"ann\" \"secret\"\n")?;
    root.chmod("etc/weir/userlist.txt", "0600")?;
    // Disabled by the administrator, so it stays disabled.
    fs::remove_file(root.path("etc/systemd/system/multi-user.target.wants/weir.service"))?;

    // The second version has other defaults in weir.toml and default/weir.
    root.dpkg(&["--force-confdef", "--install", &package.second])?;
    ensure!(root.dpkg(&["--status", "weir"])?.contains("Version: 99-1"));
    ensure!(root.read("etc/weir/weir.toml")?.ends_with("# mine\n"));
    ensure!(
        root.path("etc/weir/weir.toml.dpkg-dist").exists(),
        "the new default is not at hand"
    );
    ensure!(
        root.read("etc/weir/userlist.txt")?
            .ends_with("\"ann\" \"secret\"\n")
    );
    ensure!(root.mode("etc/weir/userlist.txt")? == 0o600);
    ensure!(root.read("etc/default/weir")?.ends_with("# newer\n"));
    let wanted = root.path("etc/systemd/system/multi-user.target.wants/weir.service");
    ensure!(!wanted.is_symlink(), "it was enabled again");
    ensure!(root.read("etc/passwd")?.matches("weir:").count() == 1);
    Ok(())
}

#[test]
fn removing_keeps_the_configuration_and_purging_leaves_the_account_only() -> Result<()> {
    let root = Root::new()?;
    let before = root.files()?;
    root.dpkg(&["--install", &package()?.first])?;
    root.append("etc/weir/weir.toml", "# mine\n")?;
    for written in ["var/log/weir/weir.log", "run/weir/.s.PGSQL.6432"] {
        root.append(written, "by the service\n")?;
    }
    root.dpkg(&["--remove", "weir"])?;
    ensure!(
        !root.path("usr/bin/weir").exists()
            && !root.path("usr/lib/systemd/system/weir.service").exists()
    );
    ensure!(root.read("etc/weir/weir.toml")?.ends_with("# mine\n"));
    ensure!(root.path("var/log/weir/weir.log").exists());

    root.dpkg(&["--purge", "weir"])?;
    let after = root.files()?;
    let left: BTreeSet<_> = after.difference(&before).collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    ensure!(
        root.read("etc/passwd")?.contains("weir:"),
        "its number may become somebody else's"
    );
    Ok(())
}

#[test]
fn the_unit_is_sound_and_shuts_the_service_in() -> Result<()> {
    let root = Root::new()?;
    root.dpkg(&["--install", &package()?.first])?;
    let unit = root.read("usr/lib/systemd/system/weir.service")?;
    for line in [
        "Type=notify",
        "WatchdogSec=30",
        "ExecStart=/usr/bin/weir run",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
    ] {
        ensure!(unit.lines().any(|found| found == line), "no line {line}");
    }
    if tools::require("systemd-analyze", "systemd").is_err() {
        eprintln!("systemd-analyze is not installed: the unit's text alone was checked");
        return Ok(());
    }
    root.lay_out_for_systemd()?;
    let example = "usr/share/doc/weir/examples/weir.socket";
    fs::copy(
        root.path(example),
        root.path("usr/lib/systemd/system/weir.socket"),
    )?;
    for unit in ["weir.service", "weir.socket"] {
        let said = root.systemd_analyze(&["verify", "--man=no", unit])?;
        ensure!(said.trim().is_empty(), "{said}");
    }
    // In tenths: 2.0 of 10, where 10 is a service with all rights.
    root.systemd_analyze(&[
        "security",
        "--offline=yes",
        "--threshold=20",
        "weir.service",
    ])?;
    Ok(())
}

#[test]
fn bash_completes_commands_and_flags() -> Result<()> {
    let script = weir_says(&["generate", "completions", "bash"])?;
    let complete = |words: &str, at: usize| {
        let script = format!(
            "{script}\nCOMP_WORDS=({words} '') COMP_CWORD={at}\n_weir weir '' '' && echo \"${{COMPREPLY[*]}}\""
        );
        tools::run(Command::new("bash").args(["--norc", "-c", &script]))
    };
    let commands = complete("weir", 1)?;
    ensure!(
        commands.contains("run") && commands.contains("check"),
        "{commands}"
    );
    ensure!(complete("weir hba explain", 3)?.contains("--replication"));
    Ok(())
}

/// Workers with `io = io_uring` make these system calls, and map memory for their rings.
#[test]
fn the_unit_allows_io_uring() -> Result<()> {
    let unit = fs::read_to_string(tools::workspace().join("packaging/systemd/weir.service"))?;
    let has = |wanted: &str| unit.lines().any(|line| line == wanted);
    ensure!(
        has("LimitMEMLOCK=infinity"),
        "rings of many workers do not fit"
    );
    if tools::require("systemd-analyze", "systemd").is_err() {
        eprintln!(
            "systemd-analyze is not installed: the groups of system calls were not looked at"
        );
        return Ok(());
    }
    // Later lines win, as in systemd.exec(5); the first one makes the list one of allowed calls.
    let mut allowed = BTreeSet::new();
    for line in unit.lines() {
        let Some(list) = line.strip_prefix("SystemCallFilter=") else {
            continue;
        };
        let (is_forbidden, list) = match list.strip_prefix('~') {
            Some(list) => (true, list),
            None => (false, list),
        };
        for call in list
            .split_whitespace()
            .map(calls_of)
            .collect::<Result<Vec<_>>>()?
        {
            if is_forbidden {
                allowed = allowed.difference(&call).cloned().collect();
            } else {
                allowed.extend(call);
            }
        }
    }
    for call in [
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "mmap",
        "recvfrom",
        "epoll_wait",
    ] {
        ensure!(allowed.contains(call), "{call} is not allowed");
    }
    Ok(())
}

/// Returns the system calls of a group such as `@aio`, with those of the groups inside; of a single call, itself.
fn calls_of(name: &str) -> Result<BTreeSet<String>> {
    if !name.starts_with('@') {
        return Ok([name.to_owned()].into());
    }
    let mut command = Command::new("systemd-analyze");
    let text = tools::run(command.args(["syscall-filter", name]))?;
    let mut calls = BTreeSet::new();
    for word in text.lines().skip(1).map(str::trim) {
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        calls.extend(calls_of(word)?);
    }
    Ok(calls)
}

/// Two versions of the package weir, and one of weir-lab, built once for all tests of this file.
struct Package {
    first: String,
    second: String,
    lab: String,
}

fn package() -> Result<&'static Package> {
    static BUILT: OnceLock<Result<Package, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.as_ref().map_err(|error| anyhow!(error.clone()))
}

fn build() -> Result<Package> {
    tools::require("dpkg-shlibdeps", "dpkg-dev")?;
    // Built anew in each run, and kept afterwards.
    let at = &tools::cache_dir("package")?;
    fs::remove_dir_all(at)?;
    fs::create_dir(at)?;
    tools::run(
        Command::new("bash")
            .arg(tools::workspace().join("scripts/deb.sh"))
            .env("WEIR_BIN", weir_bin()?)
            .env("DEB_OUTPUT", at)
            .env("DEB_VERSION", "98-1")
            .env("DEB_FAST", "1"),
    )?;
    let first = only_package(at, "weir_")?;
    let lab = only_package(at, "weir-lab_")?;
    let second = at.join("second.deb");
    repack(&first, &at.join("second"), &second)?;
    Ok(Package {
        first: first.to_string_lossy().into_owned(),
        second: second.to_string_lossy().into_owned(),
        lab: lab.to_string_lossy().into_owned(),
    })
}

/// Returns the one package whose file name begins with `prefix`.
fn only_package(directory: &Path, prefix: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    ensure!(found.len() == 1, "packages {prefix}: {found:?}");
    found.pop().context("scripts/deb.sh has built nothing")
}

/// Repacks the package as version 99-1 with other defaults.
fn repack(from: &Path, work: &Path, to: &Path) -> Result<()> {
    tools::run(
        Command::new("dpkg-deb")
            .arg("--raw-extract")
            .args([from, work]),
    )?;
    let control = work.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?.replace("Version: 98-1", "Version: 99-1");
    fs::write(&control, text)?;
    for file in ["etc/weir/weir.toml", "etc/default/weir"] {
        let text = fs::read_to_string(work.join(file))? + "# newer\n";
        fs::write(work.join(file), text)?;
    }
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zgzip", "-z1", "--build"]);
    tools::run(build.args([work, to]))?;
    Ok(())
}

fn weir_says(arguments: &[&str]) -> Result<String> {
    tools::run(Command::new(weir_bin()?).args(arguments))
}

/// Contents of the machine's own account files.
fn account_files() -> Vec<Option<Vec<u8>>> {
    let files = ["/etc/passwd", "/etc/group"];
    files.map(|file| fs::read(file).ok()).into()
}

/// Time limit for a start or a stop; a busy machine takes a while.
const PATIENCE: Duration = Duration::from_secs(30);
