//! A scripted PostgreSQL server: it sends what a test wants, well formed or not, and records what it receives.
//!
//! Each accepted connection runs the test's closure on a thread of its own. [`Conversation::serve`] is a small
//! conforming server for the parts that the test is not about: it returns a query's text as its only row.

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use rustix::net::connect_unspec;
use rustls::ServerConfig;
use rustls::ServerConnection;

use crate::frontend;
use crate::frontend::message;
use crate::raw::Message;

/// Time limit for the pooler's next byte.
const PATIENCE: Duration = Duration::from_secs(60);
/// Second half of the version field that marks a `CancelRequest`.
const CANCEL_CODE: [u8; 4] = 80_877_102_i32.to_be_bytes();
const SSL_CODE: [u8; 4] = 80_877_103_u32.to_be_bytes();

/// A listening server; dropping it stops listening and ends every conversation.
#[derive(Debug)]
pub struct Scripted {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    conversations: Mutex<Vec<Record>>,
}

#[derive(Debug)]
struct Record {
    heard: Vec<u8>,
    stream: Option<Arc<TcpStream>>,
    ended: bool,
    refused: Option<String>,
    /// Number of received bytes that came before TLS; `None` without TLS.
    clear: Option<usize>,
}

/// A connection from the pooler, controlled by the test's script.
#[derive(Debug)]
pub struct Conversation {
    /// Number of the connection, from 0.
    pub index: usize,
    stream: Arc<TcpStream>,
    shared: Arc<Shared>,
    status: u8,
    is_reset: bool,
    tls: Option<Box<ServerConnection>>,
}

impl Scripted {
    /// Listens on a loopback port; `script` runs for each connection. [`Self::faults`] returns its errors.
    ///
    /// # Errors
    /// When no port is available.
    pub fn start(
        script: impl Fn(&mut Conversation) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let (script, ours) = (Arc::new(script), Arc::clone(&shared));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ours.stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (script, shared) = (Arc::clone(&script), Arc::clone(&ours));
                let Ok(mut conversation) = Conversation::begin(stream, shared) else {
                    continue;
                };
                thread::spawn(move || {
                    let outcome = script(&mut conversation);
                    conversation.end(outcome);
                });
            }
        });
        Ok(Self { port, shared })
    }

    /// Starts a server that accepts every login and answers every request.
    ///
    /// # Errors
    /// As [`Scripted::start`].
    pub fn honest() -> Result<Self> {
        Self::start(|conversation| {
            conversation.login()?;
            conversation.serve()
        })
    }

    /// Starts a server like [`Scripted::honest`] that accepts only TLS: connections without an SSLRequest are
    /// refused.
    ///
    /// # Errors
    /// As [`Scripted::start`].
    pub fn honest_tls(config: Arc<ServerConfig>) -> Result<Self> {
        Self::start(move |conversation| {
            conversation.accept_tls(&config)?;
            conversation.login()?;
            conversation.serve()
        })
    }

    /// Port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.records().len()
    }

    /// Connections whose conversation has not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        let records = self.shared.records();
        records.iter().filter(|record| !record.ended).count()
    }

    /// All bytes received on connection `index`, including its start-up packet.
    #[must_use]
    pub fn heard(&self, index: usize) -> Vec<u8> {
        let records = self.shared.records();
        records
            .get(index)
            .map(|record| record.heard.clone())
            .unwrap_or_default()
    }

    /// Bytes received on all connections, one after another.
    #[must_use]
    pub fn heard_all(&self) -> Vec<u8> {
        let records = self.shared.records();
        records
            .iter()
            .flat_map(|record| record.heard.clone())
            .collect()
    }

    /// Bytes received on connection `index` before TLS and inside it; `None` without TLS.
    #[must_use]
    pub fn heard_in_tls(&self, index: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let records = self.shared.records();
        let record = records.get(index)?;
        let (clear, inside) = record.heard.split_at_checked(record.clear?)?;
        Some((clear.to_vec(), inside.to_vec()))
    }

    /// Number of times these bytes were received.
    #[must_use]
    pub fn count(&self, needle: &[u8]) -> usize {
        let heard = self.heard_all();
        heard
            .windows(needle.len())
            .filter(|window| *window == needle)
            .count()
    }

    /// Errors of the scripts so far.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let records = self.shared.records();
        records
            .iter()
            .filter_map(|record| record.refused.clone())
            .collect()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        for stream in self
            .shared
            .records()
            .iter()
            .flat_map(|record| &record.stream)
        {
            drop(stream.shutdown(Shutdown::Both));
        }
        // Wakes the accepting thread, so that it sees the flag.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        self.conversations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Conversation {
    fn begin(stream: TcpStream, shared: Arc<Shared>) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let stream = Arc::new(stream);
        let mut records = shared.records();
        let index = records.len();
        records.push(Record {
            heard: Vec::new(),
            stream: Some(Arc::clone(&stream)),
            ended: false,
            refused: None,
            clear: None,
        });
        drop(records);
        Ok(Self {
            index,
            stream,
            shared,
            status: b'I',
            is_reset: false,
            tls: None,
        })
    }

    fn end(self, outcome: Result<()>) {
        // Neither waits for the last handle to be closed: a process that another test starts at this moment has one,
        // too, until it executes its program. Both take effect before the end is reported.
        if self.is_reset {
            // The pooler may have closed first.
            let _ = connect_unspec(&*self.stream);
        } else {
            drop(self.stream.shutdown(Shutdown::Both));
        }
        if let Some(record) = self.shared.records().get_mut(self.index) {
            record.stream = None;
            record.ended = true;
            record.refused = outcome.err().map(|error| format!("{error:#}"));
        }
    }

    /// Writes bytes unchanged.
    ///
    /// # Errors
    /// When the pooler has closed or does not read.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut socket = &*self.stream;
        let Some(tls) = &mut self.tls else {
            return socket.write_all(bytes);
        };
        let mut stream = rustls::Stream::new(&mut **tls, &mut socket);
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Reads `SSLRequest`, answers `S`, and does the handshake; everything after that goes through TLS.
    ///
    /// # Errors
    /// When another request arrives, or the handshake fails.
    pub fn accept_tls(&mut self, config: &Arc<ServerConfig>) -> Result<()> {
        let asked = self.read(8)?;
        ensure!(asked == frontend::ssl_request(), "no SSLRequest: {asked:?}");
        self.send(b"S")?;
        self.begin_tls(config)
    }

    /// Does the TLS handshake, regardless of earlier messages.
    ///
    /// # Errors
    /// When the handshake fails.
    pub fn begin_tls(&mut self, config: &Arc<ServerConfig>) -> Result<()> {
        let mut tls = Box::new(ServerConnection::new(Arc::clone(config))?);
        let mut socket = &*self.stream;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).context("handshake")?;
        }
        self.tls = Some(tls);
        if let Some(record) = self.shared.records().get_mut(self.index) {
            record.clear = Some(record.heard.len());
        }
        Ok(())
    }

    /// Server side of TLS, if it has begun.
    #[must_use]
    pub fn tls(&mut self) -> Option<&mut ServerConnection> {
        self.tls.as_deref_mut()
    }

    /// Reads exactly `length` bytes and records them.
    ///
    /// # Errors
    /// At the end of the stream; what came before it is recorded.
    pub fn read(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            let rest = bytes.get_mut(filled..).unwrap_or_default();
            let mut socket = &*self.stream;
            let got = match &mut self.tls {
                Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).read(rest)?,
                None => socket.read(rest)?,
            };
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(record) = self.shared.records().get_mut(self.index) {
                let new = bytes.get(filled..filled + got).unwrap_or_default();
                record.heard.extend_from_slice(new);
            }
            filled += got;
        }
        Ok(bytes)
    }

    /// Reads and records until the pooler closes.
    ///
    /// # Errors
    /// When the pooler does not close in time.
    pub fn read_to_close(&mut self) -> io::Result<()> {
        loop {
            match self.read(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => return Ok(()),
            }
        }
    }

    /// Reads one typed message.
    ///
    /// # Errors
    /// At the end of the stream, and for a length below 4.
    pub fn read_message(&mut self) -> Result<Message> {
        let head = self.read(5)?;
        let (tag, length) = head.split_first().context("five bytes were read")?;
        let length = u32::from_be_bytes(length.try_into()?);
        let length = usize::try_from(length)?
            .checked_sub(4)
            .context("a length below 4")?;
        let body = self.read(length)?;
        Ok(Message { tag: *tag, body })
    }

    /// Reads the start-up packet; returns it without its length. An earlier request for TLS is refused. A
    /// `CancelRequest` ends the conversation here.
    ///
    /// # Errors
    /// When a `CancelRequest` arrives, or nothing.
    pub fn startup(&mut self) -> Result<Vec<u8>> {
        let length = self.read(4)?;
        let length = u32::from_be_bytes(length.as_slice().try_into()?);
        let packet = self.read(usize::try_from(length)?.saturating_sub(4))?;
        if packet.starts_with(&CANCEL_CODE) {
            bail!("a cancel request");
        }
        if packet == SSL_CODE {
            self.send(b"N")?;
            return self.startup();
        }
        Ok(packet)
    }

    /// Reads the start-up packet and logs the pooler in with method trust.
    ///
    /// # Errors
    /// As [`Conversation::startup`].
    pub fn login(&mut self) -> Result<()> {
        self.startup()?;
        self.welcome()
    }

    /// Sends the messages of a successful login, from `AuthenticationOk` to `ReadyForQuery`.
    ///
    /// # Errors
    /// When the pooler has closed.
    pub fn welcome(&mut self) -> Result<()> {
        let hello = [authentication_ok(), parameters(), key_data(self.index)].concat();
        self.send(&hello)?;
        self.ready()
    }

    /// Sends `ReadyForQuery`.
    ///
    /// # Errors
    /// When the pooler has closed.
    pub fn ready(&mut self) -> Result<()> {
        Ok(self.send(&message(b'Z', &[self.status]))?)
    }

    /// Answers all messages until the pooler sends Terminate or closes.
    ///
    /// # Errors
    /// When the pooler closes without Terminate, or sends a message that no client may send.
    pub fn serve(&mut self) -> Result<()> {
        self.serve_until(|_| false).map(drop)
    }

    /// Answers messages up to the first for which `stop` holds, and returns that one unanswered.
    ///
    /// # Errors
    /// As [`Conversation::serve`].
    pub fn serve_until(&mut self, stop: impl Fn(&Message) -> bool) -> Result<Option<Message>> {
        loop {
            let request = self.read_message()?;
            if stop(&request) {
                return Ok(Some(request));
            }
            if request.tag == b'X' {
                return Ok(None);
            }
            self.answer(&request)?;
        }
    }

    /// Sends the conforming answer to one message.
    ///
    /// # Errors
    /// When the pooler has closed, or for a message type that no client sends.
    pub fn answer(&mut self, request: &Message) -> Result<()> {
        let reply = match request.tag {
            b'Q' => {
                let reply = self.run(&request.body);
                let copying = reply.first() == Some(&b'G');
                self.send(&reply)?;
                return if copying { Ok(()) } else { self.ready() };
            }
            b'P' => message(b'1', &[]),
            b'B' => message(b'2', &[]),
            b'D' => message(b'n', &[]),
            b'C' => message(b'3', &[]),
            b'E' => [row(b"executed"), complete("SELECT 1")].concat(),
            b'S' => return self.ready(),
            b'H' | b'd' => return Ok(()),
            b'c' | b'f' => {
                self.send(&complete("COPY 0"))?;
                return self.ready();
            }
            b'F' => {
                self.send(&message(b'V', &[0xff; 4]))?;
                return self.ready();
            }
            other => bail!("message type {other} from the pooler"),
        };
        Ok(self.send(&reply)?)
    }

    fn run(&mut self, body: &[u8]) -> Vec<u8> {
        let text = body.strip_suffix(&[0]).unwrap_or(body);
        let word = text
            .split(|byte| !byte.is_ascii_alphabetic())
            .next()
            .unwrap_or_default();
        match word.to_ascii_lowercase().as_slice() {
            b"" => message(b'I', &[]),
            b"begin" => {
                self.status = b'T';
                complete("BEGIN")
            }
            b"commit" | b"rollback" => {
                self.status = b'I';
                complete("ROLLBACK")
            }
            b"copy" => message(b'G', &[0, 0, 0]),
            b"select" => [row_description(), row(text), complete("SELECT 1")].concat(),
            _ => complete("SET"),
        }
    }

    /// Makes the script end with a RST: no FIN, nothing flushed.
    pub fn reset(&mut self) {
        self.is_reset = true;
    }
}

/// `AuthenticationOk`.
#[must_use]
pub fn authentication_ok() -> Vec<u8> {
    message(b'R', &[0; 4])
}

/// Parameters that a pooler needs to know.
#[must_use]
pub fn parameters() -> Vec<u8> {
    let pairs = [
        "server_version\x0015.0\0",
        "client_encoding\0UTF8\0",
        "standard_conforming_strings\0on\0",
    ];
    pairs
        .iter()
        .flat_map(|pair| message(b'S', pair.as_bytes()))
        .collect()
}

/// `BackendKeyData` of a connection.
#[must_use]
pub fn key_data(index: usize) -> Vec<u8> {
    let pid = u32::try_from(index).unwrap_or(0) + 1;
    message(b'K', &[pid.to_be_bytes(), [0, 0, 0, 7]].concat())
}

/// `RowDescription` of one text column.
#[must_use]
pub fn row_description() -> Vec<u8> {
    let mut body = b"\0\x01x\0".to_vec();
    body.extend([0; 6]);
    body.extend(25_i32.to_be_bytes());
    body.extend((-1_i16).to_be_bytes());
    body.extend([0; 6]);
    message(b'T', &body)
}

/// `DataRow` of one column.
#[must_use]
pub fn row(value: &[u8]) -> Vec<u8> {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let mut body = b"\0\x01".to_vec();
    body.extend(length.to_be_bytes());
    body.extend(value);
    message(b'D', &body)
}

/// `CommandComplete`.
#[must_use]
pub fn complete(tag: &str) -> Vec<u8> {
    message(b'C', format!("{tag}\0").as_bytes())
}

/// `ErrorResponse` with the given fields, correctly terminated.
#[must_use]
pub fn error(fields: &[(u8, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (code, text) in fields {
        body.push(*code);
        body.extend(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    message(b'E', &body)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_reset_does_not_wait_for_others_who_have_the_socket() {
        let (held, holder) = sync_channel(1);
        let server = Scripted::start(move |conversation| {
            held.send(conversation.stream.try_clone()?)?;
            conversation.reset();
            Ok(())
        });
        let server = server.unwrap();
        let mut peer = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let _held = holder.recv().unwrap();
        let seen = peer.read(&mut [0; 1]).unwrap_err();
        assert_eq!(seen.kind(), ErrorKind::ConnectionReset);
    }
}
