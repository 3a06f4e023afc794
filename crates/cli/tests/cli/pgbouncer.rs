//! The binary under the name `pgbouncer`: its flags, messages, signals and exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::{Dir, PATIENCE, Running, output, until_ready, weir};

/// Command under PgBouncer's name, with a user that it may run as.
fn pgbouncer(args: &[&str]) -> Command {
    let mut command = weir(&[]);
    command.arg0("pgbouncer").args(args);
    if rustix::process::geteuid().is_root() {
        command.args(["-u", "nobody"]);
    }
    command
}

fn open_to_all(dir: &Dir) {
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
}

/// Polls until a condition holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let pause = Duration::from_millis(5);
    let rounds = PATIENCE.as_millis() / pause.as_millis();
    let came = (0..rounds).any(|_| {
        let holds = holds();
        if !holds {
            std::thread::park_timeout(pause);
        }
        holds
    });
    assert!(came, "not {what}");
}

#[test]
fn the_version_begins_as_pgbouncers() {
    for flag in ["-V", "--version"] {
        let (code, out, _) = output(weir(&[]).arg0("/usr/sbin/pgbouncer").arg(flag));
        assert_eq!(code, 0);
        assert!(
            out.starts_with("PgBouncer 1.25.2\nweir 0.1.0\ntls: "),
            "{out}"
        );
    }
}

#[test]
fn mistakes_exit_by_one() {
    let dir = Dir::new("pgb-mistakes");
    let bad = dir.config("pool_mode = none\n");
    let bad = bad.to_str().unwrap();
    for (args, wanted) in [
        (&[][..], "no configuration file specified"),
        (&["--frobnicate"], "--frobnicate"),
        (&[bad], "cannot load config file"),
        (&["/nowhere.ini"], "cannot load config file"),
    ] {
        let (code, _, err) = output(weir(&[]).arg0("pgbouncer").args(args));
        assert_eq!(code, 1, "{args:?}: {err}");
        assert!(err.contains(wanted), "{err}");
    }
}

#[test]
fn root_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = Dir::new("pgb-root");
    let file = dir.config("");
    let (code, _, err) = output(weir(&[]).arg0("pgbouncer").arg(file));
    assert_eq!((code, &*err), (1, "PgBouncer should not run as root\n"));
    assert_eq!(dir.names(), ["weir.ini"]);
}

#[test]
fn weir_itself_warns_of_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = Dir::new("pgb-warn");
    let mut running = Running::start(&dir.config(""));
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
    let log = fs::read_to_string(dir.path("log")).unwrap();
    assert!(log.contains("WARNING running as root"), "{log}");
}

#[test]
fn a_reboot_is_an_upgrade_and_keeps_the_manners() {
    let dir = Dir::new("pgb-reboot");
    let file = dir.config("");
    let (code, _, err) = output(weir(&[]).arg0("pgbouncer").arg("-R").arg(&file));
    assert_eq!(code, 1, "{err}");
    let mut command = weir(&[]);
    command.arg0("pgbouncer").args(["-u", "root"]).arg(&file);
    let mut first = Running::start_command(command);
    let (code, out, err) = output(weir(&[]).arg0("pgbouncer").arg("-R").arg(&file));
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.ends_with(" accepts clients\n"), "{out}");
    first.expect("LOG stopped");
    let pid = fs::read_to_string(dir.path("pid")).unwrap();
    let next = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let _guard = Killed(next);
    kill_process(next, Signal::TERM).unwrap();
    first.expect("SIGTERM: shutting down, clients may leave");
    assert_eq!(first.end(), Some(0), "the log ends with the last process");
}

#[test]
fn sigterm_waits_for_clients_and_sigint_does_not() {
    for (signal, says) in [
        (Signal::TERM, "clients may leave"),
        (Signal::INT, "transactions may end"),
    ] {
        let dir = Dir::new("pgb-signals");
        open_to_all(&dir);
        let file = dir.config("log_disconnections = 0\n");
        let mut command = pgbouncer(&["-v"]);
        command.arg(file);
        let mut running = Running::start_command(command);
        running.signal(signal);
        running.expect(says);
        assert_eq!(running.end(), Some(0));
    }
}

#[test]
fn quiet_leaves_standard_error_empty() {
    let dir = Dir::new("pgb-quiet");
    open_to_all(&dir);
    fs::write(dir.path("pid"), std::process::id().to_string()).unwrap();
    let file = dir.config("");
    let (code, _, err) = output(pgbouncer(&["-q"]).arg(&file));
    assert_eq!((code, &*err), (1, ""));
    let log = fs::read_to_string(dir.path("log")).unwrap();
    assert!(
        log.contains("ERROR pidfile") && log.contains("is running"),
        "{log}"
    );
}

#[test]
fn a_daemon_leaves_and_its_pidfile_says_where_to() {
    let dir = Dir::new("pgb-daemon");
    open_to_all(&dir);
    let file = dir.config("admin_users = pgbouncer\n");
    let (code, _, err) = output(pgbouncer(&["-d"]).arg(&file));
    assert_eq!((code, &*err), (0, ""));
    let log = || fs::read_to_string(dir.path("log")).unwrap_or_default();
    until("up", || log().contains("process up"));
    let pid = fs::read_to_string(dir.path("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let _guard = Killed(pid);
    assert!(
        log().contains(&format!("[{}]", pid.as_raw_nonzero())),
        "{}",
        log()
    );
    let mut client = UnixStream::connect(dir.path(".s.PGSQL.6432")).unwrap();
    std::io::Write::write_all(
        &mut client,
        b"\0\0\0\x2b\0\x03\0\0user\0pgbouncer\0database\0pgbouncer\0\0",
    )
    .unwrap();
    until_ready(&mut client);
    drop(client);
    // A second one says why it does not start while somebody can hear it.
    let (code, _, err) = output(pgbouncer(&["-d"]).arg(&file));
    assert_eq!(code, 1, "{err}");
    assert!(
        err.starts_with("pidfile ") && err.ends_with("which is running\n"),
        "{err}"
    );
    let other = dir.config(&format!("pidfile = {}\n", dir.path("other").display()));
    let (code, _, err) = output(pgbouncer(&["-d"]).arg(&other));
    assert_eq!(code, 1, "{err}");
    assert!(
        err.starts_with("unix socket is in use, cannot continue: "),
        "{err}"
    );
    assert!(!dir.path("other").exists());
    kill_process(pid, Signal::INT).unwrap();
    until("gone", || test_kill_process(pid).is_err());
    assert!(!dir.path("pid").exists());
}

/// A process that is not waited for; killed if the test fails.
struct Killed(Pid);

impl Drop for Killed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}

#[test]
fn a_daemon_needs_a_pidfile() {
    let dir = Dir::new("pgb-no-pidfile");
    open_to_all(&dir);
    let file = dir.config("pidfile =\n");
    let (code, _, err) = output(pgbouncer(&["-d"]).arg(file));
    assert_eq!((code, &*err), (1, "daemon needs pidfile configured\n"));
}
