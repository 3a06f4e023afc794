//! The first bytes of a client: encryption requests, cancel requests, and the start-up packet with its negotiation.

use weir_wire::encode;
use weir_wire::options;
use weir_wire::startup::{self, Startup, StartupError, StartupMessage, Version};

use crate::fault::Fault;

/// Newest supported minor version of protocol 3.
const MINOR_MAX: u16 = Version::V3_2.minor;

/// The content type of a handshake record, first byte of a TLS connection (RFC 8446, 5.1). As the first byte of a
/// length it would announce a start-up packet of 369 MB.
const TLS_HANDSHAKE: u8 = 0x16;

/// A client's start-up packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Role name.
    pub user: String,
    /// Database name; the user's name if the client named none.
    pub database: String,
    /// Settings in `options`, or the reason why they cannot be had. PostgreSQL applies them before `parameters`.
    pub options: Result<Vec<(String, String)>, Fault>,
    /// Parameters beside `options`.
    pub parameters: Vec<(String, String)>,
    /// Replication that the client asks for.
    pub replication: Replication,
    /// Parameter `options` as the client sent it, if it asks for replication and sent any.
    pub options_text: Option<String>,
    /// Protocol version in use from now on: 3.0 to 3.2.
    pub version: Version,
    /// NegotiateProtocolVersion to send before anything else; empty if the client asked for nothing unknown.
    pub negotiation: Vec<u8>,
}

/// Replication that a client asks for in its start-up packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replication {
    /// Replication commands and SQL in a database (`replication=database`).
    Logical,
    /// An ordinary connection.
    #[default]
    None,
    /// Replication commands only, without a database (`replication=true`).
    Physical,
}

impl Replication {
    /// Reads the value of the start-up parameter as PostgreSQL does (`ProcessStartupPacket` in postmaster.c).
    fn parse(value: &[u8]) -> Result<Self, Fault> {
        let value = text(value)?;
        match boolean(value) {
            _ if value == "database" => Ok(Self::Logical),
            Some(true) => Ok(Self::Physical),
            Some(false) => Ok(Self::None),
            None => Err(Fault::ReplicationValue(value.to_owned())),
        }
    }

    /// Returns the value of the start-up parameter that asks a server for the same; none for an ordinary connection.
    #[must_use]
    pub fn parameter(self) -> Option<&'static str> {
        match self {
            Self::Logical => Some("database"),
            Self::None => None,
            Self::Physical => Some("true"),
        }
    }

    /// Returns PgBouncer's word in the columns `replication` of its console.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Logical => "logical",
            Self::None => "none",
            Self::Physical => "physical",
        }
    }

    /// Returns PgBouncer's word in its log line about a login.
    #[must_use]
    pub fn logged(self) -> &'static str {
        match self {
            Self::Logical => "database",
            Self::None => "no",
            Self::Physical => "yes",
        }
    }
}

/// Next step of the opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// Incomplete: wait for more bytes.
    More,
    /// The client asks for TLS, which is offered: answer `S` and begin the handshake.
    Encrypt,
    /// The client begins with a TLS handshake at once (PostgreSQL 17 manual, 54.2.11). No bytes are consumed.
    EncryptAtOnce,
    /// The client asks for encryption that is not offered: answer `N` and go on.
    Refuse,
    /// The client sends a cancel request.
    Cancel {
        /// Process id in the request.
        pid: u32,
        /// Cancel key in the request.
        key: Box<[u8]>,
    },
    /// The client sends its start-up packet.
    Hello(Box<Hello>),
}

/// The opening of one connection.
///
/// ```text
/// start ─SSLRequest─► N ─GSSENCRequest─► N ─StartupMessage─► Hello      (each request once, in any order)
///   │         │                            CancelRequest──► Cancel
///   │         └─► S, TLS handshake, and again without either request
///   └─ TLS handshake at once ───────┘
/// ```
#[derive(Debug, Default)]
pub struct Opening {
    offers_tls: bool,
    ssl_asked: bool,
    gss_asked: bool,
}

impl Opening {
    /// Starts the opening of a connection to which TLS is offered.
    #[must_use]
    pub fn offering_tls() -> Self {
        Self {
            offers_tls: true,
            ..Self::default()
        }
    }

    /// Starts the opening inside TLS, where encryption cannot be requested again (hazard SEC-06).
    #[must_use]
    pub fn inside_tls() -> Self {
        Self {
            offers_tls: false,
            ssl_asked: true,
            gss_asked: true,
        }
    }

    /// Reads the next message from `input`. Returns the number of bytes consumed and the next step.
    ///
    /// # Errors
    /// Fails where PostgreSQL does too, for example on a second request for the same encryption (hazard SEC-06).
    pub fn handle(&mut self, input: &[u8]) -> Result<(usize, Opened), Fault> {
        let is_untouched = !self.ssl_asked && !self.gss_asked;
        if self.offers_tls && is_untouched && input.first() == Some(&TLS_HANDSHAKE) {
            return Ok((0, Opened::EncryptAtOnce));
        }
        let Some((message, consumed)) = startup::startup(input).map_err(Fault::Startup)? else {
            return Ok((0, Opened::More));
        };
        // A client waits for the answer to this request, so an attacker may have added these bytes. They must not
        // count as sent inside TLS (hazard SEC-01).
        let is_followed = consumed < input.len();
        let opened = match message {
            Startup::Ssl if is_followed => return Err(Fault::UnencryptedData("SSL")),
            Startup::GssEnc if is_followed => {
                return Err(Fault::UnencryptedData("GSSAPI encryption"));
            }
            Startup::Ssl => match once(&mut self.ssl_asked, 5679)? {
                Opened::Refuse if self.offers_tls => Opened::Encrypt,
                opened => opened,
            },
            Startup::GssEnc => once(&mut self.gss_asked, 5680)?,
            Startup::Cancel(cancel) => Opened::Cancel {
                pid: cancel.pid,
                key: cancel.key.into(),
            },
            Startup::Startup(message) => Opened::Hello(Box::new(hello(&message)?)),
        };
        Ok((consumed, opened))
    }
}

fn once(asked: &mut bool, minor: u16) -> Result<Opened, Fault> {
    if std::mem::replace(asked, true) {
        return Err(Fault::Startup(StartupError::UnsupportedVersion {
            major: 1234,
            minor,
        }));
    }
    Ok(Opened::Refuse)
}

fn text(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::StartupEncoding)
}

fn hello(message: &StartupMessage<'_>) -> Result<Hello, Fault> {
    let user = text(message.get("user").unwrap_or_default())?;
    if user.is_empty() {
        return Err(Fault::NoUser);
    }
    let database = message.get("database").filter(|name| !name.is_empty());
    let database = database.map_or(Ok(user), text)?;
    let mut parameters = Vec::new();
    let mut unknown = Vec::new();
    let mut replication = Replication::None;
    for (name, value) in message.params() {
        match name {
            b"user" | b"database" | b"options" => {}
            b"replication" => replication = Replication::parse(value)?,
            _ if name.starts_with(b"_pq_.") => unknown.push(name),
            _ => parameters.push((text(name)?.to_owned(), text(value)?.to_owned())),
        }
    }
    let asked = message.version;
    let version = Version {
        major: asked.major,
        minor: asked.minor.min(MINOR_MAX),
    };
    let mut negotiation = Vec::new();
    if asked.minor > MINOR_MAX || !unknown.is_empty() {
        // The names come from a packet of at most 10,000 bytes, so they fit.
        let _ = encode::negotiate_protocol_version(&mut negotiation, MINOR_MAX, &unknown);
    }
    let (user, database) = (user.to_owned(), database.to_owned());
    let options = message.get("options").unwrap_or_default();
    let replicates = replication != Replication::None && !options.is_empty();
    let options_text = match replicates {
        true => Some(text(options)?.to_owned()),
        false => None,
    };
    Ok(Hello {
        user,
        database,
        options: settings_of(options),
        parameters,
        replication,
        options_text,
        version,
        negotiation,
    })
}

/// Returns the settings in the parameter `options`.
fn settings_of(options: &[u8]) -> Result<Vec<(String, String)>, Fault> {
    let settings = options::parse(options).map_err(Fault::Options)?;
    settings
        .iter()
        .map(|setting| {
            Ok((
                text(&setting.name)?.to_owned(),
                text(&setting.value)?.to_owned(),
            ))
        })
        .collect()
}

/// Parses a boolean as PostgreSQL does (`parse_bool` in utils/adt/bool.c): a word may be cut, as long as it is clear.
fn boolean(value: &str) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        return Some(true);
    }
    (value == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2)).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(version: Version, params: &[(&str, &str)]) -> Vec<u8> {
        let params: Vec<_> = params
            .iter()
            .map(|(k, v)| (k.as_bytes(), v.as_bytes()))
            .collect();
        let mut bytes = Vec::new();
        encode::startup(&mut bytes, version, &params).unwrap();
        bytes
    }

    fn open(bytes: &[u8]) -> Result<Hello, Fault> {
        match Opening::default().handle(bytes)? {
            (consumed, Opened::Hello(hello)) => {
                assert_eq!(consumed, bytes.len());
                Ok(*hello)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_database_is_the_users_name_by_default_and_options_come_first() {
        let hello = open(&packet(
            Version::V3_0,
            &[
                ("TimeZone", "UTC"),
                ("user", "ada"),
                ("options", "-c geqo=off --a-b=1"),
            ],
        ))
        .unwrap();
        assert_eq!(
            (hello.user.as_str(), hello.database.as_str()),
            ("ada", "ada")
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            hello.options,
            Ok(vec![pair("geqo", "off"), pair("a_b", "1")])
        );
        assert_eq!(hello.parameters, vec![pair("TimeZone", "UTC")]);
        assert!(hello.negotiation.is_empty());
    }

    #[test]
    fn the_value_of_replication_is_read_as_postgresql_reads_it() {
        let of = |value: &str| {
            let hello = open(&packet(
                Version::V3_0,
                &[("user", "u"), ("replication", value)],
            ));
            hello.map(|hello| hello.replication)
        };
        for value in ["true", "TRUE", "t", "tru", "yes", "y", "on", "1"] {
            assert_eq!(of(value), Ok(Replication::Physical), "{value}");
        }
        for value in ["false", "F", "no", "n", "off", "of", "0"] {
            assert_eq!(of(value), Ok(Replication::None), "{value}");
        }
        assert_eq!(of("database"), Ok(Replication::Logical));
        for value in [
            "",
            "o",
            "2",
            "10",
            "truer",
            "Database",
            "databases",
            "logical",
            " true",
        ] {
            let fault = of(value).unwrap_err();
            let text = format!("invalid value for parameter \"replication\": \"{value}\"");
            assert_eq!((fault.code().as_str(), &*fault.text()), ("22023", &*text));
        }
    }

    #[test]
    fn options_of_a_replication_connection_are_kept_as_they_came() {
        let of = |replication: &str| {
            let options = ("options", "-c a=b -x");
            let all = [("user", "u"), ("replication", replication), options];
            open(&packet(Version::V3_0, &all)).unwrap().options_text
        };
        assert_eq!(of("true").as_deref(), Some("-c a=b -x"));
        assert_eq!(of("false"), None);
    }

    #[test]
    fn cor_32_unknown_minors_and_options_are_negotiated_down() {
        let grease = Version {
            major: 3,
            minor: 9999,
        };
        let hello = open(&packet(grease, &[("user", "u"), ("_pq_.x", "1")])).unwrap();
        assert_eq!(hello.version, Version::V3_2);
        // 'v', length, the newest version 3.2, one unknown option
        assert_eq!(
            hello.negotiation,
            b"v\0\0\0\x13\0\x03\0\x02\0\0\0\x01_pq_.x\0"
        );
        let reserved = Version { major: 3, minor: 1 };
        let hello = open(&packet(reserved, &[("user", "u")])).unwrap();
        assert_eq!((hello.version, hello.negotiation.len()), (reserved, 0));
    }

    #[test]
    fn cor_33_each_encryption_request_is_refused_once_and_the_session_goes_on() {
        let mut opening = Opening::default();
        let (mut ssl, mut gss) = (Vec::new(), Vec::new());
        encode::ssl_request(&mut ssl).unwrap();
        encode::gssenc_request(&mut gss).unwrap();
        assert_eq!(opening.handle(&gss), Ok((8, Opened::Refuse)));
        assert_eq!(opening.handle(&ssl), Ok((8, Opened::Refuse)));
        let again = opening.handle(&ssl).unwrap_err();
        assert_eq!(
            again.text(),
            "unsupported frontend protocol 1234.5679: server supports 3.0 to 3.2"
        );
    }

    #[test]
    fn a_session_without_a_user_is_refused() {
        assert_eq!(
            open(&packet(Version::V3_0, &[("database", "d")])),
            Err(Fault::NoUser)
        );
    }

    fn requests() -> [(&'static str, Vec<u8>); 2] {
        let (mut ssl, mut gss) = (Vec::new(), Vec::new());
        encode::ssl_request(&mut ssl).unwrap();
        encode::gssenc_request(&mut gss).unwrap();
        [("SSL", ssl), ("GSSAPI encryption", gss)]
    }

    /// All openings with which a connection can begin.
    fn openings() -> [Opening; 3] {
        [
            Opening::default(),
            Opening::offering_tls(),
            Opening::inside_tls(),
        ]
    }

    #[test]
    fn sec_01_bytes_that_come_with_a_request_for_encryption_are_refused() {
        let [(_, ssl), (_, gss)] = requests();
        let hello = packet(Version::V3_0, &[("user", "u")]);
        let behind = [&hello[..], &ssl, &gss, b"\x16", b"\0", b"Q\0\0\0\x05\0"];
        for (name, request) in requests() {
            for behind in behind {
                let glued = [&request, behind].concat();
                for mut opening in [Opening::default(), Opening::offering_tls()] {
                    let fault = opening.handle(&glued).unwrap_err();
                    assert_eq!(
                        fault.text(),
                        format!("received unencrypted data after {name} request")
                    );
                    assert_eq!(fault.code().as_str(), "08P01");
                }
            }
        }
    }

    #[test]
    fn sec_01_a_request_is_answered_only_once_it_is_whole_and_alone() {
        let hello = packet(Version::V3_0, &[("user", "u")]);
        for (n, (_, request)) in requests().into_iter().enumerate() {
            let glued = [request, hello.clone()].concat();
            for len in 0..=glued.len() {
                let mut opening = Opening::offering_tls();
                let asked = if n == 0 {
                    Opened::Encrypt
                } else {
                    Opened::Refuse
                };
                match opening.handle(&glued[..len]) {
                    Ok((0, Opened::More)) => assert!(len < 8),
                    Ok((8, opened)) => assert_eq!((len, opened), (8, asked)),
                    Err(Fault::UnencryptedData(_)) => assert!(len > 8),
                    other => panic!("{len}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn sec_06_encryption_cannot_be_asked_for_inside_of_tls() {
        for (_, request) in requests() {
            for behind in [&b""[..], b"\0"] {
                let mut opening = Opening::inside_tls();
                assert!(opening.handle(&[&request, behind].concat()).is_err());
            }
            let fault = Opening::inside_tls().handle(&request).unwrap_err();
            let Fault::Startup(StartupError::UnsupportedVersion { major: 1234, .. }) = fault else {
                panic!("{fault:?}");
            };
        }
        // These are legal inside TLS.
        let hello = packet(Version::V3_0, &[("user", "u")]);
        let (len, opened) = Opening::inside_tls().handle(&hello).unwrap();
        assert!(len == hello.len() && matches!(opened, Opened::Hello(_)));
        let mut cancel = Vec::new();
        encode::cancel_request(&mut cancel, 1, b"1234").unwrap();
        let (len, opened) = Opening::inside_tls().handle(&cancel).unwrap();
        assert!(len == cancel.len() && matches!(opened, Opened::Cancel { pid: 1, .. }));
    }

    #[test]
    fn sec_06_each_encryption_is_asked_for_once_at_most_in_any_order() {
        let requests = requests().map(|(_, request)| request);
        for first_opening in 0..openings().len() {
            for order in 0..16_usize {
                let mut opening = openings().into_iter().nth(first_opening).unwrap();
                let mut answers = 0;
                let mut seen = [first_opening == 2; 2];
                for step in 0..4 {
                    let which = (order >> step) & 1;
                    let outcome = opening.handle(&requests[which]);
                    let is_new = !std::mem::replace(&mut seen[which], true);
                    assert_eq!(outcome.is_ok(), is_new, "{first_opening} {order:b} {step}");
                    answers += usize::from(is_new);
                    // After an S comes a handshake and a new opening.
                    if !is_new || matches!(outcome, Ok((_, Opened::Encrypt))) {
                        break;
                    }
                }
                assert!(answers <= 2);
            }
        }
    }

    #[test]
    fn sec_06_tls_at_once_is_for_the_first_byte_of_a_connection_that_is_offered_it() {
        let record = b"\x16\x03\x01\x00\xf8\x01\x00\x00\xf4";
        for len in 1..=record.len() {
            let outcome = Opening::offering_tls().handle(&record[..len]);
            assert_eq!(outcome, Ok((0, Opened::EncryptAtOnce)));
        }
        // Anywhere else these bytes are the length of a start-up packet, and far too great.
        let refused = |mut opening: Opening| {
            let fault = opening.handle(record).unwrap_err();
            assert!(
                matches!(fault, Fault::Startup(StartupError::BadLength { .. })),
                "{fault:?}"
            );
            assert_eq!(fault.text(), "invalid length of startup packet");
        };
        refused(Opening::default());
        refused(Opening::inside_tls());
        for (name, request) in requests() {
            let mut opening = Opening::offering_tls();
            opening.handle(&request).unwrap();
            if name != "SSL" {
                refused(opening);
            }
        }
    }
}
