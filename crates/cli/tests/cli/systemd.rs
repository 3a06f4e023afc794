//! Communication with a service manager: notifications, and sockets that it passes.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::Stdio;

use rustix::process::Signal;

use super::{Dir, PATIENCE, Running, output, until_ready, weir};

/// Service manager's end of `NOTIFY_SOCKET`.
struct Manager(UnixDatagram);

impl Manager {
    fn new(dir: &Dir) -> Self {
        let socket = UnixDatagram::bind(dir.path("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// Next message that is neither a watchdog message nor a status.
    fn next(&self) -> String {
        loop {
            let message = self.any();
            if !message.starts_with("WATCHDOG") && !message.starts_with("STATUS") {
                return message;
            }
        }
    }

    fn any(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.0.recv(&mut bytes).unwrap();
        String::from_utf8(bytes.get(..length).unwrap().to_vec()).unwrap()
    }

    fn until(&self, wanted: impl Fn(&str) -> bool) {
        while !wanted(&self.any()) {}
    }
}

fn started(dir: &Dir, more: &str, watchdog_us: &str) -> (Manager, Running) {
    let manager = Manager::new(dir);
    let mut command = weir(&["run"]);
    command.arg(dir.config(more));
    command.env("NOTIFY_SOCKET", dir.path("notify"));
    command.env("WATCHDOG_USEC", watchdog_us);
    (manager, Running::start_command(command))
}

#[test]
fn a_service_manager_hears_ready_reloading_and_stopping() {
    let dir = Dir::new("notify");
    let (manager, mut running) = started(&dir, "", "0");
    assert_eq!(manager.next(), "READY=1\n");
    manager.until(|message| message == "STATUS=serving, 0 clients\n");
    // A failed reload also ends with READY.
    for more in ["", "default_pool_sice = 40\n"] {
        dir.config(more);
        running.signal(Signal::HUP);
        let message = manager.next();
        let time = message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
        assert!(time.unwrap().trim_end().parse::<u64>().unwrap() > 0);
        assert_eq!(manager.next(), "READY=1\n");
    }
    running.signal(Signal::TERM);
    assert_eq!(manager.next(), "STOPPING=1\n");
    assert_eq!(running.end(), Some(0));
}

#[test]
fn signs_of_life_come_while_the_workers_turn() {
    let dir = Dir::new("watchdog");
    let (manager, mut running) = started(&dir, "workers = 2\n", "400000");
    for _ in 0..4 {
        manager.until(|message| message == "WATCHDOG=1\n");
    }
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

/// Script that turns standard input and output into descriptors 3 and 4, as systemd passes them.
const PASS_TWO: &str =
    "exec 3<&0 4>&1 </dev/null >/dev/null; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$@\"";

fn passing(input: OwnedFd, output: OwnedFd, dir: &Dir, more: &str) -> std::process::Command {
    let inner = weir(&["run"]);
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", PASS_TWO, "sh"])
        .arg(inner.get_program());
    command.args(inner.get_args()).arg(dir.config(more));
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("LISTEN_FDNAMES", "weir-tcp:weir-unix");
    command
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output));
    command
}

#[test]
fn sockets_that_are_passed_are_listened_on_and_left_alone() {
    let dir = Dir::new("activation");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let path = dir.path(".s.PGSQL.7777");
    let unix = UnixListener::bind(&path).unwrap();
    // A client that connects before the process exists waits.
    let early = TcpStream::connect(address).unwrap();
    let (tcp, unix): (OwnedFd, OwnedFd) = (tcp.into(), unix.into());
    let command = passing(
        tcp,
        unix,
        &dir,
        "admin_users = root\nlisten_addr = 203.0.113.1\n",
    );
    let mut running = Running::start_command(command);
    let startup = b"\0\0\0\x21\0\x03\0\0user\0root\0database\0weir\0\0";
    let mut console = UnixStream::connect(&path).unwrap();
    console.write_all(startup).unwrap();
    until_ready(&mut console);
    (&early).write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").unwrap();
    let mut answer = [0];
    early.set_read_timeout(Some(PATIENCE)).unwrap();
    std::io::Read::read_exact(&mut &early, &mut answer).unwrap();
    assert_eq!(&answer, b"N");
    assert!(
        !dir.path(".s.PGSQL.6432").exists(),
        "opened its own socket too"
    );
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
    assert!(path.exists(), "removed a socket that is not its own");
}

#[test]
fn descriptors_that_nobody_can_listen_on_keep_it_from_starting() {
    let dir = Dir::new("not-listening");
    let file = fs::File::create(dir.path("plain")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = passing(tcp.into(), file.into(), &dir, "");
    command.stderr(Stdio::piped());
    let child = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(child.status.code(), Some(3));
    let text = String::from_utf8(child.stderr).unwrap();
    let wanted =
        "descriptor 1 of the service manager (weir-unix) is neither a TCP nor a unix socket";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn descriptors_for_another_process_are_not_ours() {
    let dir = Dir::new("other-pid");
    let file = dir.config("logfile = /nonexistent/log\n");
    let mut command = weir(&["run"]);
    command
        .arg(file)
        .env("LISTEN_PID", "1")
        .env("LISTEN_FDS", "1");
    let (code, _, err) = output(&mut command);
    // The start gets as far as the log file.
    assert!(code == 3 && err.contains("/nonexistent/log"), "{err}");
}
