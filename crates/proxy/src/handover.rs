//! Messages of an online upgrade, from one process of Weir to its successor: sockets, clients with their sessions,
//! cancels.
//!
//! ```text
//! old ──Listener (socket)…, Standing…, Begin (stream for the outcome)► new
//! old ◄──────────────────────────────────────────────────── Ready ── new
//! old ──Client (socket)…───────────────────────────────────────────► new
//! old ◄───────────────── Cancel, then CancelOver ──────────────────► new
//! old ◄───────────────── Order, then OrderOver ────────────────────► new
//! old ──Stay, if some are left after drain_timeout ────────────────► new
//! ```
//!
//! Each message is one packet of a socket pair that only the two processes have: a version, then the message. Its
//! length is bounded, and an unknown packet ends the hand-over. Secrets are sent in clear text; they never leave the
//! machine.

use serde::{Deserialize, Serialize};
use weir_auth::scram::PassThrough;
use weir_auth::secret::ClientKey;
use weir_auth::stored::{ScramVerifier, StoredSecret};
use weir_session::portable::Portable;

use crate::neighbours::FarAsker;
use crate::orders::Order;

mod link;

pub use link::{Link, LinkError, Offer};

/// Version of the packets. Other versions are refused.
const VERSION: u8 = 7;
/// Longest packet, in bytes. A client whose session is longer stays with its process.
const PACKET_MAX: usize = 128 * 1024;

/// Message between the processes of an upgrade.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LinkMessage {
    /// All listeners were sent: start. Carries the stream on which the outcome is reported.
    Begin,
    /// Cancel request for a client that may belong to the other process. `asker` is the connection of the request, at
    /// the sender.
    Cancel {
        pid: u32,
        key: Vec<u8>,
        asker: FarAsker,
    },
    /// Cancel requested by this connection is over.
    CancelOver(FarAsker),
    /// Client, with its socket.
    Client(Box<Moved>),
    /// Listening socket.
    Listener { is_unix: bool, owns_file: bool },
    /// Order of an administrator, which all processes carry out. `OrderOver` with its number is the answer.
    Order(u64, Box<Order>),
    /// Order of the receiver with this number is done, or refused.
    OrderOver(u64),
    /// New process accepts clients.
    Ready,
    /// Order that holds since before the upgrade.
    Standing(Box<Order>),
    /// Clients that stay with the old process, told once all that could move have moved.
    Stay(Stay),
}

/// Clients that stay with the old process of an upgrade until they leave, or until `upgrade_drain_timeout`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stay {
    /// Number of the old process.
    pub pid: u32,
    /// Number of these clients.
    pub clients: usize,
    /// Those with TLS.
    pub with_tls: usize,
}

/// Client with all state that another process needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Moved {
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) remote: (String, u16),
    pub(crate) local: (String, u16),
    pub(crate) remote_pid: u32,
    pub(crate) remote_uid: Option<u32>,
    pub(crate) is_loopback: bool,
    pub(crate) age_us: u64,
    pub(crate) long_key: bool,
    pub(crate) cancel_pid: u32,
    pub(crate) cancel_key: Vec<u8>,
    pub(crate) session: Portable,
    /// Last commits of the client; none if nobody has kept them in mind.
    pub(crate) wrote: Option<Wrote>,
    pub(crate) proofs: Proofs,
    /// Time of sending, by the machine's monotonic clock.
    pub(crate) sent_us: u64,
}

/// Last commits of a client that moves: microseconds since then at the time of sending, none if there was none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wrote {
    pub(crate) any: Option<u64>,
    /// Last commit with `synchronous_commit = off`.
    pub(crate) asynchronous: Option<u64>,
}

/// Keys and secrets that clients of the pool have left for logins to servers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Proofs {
    /// SCRAM client key, and the verifier that it belongs to.
    pub(crate) pass_through: Option<(Vec<u8>, Vec<u8>)>,
    /// Secret, in the format of an auth_file.
    pub(crate) learnt: Option<Vec<u8>>,
}

impl Proofs {
    pub(crate) fn new(pass_through: Option<&PassThrough>, learnt: Option<&StoredSecret>) -> Self {
        let pass_through = pass_through.map(|keys| {
            let key = keys.client_key().expose().to_vec();
            (key, keys.verifier().to_text().expose().to_vec())
        });
        let learnt = match learnt {
            Some(StoredSecret::Md5(hash)) => Some(hash.to_text().to_vec()),
            Some(StoredSecret::Plain(password)) => Some(password.expose().to_vec()),
            Some(StoredSecret::Scram(verifier)) => Some(verifier.to_text().expose().to_vec()),
            Some(StoredSecret::Empty) | None => None,
        };
        Self {
            pass_through,
            learnt,
        }
    }

    pub(crate) fn pass_through(&self) -> Option<PassThrough> {
        let (key, verifier) = self.pass_through.as_ref()?;
        let key = ClientKey::new(key.as_slice().try_into().ok()?);
        PassThrough::new(key, ScramVerifier::parse(verifier)?)
    }

    pub(crate) fn learnt(&self) -> Option<StoredSecret> {
        self.learnt.as_deref().map(StoredSecret::parse)
    }
}

impl LinkMessage {
    /// Returns the packet, or `None` if it would be too long.
    fn encode(&self) -> Option<Vec<u8>> {
        let packet = postcard::to_extend(self, vec![VERSION]).ok()?;
        (packet.len() <= PACKET_MAX).then_some(packet)
    }

    /// True if the message is short enough to be sent.
    pub(crate) fn fits(&self) -> bool {
        self.encode().is_some()
    }

    fn decode(packet: &[u8]) -> Result<Self, LinkError> {
        let (version, message) = packet.split_first().ok_or(LinkError::Ended)?;
        if *version != VERSION {
            return Err(LinkError::Version(*version));
        }
        match postcard::take_from_bytes(message) {
            Ok((message, [])) => Ok(message),
            _ => Err(LinkError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::Place;

    fn cancel(length: usize) -> LinkMessage {
        LinkMessage::Cancel {
            pid: 7,
            key: vec![1; length],
            asker: FarAsker {
                process: 9,
                place: Place {
                    worker: 1,
                    client: 3_u64.into(),
                },
            },
        }
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let packet = cancel(4).encode().unwrap();
        assert!(matches!(
            LinkMessage::decode(&packet),
            Ok(LinkMessage::Cancel { pid: 7, key, asker }) if key == [1; 4] && asker.place.client == 3_u64.into()
        ));
    }

    #[test]
    fn a_process_that_has_ended_is_said_to_have_ended_whatever_it_left_unread() {
        for unread in 0..2 {
            let (link, theirs) = Link::pair().unwrap();
            for _ in 0..unread {
                link.ready().unwrap();
            }
            drop(theirs);
            assert!(matches!(link.wait_ready(), Err(LinkError::Ended)));
            assert!(matches!(link.ready(), Err(LinkError::Ended)));
        }
    }

    #[test]
    fn another_version_more_bytes_and_fewer_are_refused() {
        let packet = cancel(4).encode().unwrap();
        let mut other = packet.clone();
        other[0] = VERSION + 1;
        let newer = VERSION + 1;
        assert!(matches!(
            LinkMessage::decode(&other),
            Err(LinkError::Version(version)) if version == newer
        ));
        let longer = [&packet[..], &[0]].concat();
        assert!(matches!(
            LinkMessage::decode(&longer),
            Err(LinkError::Malformed)
        ));
        for length in 1..packet.len() {
            let cut = LinkMessage::decode(&packet[..length]);
            assert!(matches!(cut, Err(LinkError::Malformed)), "{length}");
        }
        assert!(matches!(LinkMessage::decode(&[]), Err(LinkError::Ended)));
    }

    #[test]
    fn what_clients_left_for_logins_to_servers_arrives() {
        let verifier = ScramVerifier::parse(
            b"SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
              wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
        )
        .unwrap();
        for text in [&b"md5c5baa5b8ddf6c2ea8cf4d0ee3dd0d1d9"[..], b"plain"] {
            let learnt = StoredSecret::parse(text);
            let proofs = Proofs::new(None, Some(&learnt));
            assert_eq!(proofs.learnt.as_deref(), Some(text));
            assert!(proofs.pass_through().is_none());
        }
        let learnt = StoredSecret::Scram(verifier.clone());
        let arrived = Proofs::new(None, Some(&learnt)).learnt();
        assert!(matches!(arrived, Some(StoredSecret::Scram(text)) if text.ct_eq(&verifier)));
        // A key that does not match the verifier is dropped.
        let text = verifier.to_text().expose().to_vec();
        let proofs = Proofs {
            pass_through: Some((vec![7; 32], text)),
            learnt: None,
        };
        assert!(proofs.pass_through().is_none());
    }

    #[test]
    fn nothing_longer_than_the_limit_is_made() {
        assert!(cancel(PACKET_MAX).encode().is_none());
        assert!(cancel(PACKET_MAX - 100).encode().is_some());
    }

    #[test]
    fn a_length_without_its_bytes_allocates_nothing_and_is_refused() {
        // A Cancel whose key claims 2^28 bytes.
        let packet = [VERSION, 1, 7, 0x80, 0x80, 0x80, 0x80, 0x01];
        assert!(matches!(
            LinkMessage::decode(&packet),
            Err(LinkError::Malformed)
        ));
    }
}
