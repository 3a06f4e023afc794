//! Messages to the watching thread.

use std::net::IpAddr;

use weir_auth::kdf::ScramKeys;

use super::spec::ClusterSpec;
use crate::mailbox::channel;
use crate::tls::Advanced;
use crate::worker::ServerId;

/// Maximum number of messages that wait. Helpers send two for each connection at most.
pub(super) const MESSAGES_MAX: usize = 256;

/// Message to the thread: everything that reaches it except through sockets, timers and clusters.
pub(crate) enum Message {
    /// Step of a TLS handshake, computed by a helper.
    Handshake {
        link: ServerId,
        advanced: Box<Advanced>,
    },
    /// Keys derived by a helper.
    Keys { link: ServerId, keys: ScramKeys },
    /// Result of a name look-up.
    Resolved {
        link: ServerId,
        addresses: Result<Vec<IpAddr>, String>,
    },
    /// Configuration has changed: watch these clusters and no others.
    Settings(Vec<ClusterSpec>),
    /// End the thread.
    Stop,
}

/// Sending half of the thread's mailbox.
pub(crate) type WatcherMailbox = channel::Mailbox<Message>;

/// Receiving half of the thread's mailbox.
pub(crate) type WatcherInbox = channel::Inbox<Message>;
