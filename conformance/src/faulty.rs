//! A TCP path to a server that a test can break: it refuses, resets, or hangs.

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::Shutdown;
use std::net::SocketAddrV4;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use socket2::SockRef;

use crate::clock::SOON;
use crate::clock::wait_until;
use crate::tools;

/// Interval at which the listener looks for connections and for changes.
const TURN: Duration = Duration::from_millis(5);

/// Fault of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Connections are accepted and no byte passes, also on the connections that exist.
    Hang,
    /// New connections are accepted and no byte passes on them. Those that exist work.
    HangLogin,
    /// Requests pass, replies do not.
    Mute,
    /// Everything passes.
    None,
    /// Nobody listens, and the connections that exist are closed.
    Refuse,
    /// The connections that exist, and each new one, end with a RST.
    Reset,
}

/// A path from a port of its own to a server on this machine; dropping it closes all connections.
#[derive(Debug)]
pub struct Faulty {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    /// Fault that the listener acts on.
    applied: Fault,
    is_ended: bool,
    /// Both ends of each connection.
    streams: Vec<TcpStream>,
}

impl Faulty {
    /// Opens a path to this port on 127.0.0.1, without a fault.
    ///
    /// # Errors
    /// When no port is free.
    pub fn to(server: u16) -> Result<Self> {
        Self::at(Ipv4Addr::LOCALHOST, tools::free_port()?, server)
    }

    /// Opens a path as [`Faulty::to`], from a port of another loopback address.
    ///
    /// # Errors
    /// When the port is not free there.
    pub fn at(address: Ipv4Addr, port: u16, server: u16) -> Result<Self> {
        let own = SocketAddrV4::new(address, port);
        let listener = listen(own)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                fault: Fault::None,
                applied: Fault::None,
                is_ended: false,
                streams: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        thread::spawn(move || accept_all(&theirs, listener, own, server));
        Ok(Self { port, shared })
    }

    /// Port of the path.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the fault, and returns when it is in force.
    ///
    /// # Errors
    /// When the port cannot be opened again.
    pub fn set(&self, fault: Fault) -> Result<()> {
        self.shared.change(|state| {
            state.fault = fault;
            if matches!(fault, Fault::Refuse | Fault::Reset) {
                state.cut(fault);
            }
        });
        wait_until("the fault of a path", SOON, || {
            Ok(self.shared.lock().applied == fault)
        })
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.is_ended = true;
            state.cut(Fault::Refuse);
        });
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits while a fault holds bytes back; false if the path has ended.
    fn pass(&self, is_held: impl Fn(Fault) -> bool) -> bool {
        let held = |state: &mut State| is_held(state.fault) && !state.is_ended;
        let state = self.changed.wait_while(self.lock(), held);
        !state.unwrap_or_else(PoisonError::into_inner).is_ended
    }
}

impl State {
    /// Ends all connections.
    fn cut(&mut self, fault: Fault) {
        for stream in self.streams.drain(..) {
            if fault == Fault::Reset {
                abort(&stream);
            }
            // A stream that the peer has closed is no error.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

/// Makes the end of a connection a RST.
fn abort(stream: &TcpStream) {
    drop(SockRef::from(stream).set_linger(Some(Duration::ZERO)));
}

fn listen(own: SocketAddrV4) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(own)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts connections until the path ends. A port that cannot be opened is tried again.
fn accept_all(shared: &Arc<Shared>, listener: TcpListener, own: SocketAddrV4, server: u16) {
    let mut listener = Some(listener);
    loop {
        let (fault, is_ended) = {
            let state = shared.lock();
            (state.fault, state.is_ended)
        };
        if is_ended {
            return;
        }
        match (fault, &listener) {
            (Fault::Refuse, _) => listener = None,
            (_, None) => listener = listen(own).ok(),
            (_, Some(_)) => {}
        }
        if listener.is_some() != (fault == Fault::Refuse) {
            shared.lock().applied = fault;
        }
        let Some(Ok((stream, _))) = listener.as_ref().map(TcpListener::accept) else {
            thread::park_timeout(TURN);
            continue;
        };
        if fault == Fault::Reset {
            abort(&stream);
            continue;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || drop(carry(&shared, stream, server)));
    }
}

/// Carries one connection, both ways, to its end.
fn carry(shared: &Arc<Shared>, client: TcpStream, server: u16) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    shared.lock().streams.push(client.try_clone()?);
    if !shared.pass(|fault| matches!(fault, Fault::Hang | Fault::HangLogin)) {
        return Ok(());
    }
    let upstream = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    upstream.set_nodelay(true)?;
    shared.lock().streams.push(upstream.try_clone()?);
    let (back, source) = (client.try_clone()?, upstream.try_clone()?);
    let theirs = Arc::clone(shared);
    let is_mute = |fault| matches!(fault, Fault::Hang | Fault::Mute);
    let way_back = thread::spawn(move || copy(&theirs, source, back, is_mute));
    copy(shared, client, upstream, |fault| fault == Fault::Hang);
    drop(way_back.join());
    Ok(())
}

/// Copies bytes one way until one end closes, then closes the other. `is_held` tells the faults that hold bytes back.
fn copy(shared: &Shared, mut from: TcpStream, mut to: TcpStream, is_held: impl Fn(Fault) -> bool) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let is_open = shared.pass(&is_held);
        let bytes = buffer.get(..length).unwrap_or_default();
        if !is_open || to.write_all(bytes).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Read));
    drop(to.shutdown(Shutdown::Both));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a byte and returns the byte that comes back.
    fn echo(stream: &mut TcpStream) -> io::Result<u8> {
        stream.set_read_timeout(Some(Duration::from_millis(300)))?;
        stream.write_all(b"a")?;
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn connect(path: &Faulty) -> io::Result<TcpStream> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, path.port()))
    }

    #[test]
    fn each_fault_is_the_fault_that_it_claims_to_be() -> Result<()> {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let path = Faulty::to(server.local_addr()?.port())?;
        thread::spawn(move || {
            for stream in server.incoming().flatten() {
                thread::spawn(move || {
                    let mut copy = stream.try_clone().expect("a socket can be cloned");
                    drop(io::copy(&mut &stream, &mut copy));
                });
            }
        });
        let mut first = connect(&path)?;
        assert_eq!(echo(&mut first)?, b'a');

        path.set(Fault::HangLogin)?;
        assert_eq!(echo(&mut first)?, b'a');
        assert!(echo(&mut connect(&path)?).is_err());

        path.set(Fault::Hang)?;
        assert!(echo(&mut first).is_err());
        assert!(echo(&mut connect(&path)?).is_err());
        path.set(Fault::None)?;
        // The byte that was held back, then this one.
        assert_eq!(echo(&mut first)?, b'a');
        first.read_exact(&mut [0])?;

        // The server answers, and the answer does not come.
        path.set(Fault::Mute)?;
        assert!(echo(&mut first).is_err());
        path.set(Fault::None)?;
        first.read_exact(&mut [0])?;

        path.set(Fault::Reset)?;
        let kind = |result: io::Result<u8>| result.map_err(|error| error.kind());
        assert!(echo(&mut first).is_err());
        assert_eq!(
            kind(echo(&mut connect(&path)?)),
            Err(io::ErrorKind::ConnectionReset)
        );

        path.set(Fault::Refuse)?;
        let refused = connect(&path).map_err(|error| error.kind());
        assert_eq!(refused.err(), Some(io::ErrorKind::ConnectionRefused));
        path.set(Fault::None)?;
        assert_eq!(echo(&mut connect(&path)?)?, b'a');
        Ok(())
    }
}
