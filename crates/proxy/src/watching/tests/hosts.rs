//! Scripted hosts: as much of PostgreSQL as a probe sees.

use weir_wire::backend::TransactionStatus;
use weir_wire::encode::{self, Column};
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::tag;
use weir_wire::startup::{Startup, startup};

use crate::driver::memory::{End, Peer};

/// Behaviour of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Primary,
    /// Primary on a later timeline.
    Promoted,
    Standby,
    /// Connections are refused.
    Refuses,
    /// Connections are never answered.
    Silent,
    /// Connections are accepted, and nothing is ever said.
    Mute,
    /// The login asks for this kind of proof and says nothing more.
    AsksForPassword,
    /// The login ends with this FATAL error.
    Rejects(&'static str),
    /// The login is accepted; the probe is never answered.
    Stuck,
    /// The probe ends with an error of this severity and code.
    Fails(&'static str, &'static str),
    /// The probe is answered with these bytes.
    Babbles(&'static [u8]),
    /// The probe is answered by half of a row, and the end of the connection.
    BreaksOff(End),
}

/// Connection to a host, as the host sees it.
#[derive(Debug)]
pub(super) struct HostSide {
    pub(super) host: usize,
    pub(super) peer: Peer,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    is_logged_in: bool,
    /// Parameters of the start-up packet.
    pub(super) parameters: Vec<(String, String)>,
    /// Passwords that were sent.
    pub(super) passwords: Vec<String>,
    /// Number of probes that were asked for.
    pub(super) asked: usize,
    /// True if the thread said goodbye.
    pub(super) was_terminated: bool,
}

impl HostSide {
    pub(super) fn new(host: usize, peer: Peer) -> Self {
        Self {
            host,
            peer,
            inbox: Vec::new(),
            outbox: Vec::new(),
            is_logged_in: false,
            parameters: Vec::new(),
            passwords: Vec::new(),
            asked: 0,
            was_terminated: false,
        }
    }

    /// Receives what has come and answers in this manner.
    pub(super) fn serve(&mut self, manner: Manner) {
        self.flush();
        self.inbox.extend(self.peer.receive(usize::MAX));
        if manner == Manner::Mute {
            return;
        }
        if !self.is_logged_in && self.parameters.is_empty() {
            self.greet(manner);
        }
        while let Ok(Some(message)) = frame(&self.inbox, Side::Frontend) {
            let (kind, len) = (message.header.tag, message.raw.len());
            let text = String::from_utf8_lossy(message.body).replace('\0', "");
            self.inbox.drain(..len);
            match kind {
                tag::QUERY => {
                    self.asked += 1;
                    let is_first = self.asked == 1;
                    assert_eq!(text == weir_watch::probe_query(), is_first, "once");
                    self.answer(manner);
                }
                tag::PASSWORD => {
                    self.passwords.push(text);
                    self.welcome();
                }
                tag::TERMINATE => self.was_terminated = true,
                other => panic!("unexpected message {}", char::from(other)),
            }
        }
    }

    fn greet(&mut self, manner: Manner) {
        let Ok(Some((Startup::Startup(message), len))) = startup(&self.inbox) else {
            return;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let parameters = message.params();
        self.parameters = parameters.map(|(n, v)| (text(n), text(v))).collect();
        self.inbox.drain(..len);
        match manner {
            Manner::Rejects(code) => {
                self.say(|out| error(out, "FATAL", code));
                self.peer.end(End::Orderly);
            }
            Manner::AsksForPassword => {
                self.say(|out| encode::authentication_cleartext(out).unwrap());
            }
            _ => self.welcome(),
        }
    }

    fn welcome(&mut self) {
        self.is_logged_in = true;
        self.say(|out| {
            encode::authentication_ok(out).unwrap();
            encode::parameter_status(out, b"server_version", b"15.18").unwrap();
            encode::backend_key_data(out, 7, b"1234").unwrap();
            encode::ready_for_query(out, TransactionStatus::Idle).unwrap();
        });
    }

    fn answer(&mut self, manner: Manner) {
        match manner {
            Manner::Primary | Manner::Standby => {
                self.say(|out| rows(out, &[row(manner == Manner::Standby)]));
            }
            Manner::Promoted => self.say(|out| rows(out, &[cells(PROMOTED)])),
            Manner::Fails(severity, code) => self.say(|out| {
                error(out, severity, code);
                encode::ready_for_query(out, TransactionStatus::Idle).unwrap();
            }),
            Manner::Babbles(bytes) => self.say(|out| out.extend_from_slice(bytes)),
            Manner::BreaksOff(end) => {
                self.say(|out| {
                    rows(out, &[row(false)]);
                    out.truncate(out.len() / 2);
                });
                self.peer.end(end);
            }
            _ => {}
        }
    }

    /// Sends messages in two segments, cut in the middle.
    pub(super) fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.outbox);
        let tail = self.outbox.split_off(self.outbox.len() / 2);
        self.flush();
        self.outbox.extend(tail);
        self.flush();
    }

    fn flush(&mut self) {
        let sent = self.peer.send(&self.outbox);
        self.outbox.drain(..sent);
    }

    /// True if the thread has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_closed()
    }
}

/// Returns the row of a probe, as text.
pub(super) fn row(is_standby: bool) -> Vec<Option<Vec<u8>>> {
    let line = match is_standby {
        false => "f|0/5000|0/5000|000000010000000000000003||||||1|7/1|off",
        true => "t||||0/5000|0/5000|f|1|streaming|2|7/1|off",
    };
    cells(line)
}

/// Row of a primary on timeline 2.
const PROMOTED: &str = "f|0/6000|0/6000|000000020000000000000003||||||1|7/1|off";

fn cells(line: &str) -> Vec<Option<Vec<u8>>> {
    let columns = line.split('|');
    let columns = columns.map(|text| Some(text.as_bytes().to_vec()).filter(|it| !it.is_empty()));
    columns.collect()
}

/// Writes a reply with these rows.
pub(super) fn rows(out: &mut Vec<u8>, rows: &[Vec<Option<Vec<u8>>>]) {
    let column = Column {
        name: "c",
        type_oid: 25,
        type_len: -1,
    };
    let columns = vec![column; rows.first().map_or(1, Vec::len)];
    encode::row_description(out, &columns).unwrap();
    for row in rows {
        let row: Vec<_> = row.iter().map(Option::as_deref).collect();
        encode::data_row(out, &row).unwrap();
    }
    encode::command_complete(out, b"SELECT 1").unwrap();
    encode::ready_for_query(out, TransactionStatus::Idle).unwrap();
}

/// Writes an error.
pub(super) fn error(out: &mut Vec<u8>, severity: &str, code: &str) {
    let fields = [
        (b'S', severity.as_bytes()),
        (b'V', severity.as_bytes()),
        (b'C', code.as_bytes()),
        (b'M', b"as scripted"),
    ];
    encode::error_response(out, &fields).unwrap();
}
