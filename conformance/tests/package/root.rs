//! An empty root that dpkg installs into, without chroot for its scripts, and a Weir that runs in it.
//!
//! As root, Weir is confined to it by chroot, under the account that the package created. Otherwise `fakeroot`
//! simulates root for dpkg, and Weir runs outside with the configuration's paths redirected.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::child::Guarded;
use weir_conformance::child::Runner;
use weir_conformance::frontend;
use weir_conformance::tools;

use super::PATIENCE;
use super::wait_until;

/// An empty root directory.
pub(crate) struct Root {
    directory: TempDir,
    arguments: Vec<String>,
}

impl Root {
    /// Creates it with dpkg's database, the account root and the directories that systemd owns.
    pub(crate) fn new() -> Result<Self> {
        let directory = TempDir::new()?;
        let path = directory.path();
        for made in [
            "etc/systemd/system",
            "var/lib/dpkg/info",
            "var/lib/dpkg/updates",
            "var/lib/systemd",
            "var/log",
            "run",
        ] {
            fs::create_dir_all(path.join(made))?;
        }
        fs::write(path.join("var/lib/dpkg/status"), "")?;
        fs::write(path.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")?;
        fs::write(path.join("etc/group"), "root:x:0:\n")?;
        fs::write(path.join("etc/shadow"), "root:*:19000:0:99999:7:::\n")?;
        fs::write(path.join("etc/gshadow"), "root:*::\n")?;
        let mut arguments = Vec::new();
        if !tools::is_root() {
            tools::require("fakeroot", "fakeroot")?;
            let memory = path.join("fakeroot").to_string_lossy().into_owned();
            fs::write(&memory, "")?;
            arguments = ["fakeroot", "-i", &memory, "-s", &memory, "--"]
                .map(str::to_owned)
                .into();
        }
        arguments.push("dpkg".to_owned());
        arguments.push(format!("--root={}", path.display()));
        // Maintainer scripts run outside, with DPKG_ROOT; the package's dependencies are not installed here.
        arguments.push("--force-script-chrootless".to_owned());
        arguments.push("--force-depends".to_owned());
        // Durability is not needed here.
        arguments.push("--force-unsafe-io".to_owned());
        Ok(Self {
            directory,
            arguments,
        })
    }

    /// Runs dpkg on the root; returns its standard output.
    pub(crate) fn dpkg(&self, arguments: &[&str]) -> Result<String> {
        let mut words = self.arguments.iter().map(String::as_str);
        let program = words.next().context("no program")?;
        let mut command = Command::new(program);
        command.args(words).args(arguments);
        // useradd is in a directory that only root has in its PATH.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        let output = command.output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?} failed:\n{errors}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    pub(crate) fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.path(file)).with_context(|| file.to_owned())
    }

    /// Appends to a file, creating it if necessary.
    pub(crate) fn append(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path(file);
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::create_dir_all(path.parent().context("no directory")?)?;
        Ok(fs::write(path, before + text)?)
    }

    /// Permission bits of a file.
    pub(crate) fn mode(&self, file: &str) -> Result<u32> {
        Ok(fs::metadata(self.path(file))?.permissions().mode() & 0o7777)
    }

    pub(crate) fn chmod(&self, file: &str, mode: &str) -> Result<()> {
        tools::run(Command::new("chmod").arg(mode).arg(self.path(file)))?;
        Ok(())
    }

    /// User and group id of an account in the root.
    pub(crate) fn ids(&self, name: &str) -> Result<(u32, u32)> {
        let passwd = self.read("etc/passwd")?;
        let fields = passwd
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.first() == Some(&name));
        let fields = fields.with_context(|| format!("no account {name}"))?;
        let id = |at: usize| -> Result<u32> { Ok(fields.get(at).context("a field")?.parse()?) };
        Ok((id(2)?, id(3)?))
    }

    /// Files and directories in the root, without dpkg's database and useradd's backup copies.
    pub(crate) fn files(&self) -> Result<BTreeSet<String>> {
        let list = tools::run(
            Command::new("find")
                .arg(self.directory.path())
                .args(["-mindepth", "1", "-path", "*/var/lib/dpkg", "-prune", "-o"])
                .args([
                    "-path",
                    "*/etc/*-",
                    "-o",
                    "-name",
                    ".pwd.lock",
                    "-o",
                    "-printf",
                    "%P\\n",
                ]),
        )?;
        Ok(list.lines().map(str::to_owned).collect())
    }

    /// Creates empty units and programs whose existence systemd-analyze checks.
    pub(crate) fn lay_out_for_systemd(&self) -> Result<()> {
        for unit in [
            "basic",
            "multi-user",
            "network-online",
            "shutdown",
            "sockets",
            "sysinit",
        ] {
            let unit = format!("usr/lib/systemd/system/{unit}.target");
            self.append(&unit, "[Unit]\nDefaultDependencies=no\n")?;
        }
        for program in ["bin/sh", "bin/kill"] {
            self.append(program, "#!\n")?;
            self.chmod(program, "755")?;
        }
        Ok(())
    }

    pub(crate) fn systemd_analyze(&self, arguments: &[&str]) -> Result<String> {
        let root = format!("--root={}", self.directory.path().display());
        tools::run(Command::new("systemd-analyze").arg(root).args(arguments))
    }

    /// Starts Weir as the unit does, on a free port.
    pub(crate) fn start(&self) -> Result<Running<'_>> {
        let port = tools::free_port()?;
        let mut env = vec![("WEIR_LISTEN_PORT".to_owned(), port.to_string())];
        fs::create_dir_all(self.path("run/weir"))?;
        let mut command: Vec<String>;
        if tools::is_root() {
            let (user, group) = self.ids("weir")?;
            std::os::unix::fs::chown(self.path("run/weir"), Some(user), Some(group))?;
            self.copy_libraries()?;
            env.push(("WEIR_CONFIG".to_owned(), "/etc/weir/weir.toml".to_owned()));
            // Changing the user cancels the signal that kills a child with its parent; `timeout` stays and passes
            // signals on.
            let identity = format!("--userspec={user}:{group}");
            command = ["timeout", "120", "chroot", &identity]
                .map(str::to_owned)
                .into();
            command.push(self.directory.path().to_string_lossy().into_owned());
            command.push("/usr/bin/weir".to_owned());
        } else {
            let turned = |file: &str| self.path(file).to_string_lossy().into_owned();
            env.push(("WEIR_CONFIG".to_owned(), turned("etc/weir/weir.toml")));
            env.push(("WEIR_AUTH_FILE".to_owned(), turned("etc/weir/userlist.txt")));
            env.push(("WEIR_UNIX_SOCKET_DIR".to_owned(), turned("run/weir")));
            command = vec![turned("usr/bin/weir")];
        }
        command.push("run".to_owned());
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let log = self.directory.path().join("weir.log");
        let mut process = Guarded::start(Runner::Ourselves, "QUIT", &command, &env, &log)?;
        wait_until("Weir's start", PATIENCE, || {
            process.check_running()?;
            Ok(process.log().contains("process up"))
        })
        .with_context(|| process.log())?;
        Ok(Running {
            process,
            root: self,
            port,
        })
    }

    /// Copies the shared libraries of the binary from this machine.
    fn copy_libraries(&self) -> Result<()> {
        let list = tools::run(Command::new("ldd").arg(self.path("usr/bin/weir")))?;
        let words = list.split_whitespace().filter(|word| word.starts_with('/'));
        for library in words {
            let copy = self.path(library.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().context("no directory")?)?;
            fs::copy(library, copy).with_context(|| library.to_owned())?;
        }
        Ok(())
    }
}

/// A Weir that runs in a [`Root`].
pub(crate) struct Running<'a> {
    process: Guarded,
    root: &'a Root,
    port: u16,
}

impl Running<'_> {
    /// Runs a console command over the unix socket as the account of Weir, without a password.
    pub(crate) fn console(&self, command: &str) -> Result<String> {
        let mut psql = Command::new(tools::require("setpriv", "util-linux")?);
        if tools::is_root() {
            let (user, group) = self.root.ids("weir")?;
            psql.args([format!("--reuid={user}"), format!("--regid={group}")]);
            psql.arg("--clear-groups");
        }
        psql.args([
            "psql",
            "-XAt",
            "-U",
            "pgbouncer",
            "-d",
            "pgbouncer",
            "-c",
            command,
        ]);
        psql.env("PGHOST", self.root.path("run/weir"));
        psql.env("PGPORT", self.port.to_string());
        tools::run(&mut psql).with_context(|| self.process.log())
    }

    /// Authentication method for an unknown user over TCP: the code in the first answer.
    pub(crate) fn method_for_nobody(&self) -> Result<Vec<u8>> {
        let parameters = [("user", "nobody"), ("database", "nothing")];
        let mut raw = Raw::tcp(self.port, PATIENCE)?;
        raw.send(&frontend::startup(frontend::VERSION_3_0, &parameters))?;
        let answer = raw.read_message()?;
        ensure!(answer.tag == b'R', "{answer:?}");
        Ok(answer.body.into_iter().take(4).collect())
    }

    /// Stops Weir as systemd does; the exit must be successful.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.process.signal("TERM")?;
        let status = self.process.wait_exit(PATIENCE)?;
        ensure!(status.success(), "{status}\n{}", self.process.log());
        let socket = format!("run/weir/.s.PGSQL.{}", self.port);
        ensure!(
            !self.root.path(&socket).exists(),
            "the socket is still there"
        );
        Ok(())
    }
}
