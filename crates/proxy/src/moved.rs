//! A server connection on its way from one worker to another.

use std::sync::Arc;

use weir_pool::Moment;
use weir_session::server::Server;
use weir_stats::Endpoint;

use crate::socket::{Stream, Target};
use crate::tls::Protection;
use crate::transport::Outgoing;

/// All that belongs to the connection. It is free: nothing is owed and nothing is buffered.
pub(crate) struct MovedServer {
    pub(crate) stream: Stream,
    pub(crate) session: Server,
    pub(crate) facts: Facts,
}

/// What is known of a connection from its login on.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) id: u64,
    pub(crate) target: Target,
    /// Our own end of it.
    pub(crate) local: Endpoint,
    pub(crate) pid: u32,
    pub(crate) key: Box<[u8]>,
    pub(crate) connected_at: Moment,
    /// What protects it; a cancel for it gets the same protection (hazard SEC-04).
    pub(crate) tls: Option<Secured>,
}

/// A protected connection to a server.
#[derive(Debug, Clone)]
pub(crate) struct Secured {
    pub(crate) outgoing: Arc<Outgoing>,
    pub(crate) protection: Protection,
}
