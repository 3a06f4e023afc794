//! Who knocks, and what is known about it.

use std::net::IpAddr;

/// A client that wants to log in, as far as the rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// The user name of the startup message.
    pub user: &'a str,
    /// The database name of the startup message.
    pub database: &'a str,
    /// Where the connection comes from.
    pub origin: Origin<'a>,
    /// How it is protected.
    pub transport: Transport,
    /// Whether it asked for physical replication (`replication=true`). Logical replication
    /// (`replication=database`) is like any other connection to its database.
    pub physical_replication: bool,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// Over TCP.
    Ip {
        /// The client's address. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) counts as the IPv4
        /// address, which is what it is on a listener for both families.
        address: IpAddr,
        /// The addresses of this machine, for `samehost` and `samenet`; `None` when they could not
        /// be listed.
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
    /// Leading bits of the network's mask, 0 to 32 or 0 to 128; more counts as all.
    pub prefix: u8,
}

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Not at all.
    Plain,
    /// By TLS; the client gave no certificate, or none that was verified.
    Tls,
    /// By TLS, and the client's certificate was verified against our authorities.
    TlsVerified,
}

impl Transport {
    /// Whether it is TLS.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::TlsVerified)
    }
}

/// What costs something to find out; looked up only when a decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The name of the source address: a reverse look-up whose name, looked up again, gives the
    /// address back (PostgreSQL manual 21.1, "host name").
    HostName,
    /// The roles that the user belongs to, directly or not; see [`ROLES_QUERY`].
    Roles,
}

/// Asks a server for the roles of the user `$1`, as [`Facts::roles`] wants them.
///
/// It names the user itself too when it exists, and does not count a superuser as a member of every
/// role: both are what PostgreSQL's own `+role` and `samerole` do.
pub const ROLES_QUERY: &str = "WITH RECURSIVE member(oid) AS (\
SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) $1 \
UNION SELECT m.roleid FROM pg_catalog.pg_auth_members m, member \
WHERE m.member OPERATOR(pg_catalog.=) member.oid) \
SELECT r.rolname::pg_catalog.text FROM pg_catalog.pg_roles r, member \
WHERE r.oid OPERATOR(pg_catalog.=) member.oid";

/// What is known of a [`Fact`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer<T> {
    /// It could not be found out. It never lets anybody in.
    Failed,
    /// This is it.
    Known(T),
    /// Nobody looked yet.
    #[default]
    NotAsked,
}

/// What has been found out so far; [`Facts::default`] is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The confirmed name of the source address, without a dot at the end; `Known(None)` when the
    /// address has no name or the name does not lead back to it. A look-up that failed for another
    /// reason (no answer, a server's failure) is `Failed`.
    pub host_name: Answer<Option<&'a str>>,
    /// The roles the user belongs to, and the user itself if it exists.
    pub roles: Answer<&'a [String]>,
}
