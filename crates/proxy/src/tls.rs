//! TLS of a connection, for the driver and the workers. Tests may replace it by a stand-in without cryptography, which
//! no other build contains.

#[cfg(test)]
mod either;
#[cfg(test)]
pub(crate) mod stub;

#[cfg(test)]
pub(crate) use either::{Advanced, Handshake, Progress, Protection, Session};
#[cfg(not(test))]
pub(crate) use weir_tls::session::{Advanced, Handshake, Progress, Protection, Session};
