//! `weir upgrade`: requests an upgrade from a running process, and prints its progress.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use weir_command::exit::{Exit, complain};
use weir_config::Settings;

use super::ACCEPTS;
use super::door::address;
use crate::args;
use crate::load::Source;

/// Moment at which the request for an upgrade has been met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The next process accepts clients. Clients in session pooling may keep the old process alive for hours.
    Accepts,
    /// The old process has no clients any more.
    Moved,
}

/// Requests an upgrade as `weir upgrade` does; waits until the old process has ended or the upgrade has failed.
pub(crate) fn ask(args: &args::Upgrade) -> Exit {
    let pid = args.pid.map_or_else(|| running(args), Ok);
    pid.map_or_else(|exit| exit, |pid| request(pid, Until::Moved))
}

/// Requests an upgrade as PgBouncer's `-R` does; returns when the next process accepts clients.
pub(crate) fn reboot(file: PathBuf) -> Exit {
    let args = args::Upgrade {
        file: Some(file),
        pid: None,
    };
    running(&args).map_or_else(|exit| exit, |pid| request(pid, Until::Accepts))
}

fn request(pid: u32, until: Until) -> Exit {
    let stream = address(pid).and_then(|address| UnixStream::connect_addr(&address));
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            complain(format_args!(
                "process {pid} is no Weir that can be upgraded: {error}"
            ));
            return Exit::Start;
        }
    };
    let mut last = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        // A closed standard output does not stop the upgrade.
        let _ = writeln!(std::io::stdout(), "{line}");
        if until == Until::Accepts && line.ends_with(ACCEPTS) {
            return Exit::Ok;
        }
        last = line;
    }
    match last.starts_with("upgraded: ") {
        true => Exit::Ok,
        false if last.starts_with("failed: ") => Exit::Start,
        false => {
            complain("the outcome is not known: the process that should tell it has ended");
            Exit::Failed
        }
    }
}

/// Returns the process that runs with this configuration: the one that its `pidfile` names, or else the one that listens on
/// its unix socket or its port.
fn running(args: &args::Upgrade) -> Result<u32, Exit> {
    let global = settings(args)?.global;
    if !global.pidfile.is_empty() {
        return pid_in_file(&global.pidfile);
    }
    let path = format!("{}/.s.PGSQL.{}", global.unix_socket_dir, global.listen_port);
    listener_of(&path, global.listen_port).ok_or_else(|| {
        complain(format_args!(
            "no process that can be upgraded listens on {path} or on port {}: name it with --pid",
            global.listen_port
        ));
        Exit::Start
    })
}

fn pid_in_file(path: &str) -> Result<u32, Exit> {
    let text = fs::read_to_string(path).map_err(|error| {
        complain(format_args!("cannot read pidfile {path}: {error}"));
        Exit::Start
    })?;
    text.trim().parse().map_err(|_| {
        complain(format_args!("pidfile {path} holds no process number"));
        Exit::Start
    })
}

fn settings(args: &args::Upgrade) -> Result<Settings, Exit> {
    let Some(source) = Source::choose(args.file.as_deref(), None) else {
        return Err(args::report_missing("<FILE|--pid <PID>>"));
    };
    let loaded = source.config().map_err(|errors| {
        errors.iter().for_each(complain);
        Exit::Config
    })?;
    Ok(loaded.settings)
}

/// Returns the process that has the listening socket at this path or port and can be upgraded.
///
/// The peer credentials of a connection do not tell it: they are those of the process that first listened, perhaps many
/// upgrades ago.
fn listener_of(path: &str, port: u16) -> Option<u32> {
    let table = fs::read_to_string("/proc/net/unix").ok()?;
    let tcp = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|table| fs::read_to_string(table).unwrap_or_default());
    let on_port = tcp.iter().flat_map(|table| table.lines());
    let on_port = on_port.filter_map(|line| listening_tcp_inode(line, port));
    let sockets: Vec<String> = table
        .lines()
        .filter_map(|line| listening_inode(line, path))
        .chain(on_port)
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        // A successor that is starting holds the socket as well, but nobody can ask it yet.
        has_door(&table, *pid) && has_any(*pid, &sockets)
    })
}

/// Returns the inode in a line of `/proc/net/unix` if that socket listens at this path.
fn listening_inode<'a>(line: &'a str, path: &str) -> Option<&'a str> {
    /// `__SO_ACCEPTCON`, in hexadecimal digits.
    const LISTENS: &str = "00010000";
    let mut words = line.split_whitespace();
    let (flags, inode) = (words.nth(3)?, words.nth(2)?);
    let is_it = flags == LISTENS && words.next() == Some(path);
    is_it.then_some(inode)
}

/// Returns the inode in a line of `/proc/net/tcp` or `tcp6` if that socket listens on this port of any address.
fn listening_tcp_inode(line: &str, port: u16) -> Option<&str> {
    /// `TCP_LISTEN`, in hexadecimal digits.
    const LISTENS: &str = "0A";
    let mut words = line.split_whitespace();
    let (_, found) = words.nth(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(found, 16) == Ok(port) && words.nth(1) == Some(LISTENS);
    words.nth(5).filter(|_| is_it)
}

fn has_door(table: &str, pid: u32) -> bool {
    let name = format!("@weir-upgrade-{pid}");
    table
        .lines()
        .any(|line| line.split_whitespace().last() == Some(&name))
}

/// True if a process has one of these sockets open.
fn has_any(pid: u32, sockets: &[String]) -> bool {
    let links = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    let mut links = links.into_iter().flatten().flatten();
    links.any(|link| {
        let target = fs::read_link(link.path()).unwrap_or_default();
        sockets.iter().any(|socket| target == Path::new(socket))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inode_of_a_listening_socket_is_found_by_its_path() {
        let path = "/tmp/.s.PGSQL.6432";
        let listens = format!("0000000000000000: 00000002 00000000 00010000 0001 01 41267 {path}");
        let accepted = format!("0000000000000000: 00000003 00000000 00000000 0001 03 41268 {path}");
        assert_eq!(listening_inode(&listens, path), Some("41267"));
        assert_eq!(listening_inode(&accepted, path), None);
        assert_eq!(listening_inode(&listens, "/tmp/.s.PGSQL.6433"), None);
        assert_eq!(listening_inode("Num RefCount Protocol", path), None);
    }
}
