//! The null backend: enough of a PostgreSQL server to stand behind a pooler and answer the same canned result to every
//! query, as cheaply as it can, so that on a small machine the pooler is the bottleneck and not the database.
//!
//! It lets everybody in (so it listens on loopback only), has no data, and looks at the first words of a statement:
//! `BEGIN`, `COMMIT` and `ROLLBACK` move the transaction status, settings are reported as PostgreSQL reports them,
//! `COPY` copies, and what poolers ask for themselves is answered. Everything else gets the canned rows. Statements and
//! portals that do not exist are errors, as in PostgreSQL. A row limit in Execute is not obeyed, and cancels are not.

mod canned;
mod control;
mod parameters;
mod session;
mod sql;
mod worker;

use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::bounded;
use mio::Waker;
use mio::net::TcpListener;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use weir_tls::listener::{Listener, ListenerOptions};
use weir_wire::encode::EncodeError;

use crate::null::canned::Canned;
use crate::null::control::Control;
use crate::null::worker::{Acceptor, Common, Worker, poll};

/// The queue of connections that the system keeps; it may cut it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Connections on their way from the thread that accepts to the one that serves.
const HANDED_OVER_MAX: usize = 1024;

/// The most threads.
const THREADS_MAX: u32 = 256;

/// What a null backend does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NullPlan {
    /// A loopback address and a port; port 0 takes a free one.
    pub listen: String,
    /// Threads, 1 to 256. Connections are spread evenly over them.
    pub threads: u32,
    /// Rows of each result, and lines of a COPY.
    pub rows: u64,
    /// Bytes in the one column of a row, and of a line with its end.
    pub row_bytes: u32,
    /// Offers TLS to those who ask.
    pub tls: Option<NullTls>,
}

/// Files for [`NullPlan::tls`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullTls {
    /// PEM file with the certificate and those that lead to its CA.
    pub cert_file: PathBuf,
    /// PEM file with its key.
    pub key_file: PathBuf,
}

impl Default for NullPlan {
    /// One thread, one row of 100 bytes, a free port.
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            threads: 1,
            rows: 1,
            row_bytes: 100,
            tls: None,
        }
    }
}

/// What a null backend has seen so far. Threads report once per turn of their loops, which is before or just after the
/// answer is on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections that are open.
    pub connected: u64,
    /// Sessions that have begun.
    pub logins: u64,
    /// Statements that were run.
    pub statements: u64,
    /// Transactions in which something was asked that a load asks, and not only what poolers ask.
    pub transactions: u64,
    /// Bytes of COPY data that clients have sent.
    pub copied_in_bytes: u64,
}

/// Why a null backend does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NullError {
    /// No address, or not one of loopback. Everybody may log in, so others are refused.
    #[error("\"{0}\" is not a loopback address with a port, such as 127.0.0.1:5433")]
    Address(String),
    /// Too few or too many threads.
    #[error("threads is {0}, but has to be from 1 to {THREADS_MAX}")]
    Threads(u32),
    /// A row that does not fit into a message.
    #[error("row_bytes is too large: {0}")]
    Row(EncodeError),
    /// The certificate is of no use.
    #[error(transparent)]
    Tls(#[from] weir_tls::error::Error),
    /// No plan, by its text.
    #[error("the null backend's plan cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The system refused something.
    #[error("null backend: {0}")]
    Io(#[from] io::Error),
}

/// One line of [`serve`]'s output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// It listens there.
    Address(SocketAddr),
    /// What it has seen so far.
    Counts(Counts),
}

/// The null backend as a process of its own, so that its CPU time can be told from that of who runs it. Reads a
/// [`NullPlan`] as JSON from the first line of `input`, and writes [`Message::Address`] as a line of JSON to `output`
/// when it listens. Each further line asks for [`Message::Counts`]; at the end of the input it stops.
///
/// # Errors
/// As [`NullBackend::start`]; or the plan cannot be read, or nobody reads the output.
pub fn serve(input: impl BufRead, output: &mut impl Write) -> Result<(), NullError> {
    let mut lines = input.lines();
    let plan = lines.next().transpose()?.unwrap_or_default();
    let backend = NullBackend::start(&serde_json::from_str(&plan)?)?;
    let mut tell = |message: &Message| -> Result<(), NullError> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        output.write_all(line.as_bytes())?;
        Ok(output.flush()?)
    };
    tell(&Message::Address(backend.address()))?;
    for line in lines {
        line?;
        tell(&Message::Counts(backend.counts()))?;
    }
    Ok(())
}

/// A running null backend. It stops when this is dropped.
pub struct NullBackend {
    address: SocketAddr,
    common: Arc<Common>,
    wakers: Vec<Arc<Waker>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl NullBackend {
    /// Starts it; it listens when this returns.
    ///
    /// # Errors
    /// The plan is wrong, or the system refuses something.
    pub fn start(plan: &NullPlan) -> Result<Self, NullError> {
        if !(1..=THREADS_MAX).contains(&plan.threads) {
            return Err(NullError::Threads(plan.threads));
        }
        let (listener, address) = listen(&plan.listen)?;
        let tls = plan.tls.as_ref().map(|files| {
            Listener::build(&ListenerOptions {
                cert_file: Some(files.cert_file.clone()),
                key_file: Some(files.key_file.clone()),
                ..ListenerOptions::default()
            })
        });
        let count = plan.threads as usize;
        let common = Arc::new(Common {
            canned: Canned::new(plan.rows, plan.row_bytes as usize).map_err(NullError::Row)?,
            tls: tls.transpose()?.map(|listener| listener.config),
            control: Control::new(count),
        });
        let mut parts = Vec::new();
        let mut queues = Vec::new();
        for _ in 0..count {
            let (poll, waker) = poll()?;
            let (sender, receiver) = bounded(HANDED_OVER_MAX);
            queues.push((sender, waker));
            parts.push((poll, receiver));
        }
        let mut backend = Self {
            address,
            wakers: queues.iter().map(|(_, waker)| waker.clone()).collect(),
            common,
            threads: Vec::new(),
        };
        let mut acceptor = Some(Acceptor {
            listener,
            threads: queues,
            next: 0,
        });
        for (number, (poll, accepted)) in parts.into_iter().enumerate() {
            let common = Arc::clone(&backend.common);
            let worker = Worker::new(common, number, poll, accepted, acceptor.take())?;
            let thread = thread::Builder::new().name(format!("null-{number}"));
            backend.threads.push(thread.spawn(move || worker.run())?);
        }
        Ok(backend)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has seen so far.
    pub fn counts(&self) -> Counts {
        let control = &self.common.control;
        Counts {
            connected: control.sum(|one| &one.connected),
            logins: control.sum(|one| &one.logins),
            statements: control.sum(|one| &one.statements),
            transactions: control.sum(|one| &one.transactions),
            copied_in_bytes: control.sum(|one| &one.copied_in),
        }
    }

    /// Stops answering until [`NullBackend::resume`]: a stall, for tests of those who measure.
    pub fn pause(&self) {
        self.common.control.pause(true);
    }

    /// Goes on with whatever has come in the meantime.
    pub fn resume(&self) {
        self.common.control.pause(false);
    }
}

impl Drop for NullBackend {
    fn drop(&mut self) {
        self.common.control.stop();
        for waker in &self.wakers {
            // A thread that is gone needs no waking.
            let _ = waker.wake();
        }
        for thread in self.threads.drain(..) {
            // Its failure was seen as connections that ended.
            let _ = thread.join();
        }
    }
}

fn listen(text: &str) -> Result<(TcpListener, SocketAddr), NullError> {
    let wrong = || NullError::Address(text.to_owned());
    let mut found = text.to_socket_addrs().map_err(|_| wrong())?;
    let address = found.find(|address| address.ip().is_loopback());
    let address = address.ok_or_else(wrong)?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from_std(socket.into());
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_may_log_in_so_it_listens_on_loopback_only() {
        for listen in ["0.0.0.0:0", "127.0.0.1", "nowhere.invalid:1"] {
            let plan = NullPlan {
                listen: listen.to_owned(),
                ..NullPlan::default()
            };
            let refused = NullBackend::start(&plan).err().unwrap();
            assert!(matches!(refused, NullError::Address(_)), "{refused}");
        }
    }

    #[test]
    fn a_process_of_its_own_is_asked_by_lines() {
        let mut output = Vec::new();
        serve(&b"{\"rows\": 3}\n\n"[..], &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let read = |line| serde_json::from_str::<Message>(line).unwrap();
        let told: Vec<Message> = text.lines().map(read).collect();
        let [Message::Address(address), counts] = told.as_slice() else {
            panic!("{text}");
        };
        assert!(address.ip().is_loopback() && address.port() > 0);
        assert_eq!(*counts, Message::Counts(Counts::default()));
        let wrong = serve(&b"{\"row\": 3}"[..], &mut Vec::new());
        assert!(matches!(wrong, Err(NullError::Json(_))));
    }
}
