//! Typed values of options: enumerations, addresses, secrets. Nothing here reads a file or a clock.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::options::Field;
use crate::value::Value;

/// Declares a closed enumeration with its spellings in configuration files (case-insensitive there).
macro_rules! enumeration {
    ($(#[$meta:meta])* $name:ident { $( $(#[$vmeta:meta])* $variant:ident = $text:literal, )+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$vmeta])* $variant, )+ }

        impl $name {
            /// Every spelling, in the order of the documentation.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The spelling in configuration files and in console answers.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text, )+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Field for $name {
            fn from_value(value: &Value) -> Self {
                match value {
                    $( Value::Text(text) if text == $text => Self::$variant, )+
                    _ => Self::default(),
                }
            }
            fn to_value(&self) -> Value {
                Value::Text(self.as_str().to_owned())
            }
        }
    };
}
pub(crate) use enumeration;

enumeration! {
    /// Moment at which a server goes back to its pool.
    PoolMode {
        /// When the client disconnects.
        #[default]
        Session = "session",
        /// After each transaction.
        Transaction = "transaction",
        /// After each statement; transaction blocks are refused.
        Statement = "statement",
    }
}

enumeration! {
    /// Hosts on which sessions of a listener begin: the values of `weir.role`.
    ListenerRole {
        /// Where the rules of the database send each transaction.
        #[default]
        Auto = "auto",
        /// The primary.
        Primary = "primary",
        /// A replica.
        Replica = "replica",
    }
}

enumeration! {
    /// Mode of a pool with `pool_size = auto`.
    SizingMode {
        /// The pool keeps its initial size.
        Off = "off",
        /// The pool tries sizes near the initial one, comes back, and reports what it would do.
        Advise = "advise",
        /// The pool finds its size and holds it.
        #[default]
        On = "on",
    }
}

enumeration! {
    /// Benefit that a larger pool must bring.
    SizingGoal {
        /// The last per cent of throughput, with more servers and longer tails.
        Throughput = "throughput",
        /// Nearly all throughput, with short tails.
        #[default]
        Balanced = "balanced",
        /// Short tails, at the price of some throughput.
        Latency = "latency",
    }
}

/// Word for a size that the pool finds by itself.
pub(crate) const AUTO: &str = "auto";

/// Number of servers that a pool may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolSize {
    /// The pool finds the number by itself.
    Auto,
    /// A fixed number; 0 = unlimited.
    Fixed(u32),
}

impl PoolSize {
    /// Returns the number, or `start` if there is none.
    #[must_use]
    pub const fn or(self, start: u32) -> u32 {
        match self {
            Self::Auto => start,
            Self::Fixed(size) => size,
        }
    }
}

/// Number of clients of a pool that may be pinned to their servers at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaxPinned {
    /// All servers of the pool but one.
    Auto,
    /// A fixed number; 0 = no limit.
    Fixed(u32),
}

impl MaxPinned {
    /// Returns the limit in a pool of this size, where 0 is unlimited; 0 = no limit. A pool of one server may pin it.
    #[must_use]
    pub const fn of(self, pool_size: u32) -> u32 {
        match (self, pool_size) {
            (Self::Fixed(max), _) => max,
            (Self::Auto, 0) => 0,
            (Self::Auto, 1) => 1,
            (Self::Auto, size) => size - 1,
        }
    }
}

impl fmt::Display for MaxPinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Fixed(max) => max.fmt(f),
        }
    }
}

impl Field for MaxPinned {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Text(word) if word == AUTO => Self::Auto,
            value => Self::Fixed(u32::from_value(value)),
        }
    }
    fn to_value(&self) -> Value {
        match self {
            Self::Auto => Value::Text(AUTO.to_owned()),
            Self::Fixed(max) => max.to_value(),
        }
    }
}

impl fmt::Display for PoolSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Fixed(size) => size.fmt(f),
        }
    }
}

impl Field for PoolSize {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Text(word) if word == AUTO => Self::Auto,
            value => Self::Fixed(u32::from_value(value)),
        }
    }
    fn to_value(&self) -> Value {
        match self {
            Self::Auto => Value::Text(AUTO.to_owned()),
            Self::Fixed(size) => size.to_value(),
        }
    }
}

enumeration! {
    /// Treatment of session state in transaction and statement pooling. Session pooling needs none.
    SessionState {
        /// Settings follow the client to its next server. A client keeps its server while it holds state that cannot
        /// follow.
        #[default]
        Track = "track",
        /// A client that changes session state keeps its server from then on.
        Pin = "pin",
        /// Settings follow the client; statements that leave behind other state are refused.
        Refuse = "refuse",
        /// Session state is ignored, as in PgBouncer.
        Off = "off",
    }
}

enumeration! {
    /// Treatment of sequence values of a session, which only the server that generated them can return.
    SequenceValues {
        /// A pool learns which applications read them in later transactions, and pins their clients when they insert.
        #[default]
        Learn = "learn",
        /// A client keeps its server from its first insert on.
        Pin = "pin",
        /// Statements that read them are refused.
        Refuse = "refuse",
    }
}

enumeration! {
    /// Treatment of statements that are not in a user's list.
    StatementPolicy {
        /// No list is asked.
        #[default]
        Off = "off",
        /// They run, and are recorded.
        Learn = "learn",
        /// They run, and are recorded and logged.
        Warn = "warn",
        /// They fail, and are recorded and logged.
        Enforce = "enforce",
    }
}

enumeration! {
    /// Method by which clients log in.
    AuthType {
        /// No password, and the user name is ignored: the database's forced user is used.
        Any = "any",
        /// No password, but the user must exist in `auth_file`.
        Trust = "trust",
        /// Clear text password over the wire.
        Plain = "plain",
        /// MD5 challenge; SCRAM for users whose stored secret is a SCRAM verifier.
        #[default]
        Md5 = "md5",
        /// TLS client certificate.
        Cert = "cert",
        /// The HBA file decides.
        Hba = "hba",
        /// An LDAP server decides.
        Ldap = "ldap",
        /// PAM decides.
        Pam = "pam",
        /// SCRAM-SHA-256 (RFC 7677).
        ScramSha256 = "scram-sha-256",
    }
}

enumeration! {
    /// Level of protection by TLS, in increasing order (PostgreSQL manual, 34.19.3 "SSL Mode Descriptions").
    #[derive(PartialOrd, Ord)]
    SslMode {
        /// Never TLS.
        #[default]
        Disable = "disable",
        /// TLS if the peer insists.
        Allow = "allow",
        /// TLS if the peer can.
        Prefer = "prefer",
        /// Always TLS, certificate not checked.
        Require = "require",
        /// Always TLS, certificate checked against the CA.
        VerifyCa = "verify-ca",
        /// As `verify-ca`, and the name must match.
        VerifyFull = "verify-full",
    }
}

impl SslMode {
    /// True if a connection without TLS is refused.
    #[must_use]
    pub fn is_required(self) -> bool {
        matches!(self, Self::Require | Self::VerifyCa | Self::VerifyFull)
    }

    /// True if the peer's certificate is checked.
    #[must_use]
    pub fn is_verified(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

enumeration! {
    /// Binding of SCRAM to the TLS connection towards servers (RFC 5929, `tls-server-end-point`).
    ChannelBinding {
        /// Never.
        Disable = "disable",
        /// If both sides can.
        #[default]
        Prefer = "prefer",
        /// Always. Weir does not log in to a server that cannot bind, whatever else the server accepts.
        Require = "require",
    }
}

enumeration! {
    /// Start of TLS on a server connection (PostgreSQL manual, 34.1.2, `sslnegotiation`).
    SslNegotiation {
        /// After an SSLRequest, which every PostgreSQL understands.
        #[default]
        Postgres = "postgres",
        /// At once, without the round trip; PostgreSQL 17 and later.
        Direct = "direct",
    }
}

enumeration! {
    /// Choice among several hosts for a new server connection.
    LoadBalanceHosts {
        /// Each new connection goes to the next host.
        #[default]
        RoundRobin = "round-robin",
        /// The first host is used; the others only if it fails.
        Disable = "disable",
    }
}

enumeration! {
    /// Interface to the kernel through which workers use their sockets.
    Io {
        /// The better one of those that the kernel offers.
        #[default]
        Auto = "auto",
        /// Readiness events: epoll(7).
        Epoll = "epoll",
        /// Completions: io_uring(7). Where the kernel refuses it, epoll is used.
        IoUring = "io_uring",
    }
}

enumeration! {
    /// Format of log lines.
    LogFormat {
        /// PgBouncer's lines.
        #[default]
        Text = "text",
        /// A JSON object per line.
        Json = "json",
    }
}

enumeration! {
    /// Version of PgBouncer whose console Weir shows.
    PgBouncerVersion {
        /// 1.18 (December 2022).
        V1_18 = "1.18",
        /// 1.19 (May 2023): peers and `SHOW STATE`.
        V1_19 = "1.19",
        /// 1.20 (July 2023).
        V1_20 = "1.20",
        /// 1.21 (October 2023): prepared statements.
        V1_21 = "1.21",
        /// 1.22 (January 2024).
        V1_22 = "1.22",
        /// 1.23 (July 2024): replication, and columns of `SHOW USERS` and `SHOW STATS`.
        V1_23 = "1.23",
        /// 1.24 (January 2025): ids, limits on clients, `load_balance_hosts`.
        V1_24 = "1.24",
        /// 1.25 (November 2025): idle clients are called idle.
        #[default]
        V1_25 = "1.25",
    }
}

impl PgBouncerVersion {
    /// Number of its last release, as `SHOW VERSION` has it.
    #[must_use]
    pub const fn release(self) -> &'static str {
        match self {
            Self::V1_18 => "1.18.0",
            Self::V1_19 => "1.19.1",
            Self::V1_20 => "1.20.1",
            Self::V1_21 => "1.21.0",
            Self::V1_22 => "1.22.1",
            Self::V1_23 => "1.23.1",
            Self::V1_24 => "1.24.1",
            Self::V1_25 => "1.25.2",
        }
    }

    /// True if this is `since` or a later version.
    #[must_use]
    pub const fn has(self, since: Self) -> bool {
        self as u8 >= since as u8
    }
}

enumeration! {
    /// Kind of program that logs, in the words of syslog(3).
    SyslogFacility {
        /// `LOG_AUTH`.
        Auth = "auth",
        /// `LOG_AUTHPRIV`.
        Authpriv = "authpriv",
        /// `LOG_DAEMON`.
        #[default]
        Daemon = "daemon",
        /// `LOG_USER`.
        User = "user",
        /// `LOG_LOCAL0`.
        Local0 = "local0",
        /// `LOG_LOCAL1`.
        Local1 = "local1",
        /// `LOG_LOCAL2`.
        Local2 = "local2",
        /// `LOG_LOCAL3`.
        Local3 = "local3",
        /// `LOG_LOCAL4`.
        Local4 = "local4",
        /// `LOG_LOCAL5`.
        Local5 = "local5",
        /// `LOG_LOCAL6`.
        Local6 = "local6",
        /// `LOG_LOCAL7`.
        Local7 = "local7",
    }
}

impl SyslogFacility {
    /// Number of the facility (RFC 5424, table 1).
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::User => 1,
            Self::Daemon => 3,
            Self::Auth => 4,
            Self::Authpriv => 10,
            Self::Local0 => 16,
            Self::Local1 => 17,
            Self::Local2 => 18,
            Self::Local3 => 19,
            Self::Local4 => 20,
            Self::Local5 => 21,
            Self::Local6 => 22,
            Self::Local7 => 23,
        }
    }
}

/// Location of a server. The port is separate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostAddr {
    /// A name for DNS.
    Name(String),
    /// An address.
    Ip(IpAddr),
    /// The directory of a unix socket; the socket is `DIR/.s.PGSQL.PORT`.
    UnixDir(PathBuf),
    /// Linux's abstract socket name space, without the leading `@`.
    Abstract(String),
}

impl HostAddr {
    /// Parses one host: `/dir`, `@name`, an address (IPv6 with or without brackets) or a name.
    ///
    /// # Errors
    /// Describes the mistake in the text: it is empty, has blanks or control characters, or exceeds 253 bytes.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("a host is empty");
        }
        if text.starts_with('/') {
            return Ok(Self::UnixDir(PathBuf::from(text)));
        }
        if let Some(name) = text.strip_prefix('@') {
            return match name {
                "" => Err("the name of an abstract socket is empty"),
                _ => Ok(Self::Abstract(name.to_owned())),
            };
        }
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(text).parse() {
            return Ok(Self::Ip(ip));
        }
        if text.len() > 253 {
            return Err("a host name has at most 253 bytes");
        }
        let odd = |c: char| c.is_whitespace() || c.is_control() || "[]:/,'\"".contains(c);
        if text.contains(odd) {
            return Err("a host name has no blanks, colons, commas, slashes, brackets or quotes");
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl fmt::Display for HostAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(ip) => ip.fmt(f),
            Self::UnixDir(dir) => f.write_str(&dir.to_string_lossy()),
            Self::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

/// An entry of `listen_addr`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddr {
    /// `*`: every address of the machine.
    All,
    /// An address.
    Ip(IpAddr),
    /// A name for the resolver.
    Name(String),
}

impl ListenAddr {
    /// Parses `*`, an address or a name.
    ///
    /// # Errors
    /// Describes the mistake in the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match HostAddr::parse(text) {
            _ if text == "*" => Ok(Self::All),
            Ok(HostAddr::Ip(ip)) => Ok(Self::Ip(ip)),
            Ok(HostAddr::Name(name)) => Ok(Self::Name(name)),
            Ok(_) => Err("unix sockets are set by unix_socket_dir"),
            Err(message) => Err(message),
        }
    }

    /// True if only this machine can reach the address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::All => false,
            Self::Ip(ip) => ip.is_loopback(),
            Self::Name(name) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// An entry of `metrics_listen`: an address of this machine, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenPoint {
    /// The address.
    pub addr: ListenAddr,
    /// The TCP port.
    pub port: u16,
}

impl ListenPoint {
    /// Parses `ADDRESS:PORT`; an IPv6 address needs brackets.
    ///
    /// # Errors
    /// Describes the mistake in the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str = "must be ADDRESS:PORT, such as 127.0.0.1:9127 or [::1]:9127";
        let (addr, port) = text.rsplit_once(':').ok_or(SHAPE)?;
        let is_bare = addr.contains(':') && !addr.starts_with('[');
        let port: u16 = port.parse().map_err(|_| SHAPE)?;
        if is_bare || port == 0 {
            return Err(SHAPE);
        }
        let addr = ListenAddr::parse(addr)?;
        Ok(Self { addr, port })
    }
}

impl fmt::Display for ListenPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addr {
            ListenAddr::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            addr => write!(f, "{addr}:{}", self.port),
        }
    }
}

/// A password, or a text that contains one. Shown as `***` only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the secret itself. Never print it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True if the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "" } else { "***" })
    }
}

impl Field for Secret {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Secret(secret) => secret.clone(),
            _ => Self::default(),
        }
    }
    fn to_value(&self) -> Value {
        Value::Secret(self.clone())
    }
}

impl Field for Vec<HostAddr> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items
                .iter()
                .filter_map(|i| HostAddr::parse(i).ok())
                .collect(),
            _ => Self::new(),
        }
    }
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(ToString::to_string).collect())
    }
}

impl Field for Vec<ListenAddr> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items
                .iter()
                .filter_map(|i| ListenAddr::parse(i).ok())
                .collect(),
            _ => Self::new(),
        }
    }
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(ToString::to_string).collect())
    }
}

impl Field for Vec<ListenPoint> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items
                .iter()
                .filter_map(|i| ListenPoint::parse(i).ok())
                .collect(),
            _ => Self::new(),
        }
    }
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(ToString::to_string).collect())
    }
}
