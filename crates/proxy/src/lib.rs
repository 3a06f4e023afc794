//! The only crate with sockets: workers, listeners, timers, the event loop.
//!
//! [`start`] opens the listening sockets and starts the workers. The [`Running`] handle stops them, gives them a new
//! configuration, and returns the commands of the console. Each worker is one thread with one event loop that owns its
//! clients and servers. The pure crates below decide what happens on it ([`weir_session`], [`weir_pool`]).
//!
//! **Invariant:** a worker waits in one place only, for all of its sockets. Slow work (key derivation, TLS handshakes,
//! name resolution, directories) is done on helper threads.

pub mod blocking;
mod clock;
pub mod console;
mod diagnosing;
pub mod diagnosis;
mod driver;
mod global;
mod handover;
mod hints;
mod hosts;
pub mod inspect;
mod io;
mod listen;
mod lookups;
mod mailbox;
mod mirrors;
pub mod monitor;
mod moved;
mod neighbours;
mod offload;
mod orders;
mod peering;
mod postponed;
mod resolve;
mod running;
mod securing;
mod settled;
mod sizing;
mod socket;
#[cfg(feature = "debug-spin")]
mod spin;
mod tls;
mod transport;
mod watching;
mod worker;

pub use handover::Stay;
pub use handover::{Link, LinkError, Offer};
pub use io::{driver_for, io_uring_refusal};
pub use listen::{ListenError, Passed, try_listen};
pub use lookups::interfaces;
pub use neighbours::Side;
pub use running::{Running, StartError, Succeeded, start};
pub use settled::{Access, Setup};
pub use transport::{Transport, TransportError};
/// Contents of an auth_file; part of [`Setup`].
pub use weir_auth::userlist::{UserList, UserListError};
pub use worker::explain_route_offline;
