//! A client that wants to log in, and the facts known about it.

use std::net::IpAddr;

/// A client that wants to log in, as seen by the rules.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// The user name of the startup message.
    pub user: &'a str,
    /// The database name of the startup message.
    pub database: &'a str,
    /// Source of the connection.
    pub origin: Origin<'a>,
    /// Protection of the connection.
    pub transport: Transport,
    /// True if it asked for physical replication (`replication=true`). Logical replication (`replication=database`)
    /// counts as an ordinary connection to its database.
    pub physical_replication: bool,
}

/// Source of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// Over TCP.
    Ip {
        /// The client's address. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) counts as the IPv4 address, because a
        /// listener for both families shows IPv4 clients this way.
        address: IpAddr,
        /// The addresses of this machine, for `samehost` and `samenet`; `None` if they could not be listed.
        interfaces: Option<&'a [Interface]>,
    },
    /// Over a Unix socket.
    Unix,
}

/// An address of this machine and the size of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The address.
    pub address: IpAddr,
    /// Number of leading bits of the network's mask, 0 to 32 or 0 to 128; more counts as all.
    pub prefix: u8,
}

/// Protection of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// No encryption.
    Plain,
    /// TLS; the client gave no certificate, or none that was verified.
    Tls,
    /// TLS with a client certificate that was verified against the configured authorities.
    TlsVerified,
}

impl Transport {
    /// True for both variants with TLS.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::TlsVerified)
    }
}

/// Information that costs a look-up; requested only when a decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The name of the source address. A reverse look-up gives the name, and a look-up of that name must give the
    /// address back (PostgreSQL manual 21.1, "host name").
    HostName,
    /// The roles of which the user is a direct or indirect member; see [`ROLES_QUERY`].
    Roles,
}

/// Query for the roles of the user `$1`, in the form that [`Facts::roles`] wants.
///
/// The result includes the user itself if it exists, and does not count a superuser as a member of every role.
/// PostgreSQL's own `+role` and `samerole` do the same.
pub const ROLES_QUERY: &str = "WITH RECURSIVE member(oid) AS (\
SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) $1 \
UNION SELECT m.roleid FROM pg_catalog.pg_auth_members m, member \
WHERE m.member OPERATOR(pg_catalog.=) member.oid) \
SELECT r.rolname::pg_catalog.text FROM pg_catalog.pg_roles r, member \
WHERE r.oid OPERATOR(pg_catalog.=) member.oid";

/// State of a [`Fact`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer<T> {
    /// The look-up failed. This never admits a client.
    Failed,
    /// The look-up gave this value.
    Known(T),
    /// No look-up was made yet.
    #[default]
    NotAsked,
}

/// Facts found out so far; [`Facts::default`] has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The confirmed name of the source address, without a final dot. `Known(None)` if the address has no name or the
    /// name does not lead back to it. A look-up that failed for another reason (no answer, a server's failure) is
    /// `Failed`.
    pub host_name: Answer<Option<&'a str>>,
    /// The roles of which the user is a member, and the user itself if it exists.
    pub roles: Answer<&'a [String]>,
}
