//! Hazards of TLS and of logging in, one test each, named by the hazard's number.
//!
//! Steps that apply to PostgreSQL as well run against any target (`CONFORMANCE_TARGET=direct` validates them); the
//! others are about Weir's binary.

#[path = "tls_hazards/access.rs"]
mod access;
#[path = "tls_hazards/alpn.rs"]
mod alpn;
#[path = "tls_hazards/auth_query.rs"]
mod auth_query;
#[path = "tls_hazards/binding.rs"]
mod binding;
#[path = "tls_hazards/certificates.rs"]
mod certificates;
#[path = "tls_hazards/injection.rs"]
mod injection;
#[path = "tls_hazards/one_way_out.rs"]
mod one_way_out;
#[path = "tls_hazards/repeated.rs"]
mod repeated;
#[path = "tls_hazards/secrets.rs"]
mod secrets;
#[path = "tls_hazards/support.rs"]
mod support;
#[path = "tls_hazards/throttling.rs"]
mod throttling;
