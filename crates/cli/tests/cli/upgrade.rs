//! `weir upgrade` without a PostgreSQL server: processes, files, and messages to each side.

use std::fs;
use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{Dir, PATIENCE, Running, output, until_ready, weir};

/// A process that is not a child of the test; killed at the end of the test.
struct Next(Pid);

impl Next {
    fn in_file(dir: &Dir) -> Self {
        let text = fs::read_to_string(dir.path("pid")).unwrap();
        Self(Pid::from_raw(text.trim().parse().unwrap()).unwrap())
    }
}

impl Drop for Next {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

fn console(dir: &Dir) -> UnixStream {
    let mut console = UnixStream::connect(dir.path(".s.PGSQL.6432")).unwrap();
    let startup = b"\0\0\0\x21\0\x03\0\0user\0root\0database\0weir\0\0";
    console.write_all(startup).unwrap();
    until_ready(&mut console);
    console
}

#[test]
fn the_next_process_has_the_files_the_socket_and_the_service_managers_eye() {
    let dir = Dir::new("upgrade");
    let file = dir.config("admin_users = root\n");
    let manager = UnixDatagram::bind(dir.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = weir(&["run"]);
    command.arg(&file).env("NOTIFY_SOCKET", dir.path("notify"));
    let mut first = Running::start_command(command);
    drop(console(&dir));
    let (code, out, err) = output(weir(&["upgrade"]).arg(&file));
    assert_eq!(code, 0, "{out}{err}");
    let next = Next::in_file(&dir);
    let number = next.0.as_raw_nonzero().get();
    assert!(
        out.starts_with(&format!("process {number} accepts clients\n")),
        "{out}"
    );
    assert!(out.contains("\nupgraded: 0 clients moved"), "{out}");
    first.expect("LOG stopped");
    assert_eq!(first.child.wait().unwrap().code(), Some(0));
    assert_ne!(number, i32::try_from(first.child.id()).unwrap());
    let mut bytes = [0; 1024];
    let wanted = format!("MAINPID={number}\n");
    loop {
        let length = manager.recv(&mut bytes).unwrap();
        let message = String::from_utf8_lossy(bytes.get(..length).unwrap());
        assert_ne!(message, "STOPPING=1\n");
        if message == wanted {
            break;
        }
    }
    // Second upgrade, from a process that is not a child of the test.
    drop(console(&dir));
    let (code, out, err) = output(weir(&["upgrade"]).arg(&file));
    assert_eq!(code, 0, "{out}{err}");
    let last = Next::in_file(&dir);
    drop(console(&dir));
    kill_process(last.0, Signal::TERM).unwrap();
    assert_eq!(first.end(), Some(0), "the log ends with the last process");
    assert!(test_kill_process(next.0).is_err() || next.0 != last.0);
    for name in ["pid", ".s.PGSQL.6432"] {
        assert!(!dir.path(name).exists(), "{name} is left");
    }
}

#[test]
fn a_next_process_that_finds_mistakes_leaves_everything_as_it_is() {
    let dir = Dir::new("upgrade-bad");
    let file = dir.config("admin_users = root\n");
    let first = Running::start(&file);
    let pid = fs::read_to_string(dir.path("pid")).unwrap();
    dir.config("no_such_option = 1\n");
    let (code, out, _) = output(weir(&["upgrade", "--pid"]).arg(pid.trim()));
    assert_eq!(code, 3, "{out}");
    assert!(
        out.starts_with("failed: the next process did not start"),
        "{out}"
    );
    first.expect("no_such_option");
    first.expect("upgrade failed, this process continues");
    assert_eq!(fs::read_to_string(dir.path("pid")).unwrap(), pid);
    drop(console(&dir));
}

#[test]
fn whom_to_upgrade_has_to_be_known() {
    let dir = Dir::new("upgrade-whom");
    let file = dir.config("");
    let (code, _, err) = output(weir(&["upgrade"]).arg(&file));
    assert!(code == 3 && err.contains("cannot read pidfile"), "{err}");
    let (code, _, err) = output(&mut weir(&["upgrade", "--pid", "1"]));
    assert!(code == 3 && err.contains("process 1 is no Weir"), "{err}");
    let (code, _, err) = output(&mut weir(&["upgrade"]));
    assert!(code == 2 && err.contains("--pid"), "{err}");
}

#[test]
fn nobody_takes_over_without_a_process_to_take_over_from() {
    let dir = Dir::new("take-over");
    let file = dir.config("");
    let mut command = weir(&["run", "--take-over"]);
    let (code, _, err) = output(command.arg(file).stdin(Stdio::null()));
    assert!(code == 3 && !err.is_empty(), "{err}");
    assert_eq!(dir.names(), ["weir.ini"]);
}
