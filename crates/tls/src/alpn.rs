//! Check of the application protocol (ALPN) after a handshake.

/// The name of PostgreSQL's protocol in ALPN, registered with IANA.
pub const POSTGRESQL: &[u8] = b"postgresql";

/// True if a finished handshake may go on, given the protocol that ALPN settled on.
///
/// A direct handshake (no SSLRequest before it) must have agreed on `postgresql`, so that no client of another protocol
/// reaches Weir by mistake or by an attack. After SSLRequest the peer has already shown its protocol, and older peers
/// know no ALPN. The rule is that of PostgreSQL 17: manual section "SSL Session Encryption" of the frontend/backend
/// protocol.
///
/// rustls by itself refuses only a peer that offers other protocols, not one that offers none.
pub fn alpn_is_fine(direct: bool, negotiated: Option<&[u8]>) -> bool {
    match negotiated {
        Some(protocol) => protocol == POSTGRESQL,
        None => !direct,
    }
}
