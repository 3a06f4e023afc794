//! Tests of the built binary, run as a user runs it: output, exit codes, signals.

#![allow(clippy::unwrap_used, reason = "helpers of tests, as in tests")]

mod access;
mod formats;
mod lab;
mod pgbouncer;
mod rules;
mod systemd;
mod upgrade;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time limit for a process to print an expected line.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory for one test, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-cli-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a configuration that listens only on a unix socket in this directory.
    fn config(&self, more: &str) -> PathBuf {
        let dir = self.0.display();
        let text = format!(
            "[databases]\nshop = host=127.0.0.1 user=app\n[pgbouncer]\nauth_type = any\n\
             unix_socket_dir = {dir}\npidfile = {dir}/pid\nlogfile = {dir}/log\n{more}"
        );
        let path = self.path("weir.ini");
        fs::write(&path, text).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Command for the binary, without this process's own configuration variables.
fn weir(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WEIR_") {
            command.env_remove(name);
        }
    }
    command
}

/// Waits until a condition holds, at most ten seconds.
#[expect(
    clippy::disallowed_methods,
    reason = "a test of a running program has no clock but the real one"
)]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

fn output(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn with_file(command: &str, file: &Path) -> (i32, String, String) {
    output(weir(&[command]).arg(file))
}

#[test]
fn version_names_weir_first() {
    let (code, out, _) = output(&mut weir(&["--version"]));
    assert_eq!(code, 0);
    assert!(out.starts_with("weir 0.1.0\n"), "{out}");
}

#[test]
fn help_has_examples_environment_and_exit_codes() {
    let (code, out, _) = output(&mut weir(&["--help"]));
    assert_eq!(code, 0);
    for part in [
        "weir run --upstream",
        "WEIR_<OPTION>",
        "Exit codes:",
        "SIGHUP",
    ] {
        assert!(out.contains(part), "{part} is missing in:\n{out}");
    }
}

#[test]
fn a_missing_or_unknown_command_gets_help() {
    for args in [&[][..], &["frobnicate"]] {
        let (code, out, err) = output(&mut weir(args));
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("Check a configuration"), "{err}");
    }
}

#[test]
fn a_command_without_a_configuration_says_what_is_missing() {
    for command in ["run", "check"] {
        let (code, _, err) = output(&mut weir(&[command]));
        assert_eq!(code, 2);
        assert!(err.contains("FILE"), "{err}");
    }
}

#[test]
fn a_closed_standard_output_is_no_panic() {
    for args in [&["--help"][..], &["check", "a.ini"]] {
        let mut child = weir(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!err.contains("panicked"), "{err}");
    }
}

#[test]
fn check_prints_what_would_be_in_force_and_no_secret() {
    let dir = Dir::new("good");
    let file = dir.config("default_pool_size = 7\n");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("user=app", "user=app password=hush-hush"),
    )
    .unwrap();
    let (code, out, _) = with_file("check", &file);
    assert_eq!(code, 0);
    assert!(out.contains("default_pool_size = 7"), "{out}");
    assert!(!out.contains("hush-hush"), "{out}");
    assert_eq!(dir.names(), ["weir.ini"]);
}

#[test]
fn check_names_the_driver_that_would_be_used() {
    let dir = Dir::new("driver");
    let file = dir.config("io = epoll\n");
    let (code, out, _) = with_file("check", &file);
    assert_eq!(code, 0);
    assert!(out.ends_with("\n# io: epoll (io = epoll)\n"), "{out}");
    // With another value the kernel decides.
    let mut command = weir(&["check"]);
    command.arg(&file).env("WEIR_IO", "io_uring");
    let (code, out, _) = output(&mut command);
    assert_eq!(code, 0);
    let last = out.lines().last().unwrap();
    let is_used = last == "# io: io_uring (io = io_uring)";
    assert!(
        is_used || last.starts_with("# io: epoll (io = io_uring; "),
        "{last}"
    );
}

#[test]
fn check_hints_at_an_rsa_certificate() {
    let dir = Dir::new("rsa");
    for (kind, is_hinted) in [("rsa:2048", true), ("ec", false)] {
        let (key, cert) = (dir.path("tls.key"), dir.path("tls.crt"));
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req", "-x509", "-nodes", "-subj", "/CN=weir", "-days", "90", "-newkey", kind,
        ]);
        if kind == "ec" {
            openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        }
        openssl.arg("-keyout").arg(&key).arg("-out").arg(&cert);
        let made = openssl.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let file = dir.config(&format!(
            "client_tls_sslmode = require\nclient_tls_key_file = {}\nclient_tls_cert_file = {}\n",
            key.display(),
            cert.display()
        ));
        let (code, _, err) = with_file("check", &file);
        assert_eq!(code, 0, "{err}");
        let hint = "tls.crt: the certificate shown to clients has an RSA key";
        let hints: Vec<_> = err
            .lines()
            .filter(|line| line.starts_with("hint: "))
            .collect();
        assert_eq!(
            hints.iter().any(|line| line.contains(hint)),
            is_hinted,
            "{err}"
        );
    }
}

#[test]
fn the_environment_wins_and_may_name_the_file() {
    let dir = Dir::new("environment");
    let file = dir.config("default_pool_size = 7\n");
    let mut command = weir(&["check"]);
    command
        .env("WEIR_CONFIG", &file)
        .env("WEIR_DEFAULT_POOL_SIZE", "9");
    let (code, out, _) = output(&mut command);
    assert_eq!(code, 0);
    let wanted = "default_pool_size = 9  # environment WEIR_DEFAULT_POOL_SIZE";
    assert!(out.contains(wanted), "{out}");
}

#[test]
fn every_mistake_is_a_line_and_nothing_is_changed() {
    let dir = Dir::new("bad");
    let file = dir.config("pool_modes = session\nlisten_port = many\n");
    for command in ["check", "run"] {
        let (code, out, err) = with_file(command, &file);
        assert_eq!((code, out.as_str()), (1, ""));
        let lines: Vec<_> = err.lines().collect();
        assert_eq!(lines.len(), 2, "{err}");
        let (first, second) = (lines[0], lines[1]);
        assert!(first.contains("weir.ini:8:"), "{first}");
        assert!(first.ends_with("did you mean \"pool_mode\"?"), "{first}");
        assert!(second.contains("weir.ini:9:"), "{second}");
    }
    assert_eq!(dir.names(), ["weir.ini"]);
}

#[test]
fn a_mistake_in_the_auth_file_has_its_line() {
    let dir = Dir::new("auth");
    let users = dir.path("userlist.txt");
    fs::write(&users, "\"a\" \"b\"\nhush-hush\n").unwrap();
    let file = dir.config(&format!("auth_file = {}\n", users.display()));
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(
        err.contains("userlist.txt:2: expected a user name"),
        "{err}"
    );
    assert!(!err.contains("hush-hush"), "{err}");
    fs::remove_file(&users).unwrap();
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 0);
    assert!(err.contains("cannot read auth_file"), "{err}");
    let file = dir.config(&format!(
        "auth_file = {}\nstrict_files = 1\n",
        users.display()
    ));
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(err.contains("cannot read auth_file"), "{err}");
}

#[test]
fn files_that_are_missing_are_told_with_their_lines_together_with_other_mistakes() {
    let dir = Dir::new("together");
    let users = dir.path("userlist.txt");
    fs::write(&users, "hush-hush\n").unwrap();
    let text = format!(
        "pool_mod = session\nauth_type = hba\nauth_file = {}\nauth_hba_file = /none/hba\nauth_ident_file = /none/ident\n\
         client_tls_sslmode = require\nclient_tls_key_file = /none/key\nclient_tls_cert_file = /none/cert\n",
        users.display()
    );
    let (code, _, err) = with_file("check", &dir.config(&text));
    assert_eq!(code, 1);
    let line = |said: &str| {
        let line = err.lines().find(|line| line.contains(said));
        let line = line.unwrap_or_else(|| panic!("{said}: {err}"));
        let place = line.split_once("ini:").unwrap_or_else(|| panic!("{err}")).1;
        place.split(':').next().unwrap().parse::<u32>().unwrap()
    };
    let first = line("unknown key \"pool_mod\"");
    assert!(
        err.contains("userlist.txt:1: expected a user name"),
        "{err}"
    );
    assert_eq!(line("auth_hba_file: cannot read \"/none/hba\""), first + 3);
    assert_eq!(
        line("auth_ident_file: cannot read \"/none/ident\""),
        first + 4
    );
    assert_eq!(line("client_tls_cert_file: \"/none/cert\""), first + 7);
    // Without the others, too.
    let text = format!(
        "auth_file = {}\nstrict_files = 1\n",
        dir.path("none").display()
    );
    let (_, _, err) = with_file("check", &dir.config(&text));
    let place = format!("ini:{first}: cannot read auth_file");
    assert!(err.contains(&place), "{err}");
}

#[test]
fn a_pidfile_of_a_living_process_keeps_it_from_starting() {
    let dir = Dir::new("pidfile");
    let file = dir.config("");
    let pid = std::process::id().to_string();
    fs::write(dir.path("pid"), &pid).unwrap();
    let (code, _, err) = with_file("run", &file);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(&format!("belongs to process {pid}")), "{err}");
    assert_eq!(fs::read_to_string(dir.path("pid")).unwrap(), pid);
}

#[test]
fn an_address_in_use_keeps_it_from_starting() {
    let dir = Dir::new("address");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let file = dir.config(&format!("listen_addr = 127.0.0.1\nlisten_port = {port}\n"));
    let (code, _, err) = with_file("run", &file);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(&format!("127.0.0.1:{port}")), "{err}");
    assert!(!dir.path("pid").exists());
}

#[test]
fn an_unknown_log_level_keeps_it_from_starting() {
    let dir = Dir::new("level");
    let file = dir.config("");
    let (code, _, err) = output(weir(&["run"]).arg(file).env("WEIR_LOG", "loud"));
    assert_eq!(code, 3);
    assert!(err.starts_with("WEIR_LOG=\"loud\""), "{err}");
}

/// A running pooler; killed at the end of the test if it still runs.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts the pooler and waits until it is up.
    fn start(file: &Path) -> Self {
        let mut command = weir(&["run"]);
        command.arg(file);
        Self::start_command(command)
    }

    /// Starts a given command and waits until it is up.
    fn start_command(mut command: Command) -> Self {
        command.stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = sync_channel(10_000);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let running = Self { child, lines };
        running.expect("process up: Weir 0.1.0");
        running
    }

    /// Waits for a line that contains this text.
    fn expect(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no line with {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Exit code, after the end of the log, which ends with the process.
    fn end(&mut self) -> Option<i32> {
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_stop_signal_ends_it_in_order() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let dir = Dir::new(&format!("stop-{}", signal.as_raw()));
        let mut running = Running::start(&dir.config(""));
        // The pid file is written right after the engine's start, before the expected line.
        let pid = fs::read_to_string(dir.path("pid")).unwrap();
        assert_eq!(pid.trim(), running.child.id().to_string());
        running.signal(signal);
        running.expect("LOG stopped");
        assert_eq!(running.end(), Some(0));
        assert!(!dir.path("pid").exists());
        let log = fs::read_to_string(dir.path("log")).unwrap();
        assert!(
            log.contains("process up") && log.ends_with("LOG stopped\n"),
            "{log}"
        );
    }
}

#[test]
fn a_reload_tells_what_changed_and_a_bad_one_changes_nothing() {
    let dir = Dir::new("reload");
    let mut running = Running::start(&dir.config(""));
    dir.config("default_pool_size = 30\nlisten_port = 7000\n");
    running.signal(Signal::HUP);
    let line = running.expect("listen_port");
    assert!(
        line.contains("WARNING") && line.ends_with("(needs a restart)"),
        "{line}"
    );
    running.expect("reload: default_pool_size: \"20\" to \"30\"");
    running.expect("reload done");
    dir.config("default_pool_sice = 40\n");
    running.signal(Signal::HUP);
    running.expect("did you mean \"default_pool_size\"?");
    running.expect("reload failed");
    // The value that the bad file omitted is still in force, so setting it again changes nothing.
    dir.config("default_pool_size = 30\n");
    running.signal(Signal::HUP);
    running.expect("reload done, 0 changes");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn the_log_file_can_be_rotated() {
    let dir = Dir::new("rotate");
    let mut running = Running::start(&dir.config(""));
    fs::rename(dir.path("log"), dir.path("log.1")).unwrap();
    running.signal(Signal::HUP);
    running.expect("reload done");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
    let log = fs::read_to_string(dir.path("log")).unwrap();
    assert!(log.ends_with("LOG stopped\n"), "{log}");
    assert!(
        !fs::read_to_string(dir.path("log.1"))
            .unwrap()
            .contains("stopped")
    );
}

#[test]
fn started_as_root_it_becomes_the_user_that_is_named() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = Dir::new("user");
    let file = dir.config("user = nobody\n");
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
    let mut running = Running::start(&file);
    let status = format!("/proc/{}/status", running.child.id());
    let status = fs::read_to_string(status).unwrap();
    let ids = |key: &str| -> Vec<u32> {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace()
            .skip(1)
            .map(|id| id.parse().unwrap())
            .collect()
    };
    let owner = fs::metadata(dir.path("log")).unwrap().uid();
    assert_eq!(ids("Uid:"), [owner; 4]);
    assert!(owner != 0 && !ids("Gid:").contains(&0) && !ids("Groups:").contains(&0));
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
    let file = dir.config("user = nobody-of-this-name\n");
    let (code, _, err) = with_file("run", &file);
    assert_eq!(code, 3);
    assert_eq!(
        err,
        "user \"nobody-of-this-name\" does not exist on this system\n"
    );
}

#[test]
fn workers_is_the_number_of_threads_that_serve_clients() {
    let dir = Dir::new("workers");
    let file = dir.config("workers = 3\n");
    let running = Running::start(&file);
    let workers = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", running.child.id())).unwrap();
        let names =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names
            .filter(|name| name.starts_with("weir-worker-"))
            .count()
    };
    // A thread sets its own name, possibly not yet.
    wait_for("their names", || workers() >= 3);
    assert_eq!(workers(), 3);
}

#[test]
fn conffile_is_the_file_that_a_reload_reads() {
    let dir = Dir::new("conffile");
    let other = dir.path("other.ini");
    let file = dir.config(&format!("conffile = {}\n", other.display()));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&other, text + "default_pool_size = 33\n").unwrap();
    let mut running = Running::start(&file);
    running.signal(Signal::HUP);
    running.expect("reload: default_pool_size: \"20\" to \"33\"");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn sigusr1_pauses_and_sigusr2_resumes() {
    let dir = Dir::new("usr");
    let file = dir.config("");
    let mut running = Running::start(&file);
    running.signal(Signal::USR1);
    running.expect("got SIGUSR1, pausing all activity");
    running.signal(Signal::USR1);
    running.expect("got SIGUSR1, but: already suspended/paused");
    running.signal(Signal::USR2);
    running.expect("got SIGUSR2, continuing");
    running.signal(Signal::USR2);
    running.expect("got SIGUSR2, but: pooler is not paused/suspended");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn json_lines_are_objects() {
    let dir = Dir::new("json");
    let file = dir.config("log_format = json\n");
    let mut running = Running::start(&file);
    running.signal(Signal::USR2);
    let line = running.expect("SIGUSR2");
    assert!(
        line.starts_with("{\"time\":\"") && line.ends_with('}'),
        "{line}"
    );
    assert!(line.contains("\"level\":\"WARNING\""), "{line}");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

/// Reads up to ReadyForQuery.
fn until_ready(console: &mut UnixStream) {
    console.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"Z\0\0\0\x05I") {
        let mut byte = [0];
        console.read_exact(&mut byte).unwrap();
        bytes.extend(byte);
    }
}

#[test]
fn the_console_reloads_and_stops_it() {
    let dir = Dir::new("console");
    let mut running = Running::start(&dir.config("admin_users = root\n"));
    let mut console = UnixStream::connect(dir.path(".s.PGSQL.6432")).unwrap();
    let startup = b"\0\0\0\x21\0\x03\0\0user\0root\0database\0weir\0\0";
    console.write_all(startup).unwrap();
    until_ready(&mut console);
    let pid = std::process::id();
    running.expect(&format!(": weir/root@unix({pid}):6432 login attempt: "));
    console.write_all(b"Q\0\0\0\x0breload\0").unwrap();
    running.expect("RELOAD: reading the configuration again");
    running.expect("reload done, 0 changes");
    console.write_all(b"Q\0\0\0\x0dshutdown\0").unwrap();
    running.expect("LOG stopped");
    assert_eq!(running.end(), Some(0));
}
