//! SEC-05: each mode of the server side with each answer to `SSLRequest`.
//!
//! The design is that of PostgreSQL's own client test (`005_negotiate_encryption`): one table of outcomes.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use expect_test::expect;
use rustls::ServerConfig;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::scripted::Conversation;
use weir_conformance::scripted::Scripted;
use weir_conformance::scripted::error;
use weir_conformance::tls;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;

const MODES: [&str; 6] = [
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
];

/// Server's answer to `SSLRequest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Good,
    WrongName,
    Stranger,
    No,
    Error,
    Eof,
    Reset,
    Garbage,
    Flood,
}

const REPLIES: [(Reply, &str); 9] = [
    (Reply::Good, "S, good"),
    (Reply::WrongName, "S, other name"),
    (Reply::Stranger, "S, stranger's"),
    (Reply::No, "N"),
    (Reply::Error, "E"),
    (Reply::Eof, "EOF"),
    (Reply::Reset, "RST"),
    (Reply::Garbage, "garbage"),
    (Reply::Flood, "64 KiB"),
];

/// Serves clients that begin in clear text; answers `SSLRequest` as given.
fn script(
    conversation: &mut Conversation,
    reply: Reply,
    config: Option<&Arc<ServerConfig>>,
) -> Result<()> {
    // The whole request, or the beginning of a longer packet.
    let head = conversation.read(8)?;
    if head != frontend::ssl_request() {
        let length = head.first_chunk::<4>().context("eight bytes were read")?;
        let length = usize::try_from(u32::from_be_bytes(*length))?;
        conversation.read(length.saturating_sub(8))?;
        conversation.welcome()?;
        return conversation.serve();
    }
    match reply {
        Reply::Good | Reply::WrongName | Reply::Stranger => {
            conversation.send(b"S")?;
            if let Some(config) = config {
                conversation.begin_tls(config)?;
            }
        }
        Reply::No => conversation.send(b"N")?,
        Reply::Error => {
            let fields = [
                (b'S', "FATAL"),
                (b'C', "0A000"),
                (b'M', "unsupported frontend protocol"),
            ];
            conversation.send(&error(&fields))?;
            return Ok(());
        }
        Reply::Eof => return Ok(()),
        Reply::Reset => {
            conversation.reset();
            return Ok(());
        }
        Reply::Garbage => conversation.send(b"Q\0HTTP/1.1 400 Bad Request")?,
        Reply::Flood => conversation.send(&vec![b'x'; 64 * 1024])?,
    }
    conversation.login()?;
    conversation.serve()
}

/// Outcome, and the client's error if it was refused.
fn outcome(pki: &Pki, mode: &str, reply: Reply) -> Result<(String, String)> {
    let config = match reply {
        Reply::Good => Some(tls::server::config(&pki.authority.issue(&Spec::server())?)?),
        Reply::WrongName => {
            let other = Spec::new("other", tls::authority::Usage::Server).dns("other.example");
            Some(tls::server::config(&pki.authority.issue(&other)?)?)
        }
        Reply::Stranger => Some(tls::server::config(&pki.stranger.issue(&Spec::server())?)?),
        _ => None,
    };
    let server = Scripted::start(move |conversation| script(conversation, reply, config.as_ref()))?;
    let config = Config::to(server.port())
        .set_all(pki.server_side(mode))
        .set("failover_hold", "0");
    let mut weir = Weir::start(&config)?;
    let mut raw = Raw::tcp(weir.port(), Duration::from_secs(10))?;
    let login = raw.login(&[("user", "postgres"), ("database", "postgres")]);
    let mut told = String::new();
    let text = match login {
        Ok(()) => {
            ensure!(raw.query_one("select 1")? == "select 1");
            let secure = (0..server.connections()).any(|index| {
                let inside = server.heard_in_tls(index).map(|(_, inside)| inside);
                inside.is_some_and(|inside| inside.windows(8).any(|word| word == b"select 1"))
            });
            let asked = if server.count(&frontend::ssl_request()) > 0 {
                ""
            } else {
                ", not asked"
            };
            if secure {
                "TLS".to_owned()
            } else {
                format!("clear{asked}")
            }
        }
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(
                text.contains("login refused: FATAL"),
                "{mode}, {reply:?}: {text}"
            );
            let cause = text.split("cached error: ").nth(1).unwrap_or(&text);
            told = cause.replace(" (server_login_retry)", "");
            "refused".to_owned()
        }
    };
    weir.check_healthy()?;
    Ok((text, told))
}

/// `allow` equals `prefer`, as in PgBouncer; libpq would begin in clear text.
#[test]
fn sec_05_each_answer_of_a_server_in_each_mode() -> Result<()> {
    let pki = Pki::new()?;
    let mut table = format!("{:<14}", "reply \\ mode");
    for mode in MODES {
        write!(table, " {mode:<17}")?;
    }
    let mut told = String::new();
    for (reply, name) in REPLIES {
        write!(table, "\n{name:<14}")?;
        for mode in MODES {
            let (cell, text) = outcome(&pki, mode, reply)?;
            write!(table, " {cell:<17}")?;
            // The errors of the strictest mode include those of the others.
            if mode == "verify-full" && !text.is_empty() {
                writeln!(told, "{name}: {text}")?;
            }
        }
    }
    let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
    expect![[r#"
        reply \ mode   disable           allow             prefer            require           verify-ca         verify-full
        S, good        clear, not asked  TLS               TLS               TLS               TLS               TLS
        S, other name  clear, not asked  TLS               TLS               TLS               TLS               refused
        S, stranger's  clear, not asked  TLS               TLS               TLS               refused           refused
        N              clear, not asked  clear             clear             refused           refused           refused
        E              clear, not asked  refused           refused           refused           refused           refused
        EOF            clear, not asked  refused           refused           refused           refused           refused
        RST            clear, not asked  refused           refused           refused           refused           refused
        garbage        clear, not asked  refused           refused           refused           refused           refused
        64 KiB         clear, not asked  refused           refused           refused           refused           refused
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
    expect![[r#"
        S, other name: TLS handshake failed: invalid peer certificate: certificate not valid for name "127.0.0.1"; certificate is only valid for DnsName("other.example")
        S, stranger's: TLS handshake failed: invalid peer certificate: UnknownIssuer
        N: server does not support SSL, but SSL was required
        E: server answered the SSL request with an error
        EOF: server conn crashed?
        RST: server connection lost: Connection reset by peer (os error 104)
        garbage: server sent an invalid answer to the SSL request
        64 KiB: server sent an invalid answer to the SSL request
    "#]].assert_eq(&told);
    Ok(())
}
