//! A server connection on its way from one worker to another.

use std::sync::Arc;

use weir_pool::Moment;
use weir_session::server::Server;
use weir_stats::Endpoint;

use crate::socket::{Stream, Target};
use crate::tls::Protection;
use crate::transport::Outgoing;

/// Server connection with its state. The server is free: no reply is owed, and nothing is buffered.
pub(crate) struct MovedServer {
    pub(crate) stream: Stream,
    pub(crate) session: Server,
    pub(crate) facts: Facts,
}

/// Facts about a connection, known since its login.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) id: u64,
    pub(crate) target: Target,
    /// Our own address of the connection.
    pub(crate) local: Endpoint,
    pub(crate) pid: u32,
    pub(crate) key: Box<[u8]>,
    pub(crate) connected_at: Moment,
    /// TLS of the connection. A cancel for it gets the same protection (hazard SEC-04).
    pub(crate) tls: Option<Secured>,
}

/// TLS settings and state of a connection to a server.
#[derive(Debug, Clone)]
pub(crate) struct Secured {
    pub(crate) outgoing: Arc<Outgoing>,
    pub(crate) protection: Protection,
}
