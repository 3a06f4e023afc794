//! The package's postinst after an upgrade, beside a Weir that serves clients.
//!
//! The script runs as dpkg runs it on a machine with systemd: in a mount namespace in which `/run/systemd/system` exists, with
//! programs in its PATH that stand for systemd's and change nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::tools;
use weir_conformance::weir_bin;

/// Programs that postinst finds, and its output.
struct Machine {
    directory: TempDir,
}

impl Machine {
    /// Prepares a machine whose service has this main process.
    fn new(main_process: u32) -> Result<Self> {
        let machine = Self {
            directory: TempDir::new()?,
        };
        symlink(weir_bin()?, machine.directory.path().join("weir"))?;
        machine.program("getent", "exit 0")?;
        machine.program("useradd", "exit 1")?;
        machine.program("deb-systemd-helper", "exit 0")?;
        let log = machine.directory.path().join("invoked");
        fs::write(&log, "")?;
        machine.program(
            "deb-systemd-invoke",
            &format!("echo \"$@\" >>{}", log.display()),
        )?;
        machine.program(
            "systemctl",
            &format!("case \"$*\" in *MainPID*) echo {main_process} ;; esac"),
        )?;
        // The machine's own says what it may do to the machine's services.
        machine.program("policy-rc.d", "exit 104")?;
        Ok(machine)
    }

    fn program(&self, name: &str, script: &str) -> Result<()> {
        let path = self.directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        Ok(fs::set_permissions(
            path,
            fs::Permissions::from_mode(0o755),
        )?)
    }

    /// Runs `postinst configure` after this version; returns what it says.
    fn configure(&self, version: &str) -> Result<String> {
        let postinst = tools::workspace().join("packaging/debian/postinst");
        let mut command = Command::new(tools::require("unshare", "util-linux")?);
        command.arg("--mount");
        if !tools::is_root() {
            command.arg("--map-root-user");
        }
        command.args([
            "sh",
            "-ec",
            "mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec sh \"$@\"",
            "sh",
        ]);
        command.arg(postinst).args(["configure", version]);
        let path = std::env::var("PATH").unwrap_or_default();
        let own = self.directory.path().display();
        command.env("PATH", format!("{own}:{path}"));
        let (said, is_done) = tools::run_any(&mut command)?;
        ensure!(is_done, "postinst fails, and with it the upgrade: {said}");
        Ok(said)
    }

    /// Orders to systemd.
    fn invoked(&self) -> Result<String> {
        Ok(fs::read_to_string(self.directory.path().join("invoked"))?)
    }
}

/// A next process, which is not a child of the suite.
struct Next(u32);

impl Drop for Next {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-QUIT", &self.0.to_string()])
            .status();
    }
}

#[test]
fn an_upgrade_of_the_package_keeps_the_clients() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("package_upgrade")?;
    let weir = Weir::start(&Config::to(postgres.port()))?;
    let mut client = weir.connect("package_upgrade")?;
    client.query("set application_name = 'kept'")?;
    let machine = Machine::new(weir.pid())?;
    let said = machine.configure("0.0.9-1")?;
    ensure!(said.contains("upgraded: 1 clients moved"), "{said}");
    let pid = said.split_whitespace().nth(1).context("no number")?;
    let next = Next(pid.parse()?);
    ensure!(next.0 != weir.pid(), "{said}");
    ensure!(client.query_one("show application_name")? == "kept");
    ensure!(machine.invoked()?.is_empty(), "{}", machine.invoked()?);
    Ok(())
}

#[test]
fn a_process_that_cannot_be_replaced_goes_on() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("package_mistake")?;
    let mut weir = Weir::start(&Config::to(postgres.port()))?;
    let mut client = weir.connect("package_mistake")?;
    fs::write(weir.directory().join("weir.ini"), "[pgbouncer]\nnonsense\n")?;
    let machine = Machine::new(weir.pid())?;
    let said = machine.configure("0.0.9-1")?;
    ensure!(
        said.contains("keeps running with the previous version"),
        "{said}"
    );
    ensure!(said.contains("systemctl restart weir"), "{said}");
    ensure!(client.query_one("select 1")? == "1");
    ensure!(machine.invoked()?.is_empty(), "{}", machine.invoked()?);
    weir.check_healthy()
}

#[test]
fn an_upgrade_respects_policy_rc_d_and_restarts_what_does_not_run() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut weir = Weir::start(&Config::to(postgres.port()))?;
    let machine = Machine::new(weir.pid())?;
    machine.program("policy-rc.d", "exit 101")?;
    let said = machine.configure("0.0.9-1")?;
    ensure!(said.contains("policy-rc.d forbids"), "{said}");
    weir.check_healthy()?;
    let machine = Machine::new(0)?;
    machine.configure("0.0.9-1")?;
    ensure!(machine.invoked()? == "restart weir.service\n");
    let machine = Machine::new(0)?;
    machine.configure("")?;
    ensure!(machine.invoked()? == "start weir.service\n");
    Ok(())
}
