//! TLS without sockets: certificates, settings, handshakes and records, on top of rustls.
