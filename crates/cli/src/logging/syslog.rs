//! Log lines to syslog (RFC 3164, section 4.1), over the datagram socket that the C library's syslog(3) uses.
//! The C library itself is not used: its state is global, and it blocks when the socket is full.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use weir_config::Global;

/// Socket of the system's log.
const SOCKET: &str = "/dev/log";

/// Connection to the system's log, made when the first line is sent and again after the log has restarted.
pub(crate) struct Syslog {
    path: PathBuf,
    facility: u8,
    /// `ident[pid]: `.
    tag: String,
    socket: Option<UnixDatagram>,
}

impl Syslog {
    /// Creates the connection that the options ask for; none if syslog is off.
    pub(crate) fn of(global: &Global) -> Option<Self> {
        global.syslog.then(|| Self::at(Path::new(SOCKET), global))
    }

    pub(crate) fn at(path: &Path, global: &Global) -> Self {
        Self {
            path: path.to_owned(),
            facility: global.syslog_facility.number(),
            tag: format!("{}[{}]: ", global.syslog_ident, std::process::id()),
            socket: None,
        }
    }

    /// Connects, unless connected already.
    ///
    /// # Errors
    /// If the socket cannot be made or nothing listens.
    pub(crate) fn connect(&mut self) -> io::Result<()> {
        if self.socket.is_none() {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.connect(&self.path)?;
            self.socket = Some(socket);
        }
        Ok(())
    }

    /// Sends a line in the format of the log file. False if it was lost.
    pub(crate) fn send(&mut self, line: &[u8]) -> bool {
        let message = self.message(line);
        // The second attempt covers a log that has restarted since the last line.
        for _ in 0..2 {
            if self.connect().is_err() {
                return false;
            }
            match self.socket.as_ref().map(|socket| socket.send(&message)) {
                Some(Ok(_)) => return true,
                // The log is too slow; waiting would delay further lines.
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
                _ => self.socket = None,
            }
        }
        false
    }

    /// Formats a datagram. Syslog adds its own time and takes the process id from the tag, so a text line loses
    /// both.
    fn message(&self, line: &[u8]) -> Vec<u8> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let text = String::from_utf8_lossy(line);
        let (level, text) = match text.starts_with('{') {
            true => {
                let level = text.split("\"level\":\"").nth(1).unwrap_or_default();
                (level.split('"').next().unwrap_or_default(), &*text)
            }
            false => {
                let rest = text.split_once("] ").map_or(&*text, |(_, rest)| rest);
                let (level, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                (level, rest)
            }
        };
        let priority = self.facility * 8 + severity(level);
        format!("<{priority}>{}{text}", self.tag).into_bytes()
    }
}

/// Severity of one of PgBouncer's levels, mapped as in PgBouncer (numbers: RFC 5424, table 2).
fn severity(level: &str) -> u8 {
    match level {
        "FATAL" => 2,
        "ERROR" => 3,
        "WARNING" => 4,
        "LOG" => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(lines: &str) -> Global {
        let text = format!("[pgbouncer]\nauth_type = any\n{lines}");
        let mut read = |_: &Path| Ok(text.clone());
        let loaded = weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty());
        loaded.unwrap().settings.global
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 500];
        let len = socket.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..len]);
        text.replace(&std::process::id().to_string(), "PID")
    }

    #[test]
    fn lines_arrive_with_priority_name_and_process_also_after_a_restart() {
        let path = std::env::temp_dir().join(format!("weir-syslog-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let options = "syslog = 1\nsyslog_ident = pooler\nsyslog_facility = LOCAL0\n";
        let mut syslog = Syslog::at(&path, &global(options));
        let line = b"2026-07-10 22:19:13.123 CEST [4711] WARNING C-0x1: a/b@[::1]:5 ] x\n";
        assert!(!syslog.send(line), "nobody listens");
        for _ in 0..2 {
            let log = UnixDatagram::bind(&path).unwrap();
            assert!(syslog.send(line));
            let wanted = "<132>pooler[PID]: C-0x1: a/b@[::1]:5 ] x";
            assert_eq!(received(&log), wanted);
            let json = b"{\"time\":\"x\",\"level\":\"LOG\",\"message\":\"y\"}\n";
            assert!(syslog.send(json));
            let wanted = "<134>pooler[PID]: {\"time\":\"x\",\"level\":\"LOG\",\"message\":\"y\"}";
            assert_eq!(received(&log), wanted);
            drop(log);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn without_the_option_nothing_is_sent() {
        assert!(Syslog::of(&global("")).is_none());
        assert!(Syslog::of(&global("syslog = 1")).is_some());
    }

    #[test]
    fn facilities_have_the_numbers_of_the_c_library() {
        for (name, number) in [("daemon", 24), ("user", 8), ("auth", 32), ("local7", 184)] {
            let options = format!("syslog = 1\nsyslog_facility = {name}\n");
            let syslog = Syslog::at(Path::new("/x"), &global(&options));
            let message = syslog.message(b"x [1] LOG y\n");
            let message = String::from_utf8(message).unwrap();
            assert!(
                message.starts_with(&format!("<{}>pgbouncer[", number + 6)),
                "{message}"
            );
        }
    }
}
