//! TLS of a connection, as the driver and the workers have it. In tests a stand-in without cryptography may take its
//! place; a build without tests has no such thing.

#[cfg(test)]
mod either;
#[cfg(test)]
pub(crate) mod stub;

#[cfg(test)]
pub(crate) use either::{Advanced, Handshake, Progress, Protection, Session};
#[cfg(not(test))]
pub(crate) use weir_tls::session::{Advanced, Handshake, Progress, Protection, Session};
