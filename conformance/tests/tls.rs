//! TLS on both sides carries the protocol unchanged: the same bytes, the same ends, the same tools.
//!
//! The steps run against any target: `CONFORMANCE_TARGET=direct` validates them on PostgreSQL's own
//! TLS.

#[path = "tls/certificates.rs"]
mod certificates;
#[path = "poison/client.rs"]
mod client;
#[path = "tls/data_plane.rs"]
mod data_plane;
#[path = "tls/ends.rs"]
mod ends;
#[path = "tls/logins.rs"]
mod logins;
#[path = "tls/options.rs"]
mod options;
#[path = "tls/poison.rs"]
mod poison;
#[path = "tls/published.rs"]
mod published;
#[path = "tls/support.rs"]
mod support;
#[path = "tls/tools.rs"]
mod tools;
