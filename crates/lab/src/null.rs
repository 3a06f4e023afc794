//! The null backend: a minimal PostgreSQL server behind a pooler, which answers every query with the same canned
//! result at minimal cost. On a small machine the pooler is then the bottleneck, and not the database.
//!
//! It accepts every login (so it listens on loopback only), has no data, and looks only at the first words of a
//! statement. `BEGIN`, `COMMIT` and `ROLLBACK` change the transaction status; settings are reported as PostgreSQL
//! reports them; `COPY` copies; the queries that poolers send by themselves are answered. All other statements
//! return the canned rows. Unknown statements and portals are errors, as in PostgreSQL. The row limit of Execute
//! and cancel requests are ignored.

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

/// Length of the accept queue; the system may reduce it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Maximum number of accepted connections in the queue of a thread.
const HANDED_OVER_MAX: usize = 1024;

/// Maximum number of threads.
const THREADS_MAX: u32 = 256;

/// Configuration of a null backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NullPlan {
    /// A loopback address and a port; port 0 takes a free one.
    pub listen: String,
    /// Number of threads, 1 to 256. Connections are spread evenly over them.
    pub threads: u32,
    /// Rows of each result, and lines of a COPY.
    pub rows: u64,
    /// Bytes in the one column of a row, and of a line of COPY with its end.
    pub row_bytes: u32,
    /// Certificate and key; with them, TLS is offered.
    pub tls: Option<NullTls>,
}

/// Files for [`NullPlan::tls`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullTls {
    /// PEM file with the certificate and the chain to its CA.
    pub cert_file: PathBuf,
    /// PEM file with the certificate's key.
    pub key_file: PathBuf,
}

impl Default for NullPlan {
    /// Returns a plan with one thread, one row of 100 bytes and a free port.
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

/// Counters of a null backend. Threads publish them once per turn of their loops, shortly before or after an answer
/// is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of open connections.
    pub connected: u64,
    /// Number of sessions that have begun.
    pub logins: u64,
    /// Number of statements that were run.
    pub statements: u64,
    /// Number of transactions with at least one statement of a load, and not only queries of the pooler itself.
    pub transactions: u64,
    /// Bytes of COPY data received from clients.
    pub copied_in_bytes: u64,
}

/// Reason why a null backend does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NullError {
    /// The text is no address, or not one of loopback. Others are refused because every login is accepted.
    #[error("\"{0}\" is not a loopback address with a port, such as 127.0.0.1:5433")]
    Address(String),
    /// The number of threads is out of range.
    #[error("threads is {0}, but has to be from 1 to {THREADS_MAX}")]
    Threads(u32),
    /// A row does not fit into a message.
    #[error("row_bytes is too large: {0}")]
    Row(EncodeError),
    /// The certificate is unusable.
    #[error(transparent)]
    Tls(#[from] weir_tls::error::Error),
    /// The text is not a valid plan.
    #[error("the null backend's plan cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The system refused something.
    #[error("null backend: {0}")]
    Io(#[from] io::Error),
}

/// Line of [`serve`]'s output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Address that the backend listens on.
    Address(SocketAddr),
    /// Counters so far.
    Counts(Counts),
}

/// Runs the null backend as a separate process, so that its CPU time can be told from its caller's. Reads a
/// [`NullPlan`] as JSON from the first line of `input`, and writes [`Message::Address`] as a line of JSON to
/// `output` when it listens. Each further line requests [`Message::Counts`]; the end of the input stops the
/// backend.
///
/// # Errors
/// As [`NullBackend::start`]; or the plan cannot be read, or the output cannot be written.
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

/// Running null backend. Dropping it stops it.
pub struct NullBackend {
    address: SocketAddr,
    common: Arc<Common>,
    wakers: Vec<Arc<Waker>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl NullBackend {
    /// Starts a null backend; it listens when this returns.
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

    /// Returns the address that the backend listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters so far.
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

    /// Stops answering until [`NullBackend::resume`]: a stall, for tests of load generators.
    pub fn pause(&self) {
        self.common.control.pause(true);
    }

    /// Resumes with the requests that have arrived meanwhile.
    pub fn resume(&self) {
        self.common.control.pause(false);
    }
}

impl Drop for NullBackend {
    fn drop(&mut self) {
        self.common.control.stop();
        for waker in &self.wakers {
            // Waking a thread that has ended fails; nothing is lost.
            let _ = waker.wake();
        }
        for thread in self.threads.drain(..) {
            // Clients have seen a thread's failure as closed connections.
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
