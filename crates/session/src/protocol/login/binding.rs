//! `server_channel_binding`: decides when our SCRAM login to a server is bound to its TLS connection.
//!
//! The rules are libpq's (PostgreSQL manual 34.1.2, `channel_binding`), read strictly. If binding is required and not
//! possible, the login fails, whichever method the server chose instead (hazard SEC-62, CVE-2025-49146,
//! CVE-2026-54291).

use weir_auth::scram::{ChannelBinding, MECHANISM, MECHANISM_PLUS};

use super::LoginFault;

/// `server_channel_binding`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BindingPolicy {
    /// Never bind.
    Disable,
    /// Bind if the server offers it and its certificate gives a hash to bind to.
    #[default]
    Prefer,
    /// Always bind: a login without channel binding fails, by whatever method.
    Require,
}

/// Transport of a connection to a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Transport {
    /// Not encrypted.
    #[default]
    Plain,
    /// TLS.
    Tls {
        /// The `tls-server-end-point` hash of the server's certificate (RFC 5929 section 4), if there is one.
        end_point: Option<Box<[u8]>>,
    },
}

impl Transport {
    fn end_point(&self) -> Option<&[u8]> {
        match self {
            Self::Plain => None,
            Self::Tls { end_point } => end_point.as_deref(),
        }
    }
}

/// Checks the transport before anything is sent.
pub(super) fn check_transport(
    policy: BindingPolicy,
    transport: &Transport,
) -> Result<(), LoginFault> {
    let why = match (policy, transport) {
        (BindingPolicy::Require, Transport::Plain) => {
            "required, but the connection to the server is not encrypted"
        }
        (BindingPolicy::Require, Transport::Tls { end_point: None }) => {
            "required, but the server's certificate gives no hash to bind to"
        }
        _ => return Ok(()),
    };
    Err(LoginFault::ChannelBinding(why))
}

/// Checks the policy before a password is sent by a method without channel binding.
pub(super) fn check_unbound_method(policy: BindingPolicy) -> Result<(), LoginFault> {
    if policy == BindingPolicy::Require {
        let why = "required, but the server asks for an authentication method without it";
        return Err(LoginFault::ChannelBinding(why));
    }
    Ok(())
}

/// Checks the policy when the server accepts the login.
pub(super) fn check_welcome(policy: BindingPolicy, is_bound: bool) -> Result<(), LoginFault> {
    if policy == BindingPolicy::Require && !is_bound {
        let why = "required, but the server lets us in without it";
        return Err(LoginFault::ChannelBinding(why));
    }
    Ok(())
}

/// Chooses one of the server's mechanisms and the kind of binding.
pub(super) fn choose<'a>(
    policy: BindingPolicy,
    transport: &Transport,
    mechanisms: impl Iterator<Item = &'a [u8]>,
) -> Result<(&'static str, ChannelBinding), LoginFault> {
    let (mut offers_unbound, mut offers_plus) = (false, false);
    for name in mechanisms {
        offers_unbound |= name == MECHANISM.as_bytes();
        offers_plus |= name == MECHANISM_PLUS.as_bytes();
    }
    if offers_plus && *transport == Transport::Plain {
        // libpq also treats this as an attack: the encryption ended before it reached us.
        let why = "the server offers SCRAM-SHA-256-PLUS over a connection that is not encrypted";
        return Err(LoginFault::ChannelBinding(why));
    }
    let end_point = transport
        .end_point()
        .filter(|_| policy != BindingPolicy::Disable);
    match end_point {
        Some(hash) if offers_plus => Ok((MECHANISM_PLUS, ChannelBinding::EndPoint(hash.into()))),
        _ if policy == BindingPolicy::Require => {
            let why = "required, but the server does not offer SCRAM-SHA-256-PLUS";
            Err(LoginFault::ChannelBinding(why))
        }
        _ if !offers_unbound => Err(LoginFault::UnsupportedMechanisms),
        // The server can detect if an attacker removed the stronger mechanism from its list.
        Some(_) => Ok((MECHANISM, ChannelBinding::Unused)),
        None => Ok((MECHANISM, ChannelBinding::None)),
    }
}
