//! A name server of a test, whose answers change, stay away or fail.
//!
//! It listens on port 53 of an address of loopback, and a process that is started by [`NameServer::outer`] asks it alone: in
//! a mount namespace of its own, `/etc/resolv.conf` names this server. Both need root.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use crate::TempDir;

/// Longest time from the end of the server to that of its thread.
const LOOK: Duration = Duration::from_millis(50);
/// Length of the head of each message (RFC 1035, 4.1.1).
const HEAD: usize = 12;
/// Question for an IPv4 address.
const TYPE_A: [u8; 2] = [0, 1];
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

/// Answer to all questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// The address of the name, for no time to keep it.
    Answers,
    /// None at all.
    Silent,
    /// SERVFAIL.
    Fails,
}

#[derive(Debug)]
struct Zone {
    mood: Mood,
    addresses: HashMap<String, Ipv4Addr>,
}

/// A running name server; dropping it ends it.
#[derive(Debug)]
pub struct NameServer {
    zone: Arc<Mutex<Zone>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    resolv_conf: PathBuf,
    _directory: TempDir,
}

impl NameServer {
    /// Starts a server that knows no name.
    ///
    /// # Errors
    /// When the port cannot be opened.
    pub fn start() -> Result<Self> {
        let [_, _, high, low] = process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 53, high, low);
        let socket = UdpSocket::bind((address, 53))
            .with_context(|| format!("port 53 of {address} needs root"))?;
        socket.set_read_timeout(Some(LOOK))?;
        let directory = TempDir::new()?;
        let resolv_conf = directory.write("resolv.conf", &format!("nameserver {address}\n"))?;
        let zone = Arc::new(Mutex::new(Zone {
            mood: Mood::Answers,
            addresses: HashMap::new(),
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, ends) = (Arc::clone(&zone), Arc::clone(&stop));
        Ok(Self {
            zone,
            stop,
            thread: Some(thread::spawn(move || serve(&socket, &theirs, &ends))),
            resolv_conf,
            _directory: directory,
        })
    }

    /// Gives a name an address.
    pub fn set(&self, name: &str, address: Ipv4Addr) {
        let mut zone = self.zone.lock().unwrap_or_else(PoisonError::into_inner);
        zone.addresses.insert(name.to_owned(), address);
    }

    /// Sets the answer to all questions.
    pub fn turn(&self, mood: Mood) {
        self.zone
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .mood = mood;
    }

    /// Command that runs another one, which asks this server only.
    #[must_use]
    pub fn outer(&self) -> Vec<String> {
        let script = format!(
            "mount --bind {} /etc/resolv.conf && exec \"$@\"",
            self.resolv_conf.display()
        );
        ["unshare", "-m", "sh", "-c", &script, "sh"]
            .map(str::to_owned)
            .to_vec()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn serve(socket: &UdpSocket, zone: &Mutex<Zone>, stop: &AtomicBool) {
    let mut buffer = [0; 512];
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let zone = zone.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = buffer.get(..length).and_then(|query| zone.reply(query));
        drop(zone);
        if let Some(reply) = reply {
            // A lost answer is asked for again.
            drop(socket.send_to(&reply, from));
        }
    }
}

impl Zone {
    /// Answer to a query of one question; none if there is to be none.
    fn reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, question) = question(query.get(HEAD..)?)?;
        let known = self.addresses.get(&name);
        let code = match (self.mood, known) {
            (Mood::Silent, _) => return None,
            (Mood::Fails, _) => SERVER_FAILURE,
            (Mood::Answers, None) => NO_SUCH_NAME,
            (Mood::Answers, Some(_)) => 0,
        };
        let asks_address = question.get(question.len() - 4..)? == [TYPE_A, [0, 1]].concat();
        let answer = known.filter(|_| code == 0 && asks_address);
        let mut reply = query.get(..2)?.to_vec();
        // A reply, recursion desired and available; one question.
        reply.extend([0x81, 0x80 | code, 0, 1, 0, u8::from(answer.is_some())]);
        reply.extend([0, 0, 0, 0]);
        reply.extend(question);
        if let Some(address) = answer {
            // Name of the question, class IN, time to live 0, four bytes.
            reply.extend([0xC0, 0x0C, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
            reply.extend(address.octets());
        }
        Some(reply)
    }
}

/// Name of a question, and the bytes of the question.
fn question(bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut labels = Vec::new();
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = bytes.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
    // Type and class.
    Some((labels.join("."), bytes.get(..at + 4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Query for `db.test`, of this type.
    fn query(kind: u8) -> Vec<u8> {
        let head = [7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let question = [b"\x02db\x04test\x00".as_slice(), &[0, kind, 0, 1]].concat();
        [head.as_slice(), &question].concat()
    }

    #[test]
    fn a_name_has_its_address_and_no_other_kind() {
        let mut zone = Zone {
            mood: Mood::Answers,
            addresses: HashMap::from([("db.test".to_owned(), Ipv4Addr::new(127, 0, 0, 11))]),
        };
        let reply = zone.reply(&query(1)).unwrap_or_default();
        assert!(reply.starts_with(&[7, 9, 0x81, 0x80, 0, 1, 0, 1]));
        assert!(reply.ends_with(&[0, 4, 127, 0, 0, 11]));
        let reply = zone.reply(&query(28)).unwrap_or_default();
        assert!(reply.starts_with(&[7, 9, 0x81, 0x80, 0, 1, 0, 0]));
        zone.mood = Mood::Fails;
        assert_eq!(zone.reply(&query(1)).unwrap_or_default()[3], 0x82);
        zone.mood = Mood::Silent;
        assert_eq!(zone.reply(&query(1)), None);
    }
}
