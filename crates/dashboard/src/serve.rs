//! The thread that serves the dashboard: accepting, TLS, and the limits on connections.
//!
//! Everything runs on one thread with a low priority. Figures are fetched on two further threads, which block. A
//! connection has one permit; a stream exchanges it for a permit of its own kind, so that streams cannot keep pages out.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use crate::app;
use crate::desk::{Desk, lock};
use crate::source::Source;

/// Maximum number of connections without a stream. Further ones wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 16;
/// Maximum length of a request's head.
pub const HEAD_MAX: usize = 8 * 1024;
/// Time to send a request's head, and for a TLS handshake.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Time after which a connection without a stream takes no further request.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
/// Time for the last answer of a connection.
const LAST_ANSWER_TIME: Duration = Duration::from_secs(10);
/// Time after which a peer that acknowledges nothing counts as dead.
const PEER_TIME: Duration = Duration::from_secs(30);
/// Pause after a failed accept: the system lacks a resource, and an immediate retry would not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Niceness of all threads of the dashboard (nice(2), per thread on Linux, inherited by threads that it starts).
const NICENESS: i32 = 10;
/// Threads for calls that block.
const BLOCKING_THREADS: usize = 2;

/// Running dashboard.
#[derive(Debug)]
pub struct Dashboard {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Starts the thread that serves these sockets.
///
/// # Errors
/// The system has no threads, descriptors or random bytes left.
pub fn start(listeners: Vec<TcpListener>, source: Arc<dyn Source>) -> io::Result<Dashboard> {
    let desk = Desk::new(source).map_err(io::Error::other)?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("weir-dash-fetch")
        .build()?;
    for listener in &listeners {
        listener.set_nonblocking(true)?;
    }
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("weir-dashboard".to_owned())
        .spawn(move || {
            // Some sandboxes forbid this; the thread then keeps its priority.
            let _ = rustix::process::nice(NICENESS);
            runtime.block_on(serve(listeners, Arc::new(desk), stopped));
            runtime.shutdown_timeout(Duration::from_secs(1));
        })?;
    Ok(Dashboard { stop, thread })
}

impl Dashboard {
    /// Closes the sockets and ends all connections and sessions.
    pub fn stop(self) {
        // The thread ends by itself only if it has panicked.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("dashboard: its thread has ended by a panic");
        }
    }
}

async fn serve(listeners: Vec<TcpListener>, desk: Arc<Desk>, stopped: oneshot::Receiver<()>) {
    let router = app::router(&desk);
    // Each acceptor holds a permit while it waits.
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX + listeners.len()));
    for listener in listeners {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => drop(tokio::spawn(accept(
                listener,
                Arc::clone(&desk),
                router.clone(),
                Arc::clone(&connections),
            ))),
            Err(error) => tracing::error!("dashboard_listen: {error}"),
        }
    }
    // Dropping the handle would be a stop, too.
    let _ = stopped.await;
}

async fn accept(
    listener: tokio::net::TcpListener,
    desk: Arc<Desk>,
    router: Router,
    connections: Arc<Semaphore>,
) {
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, address)) => {
                let (desk, router) = (Arc::clone(&desk), router.clone());
                drop(tokio::spawn(async move {
                    if let Err(error) = converse(stream, address, &desk, router, permit).await {
                        tracing::debug!("dashboard: {address}: {error}");
                    }
                }));
            }
            Err(error) => {
                tracing::warn!("dashboard_listen: accept() failed: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Facts about a connection.
#[derive(Clone)]
pub(crate) struct Connection {
    /// Address of the browser.
    pub(crate) peer: SocketAddr,
    /// Address that the browser has reached.
    pub(crate) reached: SocketAddr,
    /// True with TLS.
    pub(crate) is_secure: bool,
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Connection {
    /// Notes that the connection carries a stream from now on: it makes room for another connection.
    pub(crate) fn becomes_stream(&self) {
        drop(lock(&self.permit).take());
    }

    fn is_stream(&self) -> bool {
        lock(&self.permit).is_none()
    }
}

async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    desk: &Desk,
    router: Router,
    permit: OwnedSemaphorePermit,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let reached = stream.local_addr()?;
    SockRef::from(&stream).set_tcp_user_timeout(Some(PEER_TIME))?;
    stream.set_nodelay(true)?;
    let is_secure = !reached.ip().to_canonical().is_loopback();
    let connection = Connection {
        peer,
        reached,
        is_secure,
        permit: Arc::new(Mutex::new(Some(permit))),
    };
    if !is_secure {
        return exchange(stream, connection, router).await;
    }
    secured(stream, connection, desk, router).await
}

/// Answers the requests of a connection over TLS.
async fn secured(
    stream: TcpStream,
    connection: Connection,
    desk: &Desk,
    router: Router,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let config = desk.source.tls();
    let config = config.ok_or("a reload has removed TLS, which this address needs")?;
    let handshake = TlsAcceptor::from(config).accept(stream);
    exchange(timeout(HEAD_TIME, handshake).await??, connection, router).await
}

/// Answers the requests of a connection.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: Connection,
    router: Router,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let service = TowerToHyperService::new(router.layer(Extension(connection.clone())));
    let mut serving = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut until = Instant::now() + CONNECTION_TIME;
    let mut is_last = false;
    loop {
        tokio::select! {
            served = serving.as_mut() => return Ok(served?),
            () = sleep_until(until) => {}
        }
        if connection.is_stream() {
            until += CONNECTION_TIME;
        } else if is_last {
            return Err("the answer was not read in time".into());
        } else {
            is_last = true;
            serving.as_mut().graceful_shutdown();
            until += LAST_ANSWER_TIME;
        }
    }
}

#[cfg(test)]
mod tests;
