//! The binary under PgBouncer's name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{Dir, output, wait_for};

/// A link to the binary.
fn linked(dir: &Dir) -> PathBuf {
    let path = dir.path("pgbouncer");
    symlink(env!("CARGO_BIN_EXE_weir"), &path).unwrap();
    path
}

fn pgbouncer(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear();
    command
}

#[test]
fn version_and_mistakes_are_told_as_pgbouncer_tells_them() {
    let dir = Dir::new("pgb-version");
    let program = linked(&dir);
    let (code, out, _) = output(&mut pgbouncer(&program, &["-V"]));
    assert_eq!(code, 0);
    assert!(out.starts_with("PgBouncer 1.25.2 (Weir "), "{out}");
    let (code, _, err) = output(&mut pgbouncer(&program, &[]));
    assert_eq!(
        (code, err.as_str()),
        (1, "no configuration file specified\n")
    );
    let (code, _, err) = output(&mut pgbouncer(&program, &["-R", "a.ini"]));
    assert!(code == 2 && err.contains("weir upgrade"), "{err}");
    let (code, _, err) = output(&mut pgbouncer(&program, &["-d", "/nowhere.ini"]));
    assert!(code == 1 && err.contains("/nowhere.ini"), "{err}");
}

#[test]
fn as_a_daemon_it_is_in_the_background_when_it_accepts_clients() {
    let dir = Dir::new("pgb-daemon");
    let program = linked(&dir);
    let file = dir.config("listen_port = 6543\n");
    let args = ["-d", "-q", "-v", file.to_str().unwrap()];
    let (code, out, err) = output(&mut pgbouncer(&program, &args));
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let pid = fs::read_to_string(dir.path("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    // Behind the name: state, parent, group, session.
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!(
        fields[3],
        pid.as_raw_nonzero().to_string(),
        "a session of its own"
    );
    assert!(std::os::unix::net::UnixStream::connect(dir.path(".s.PGSQL.6543")).is_ok());
    let log = fs::read_to_string(dir.path("log")).unwrap();
    assert!(log.contains("process up"), "{log}");
    // A second one is told by the file of the first.
    let (code, _, err) = output(&mut pgbouncer(&program, &args));
    assert_eq!(code, 3, "{err}");
    kill_process(pid, Signal::QUIT).unwrap();
    wait_for("its end", || {
        test_kill_process(pid).is_err() || !dir.path("pid").exists()
    });
}

#[test]
fn a_daemon_needs_a_pidfile_and_a_log() {
    let dir = Dir::new("pgb-needs");
    let program = linked(&dir);
    let file = dir.path("a.ini");
    for (lines, why) in [
        ("", "daemon needs pidfile configured\n"),
        (
            "pidfile = p\n",
            "daemon needs logfile or syslog configured\n",
        ),
    ] {
        let text = format!("[databases]\na = host=h\n[pgbouncer]\nauth_type = any\n{lines}");
        fs::write(&file, text).unwrap();
        let (code, _, err) = output(&mut pgbouncer(&program, &["-d", file.to_str().unwrap()]));
        assert_eq!((code, err.as_str()), (1, why));
    }
}

#[test]
fn in_the_foreground_it_becomes_weir_run_and_keeps_its_process() {
    let dir = Dir::new("pgb-front");
    let program = linked(&dir);
    let file = dir.config("listen_port = 6544\n");
    let mut child = pgbouncer(&program, &["-q", file.to_str().unwrap()])
        .spawn()
        .unwrap();
    wait_for("its file", || dir.path("pid").exists());
    let pid = fs::read_to_string(dir.path("pid")).unwrap();
    assert_eq!(pid.trim(), child.id().to_string());
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
