//! A scripted PostgreSQL server: it says what a test wants, well formed or not, and records what it hears.
//!
//! Each accepted connection runs the test's closure on a thread of its own. [`Conversation::serve`] is a small honest
//! server for the parts that are not what the test is about: it echoes a query's text as its only row.

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

/// How long a conversation waits for the pooler's next byte.
const PATIENCE: Duration = Duration::from_secs(60);
/// The second half of the version word that marks a `CancelRequest`.
const CANCEL_CODE: [u8; 4] = 80_877_102_i32.to_be_bytes();
const SSL_CODE: [u8; 4] = 80_877_103_u32.to_be_bytes();

/// A listening server; dropping it ends the listening and every conversation.
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
    /// How many of the bytes heard came before TLS; `None` while there is none.
    clear: Option<usize>,
}

/// One connection from the pooler, in the hands of the test's script.
#[derive(Debug)]
pub struct Conversation {
    /// The number of the connection, from 0.
    pub index: usize,
    stream: Arc<TcpStream>,
    shared: Arc<Shared>,
    status: u8,
    is_reset: bool,
    tls: Option<Box<ServerConnection>>,
}

impl Scripted {
    /// Listens on a loopback port; `script` runs for each connection. An error it returns is kept for [`Self::faults`].
    ///
    /// # Errors
    /// When no port can be had.
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

    /// A server that logs everybody in and answers everything.
    ///
    /// # Errors
    /// As [`Scripted::start`].
    pub fn honest() -> Result<Self> {
        Self::start(|conversation| {
            conversation.login()?;
            conversation.serve()
        })
    }

    /// As [`Scripted::honest`], inside TLS only: whoever does not ask for it first is turned away.
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

    /// Where it listens, on 127.0.0.1.
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

    /// All bytes heard on connection `index`, its start-up packet among them.
    #[must_use]
    pub fn heard(&self, index: usize) -> Vec<u8> {
        let records = self.shared.records();
        records
            .get(index)
            .map(|record| record.heard.clone())
            .unwrap_or_default()
    }

    /// Bytes heard on all connections, one after another.
    #[must_use]
    pub fn heard_all(&self) -> Vec<u8> {
        let records = self.shared.records();
        records
            .iter()
            .flat_map(|record| record.heard.clone())
            .collect()
    }

    /// What was heard on connection `index` before TLS, and what inside it; `None` when there was no TLS.
    #[must_use]
    pub fn heard_in_tls(&self, index: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let records = self.shared.records();
        let record = records.get(index)?;
        let (clear, inside) = record.heard.split_at_checked(record.clear?)?;
        Some((clear.to_vec(), inside.to_vec()))
    }

    /// How often these bytes were heard.
    #[must_use]
    pub fn count(&self, needle: &[u8]) -> usize {
        let heard = self.heard_all();
        heard
            .windows(needle.len())
            .filter(|window| *window == needle)
            .count()
    }

    /// What the scripts failed with so far.
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
        // Neither waits for the last handle to go: a process that another test starts at this moment has one, too, until
        // it executes its program. Both are done before anybody is told of the end.
        if self.is_reset {
            // The pooler may have left first.
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

    /// Writes bytes as they are.
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

    /// Reads `SSLRequest`, answers `S`, and does the handshake; everything after it goes through TLS.
    ///
    /// # Errors
    /// When something else is asked for, or the handshake fails.
    pub fn accept_tls(&mut self, config: &Arc<ServerConfig>) -> Result<()> {
        let asked = self.read(8)?;
        ensure!(asked == frontend::ssl_request(), "no SSLRequest: {asked:?}");
        self.send(b"S")?;
        self.begin_tls(config)
    }

    /// The handshake, whatever was said before it.
    ///
    /// # Errors
    /// When it fails.
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

    /// The server's side of TLS, if it has begun.
    #[must_use]
    pub fn tls(&mut self) -> Option<&mut ServerConnection> {
        self.tls.as_deref_mut()
    }

    /// Reads exactly so many bytes and records them.
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
    /// When it does not close in time.
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

    /// Reads the start-up packet; returns it without its length. A request for TLS before it is told that there is none.
    /// A `CancelRequest` ends the conversation here.
    ///
    /// # Errors
    /// When it is a `CancelRequest`, or does not come.
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

    /// Reads the start-up packet and logs the pooler in by trust.
    ///
    /// # Errors
    /// As [`Conversation::startup`].
    pub fn login(&mut self) -> Result<()> {
        self.startup()?;
        self.welcome()
    }

    /// What follows a successful authentication, from `AuthenticationOk` to `ReadyForQuery`.
    ///
    /// # Errors
    /// When the pooler has closed.
    pub fn welcome(&mut self) -> Result<()> {
        let hello = [authentication_ok(), parameters(), key_data(self.index)].concat();
        self.send(&hello)?;
        self.ready()
    }

    /// `ReadyForQuery`.
    ///
    /// # Errors
    /// When the pooler has closed.
    pub fn ready(&mut self) -> Result<()> {
        Ok(self.send(&message(b'Z', &[self.status]))?)
    }

    /// Answers everything until the pooler says good-bye or closes.
    ///
    /// # Errors
    /// When the pooler closes without a word, or sends what no client may send.
    pub fn serve(&mut self) -> Result<()> {
        self.serve_until(|_| false).map(drop)
    }

    /// Answers everything up to a message for which `stop` holds, and returns that one unanswered.
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

    /// The honest answer to one message.
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

    /// Makes the end of the script a RST: no FIN, nothing flushed.
    pub fn reset(&mut self) {
        self.is_reset = true;
    }
}

/// `AuthenticationOk`.
#[must_use]
pub fn authentication_ok() -> Vec<u8> {
    message(b'R', &[0; 4])
}

/// The parameters that a pooler needs to know.
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

/// `ErrorResponse` of the given fields, ended as it should be.
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
