//! Channel binding: used whenever possible and never downgraded, on both sides (SEC-62, SEC-63, SEC-22).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::ServerConfig;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::frontend::message;
use weir_conformance::login::Scram;
use weir_conformance::login::end_point;
use weir_conformance::scripted::Conversation;
use weir_conformance::scripted::Scripted;
use weir_conformance::tls;
use weir_conformance::tls::Authority;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Identity;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tls::authority::Key;
use weir_conformance::wait_until;

use crate::support::check_refused;
use crate::support::last_words;
use crate::support::refusal;

const PASSWORD: &str = "correct horse";
const PLAIN: &str = "SCRAM-SHA-256";
const PLUS: &str = "SCRAM-SHA-256-PLUS";
const PATIENCE: Duration = Duration::from_secs(10);

/// Logs in as `bound` at the console with this exchange; true if it was accepted.
fn gets_in(mut raw: Raw, scram: &Scram<'_>) -> Result<bool> {
    let login = [("user", "bound"), ("database", "pgbouncer")];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &login))?;
    let offer = raw.read_message()?;
    ensure!(offer.tag == b'R', "{}", offer.error());
    if let Err(error) = scram.exchange(&mut raw, PASSWORD) {
        let text = format!("{error:#}");
        ensure!(text.contains("FATAL"), "neither in nor refused: {text}");
        return Ok(false);
    }
    raw.welcomed()?;
    Ok(true)
}

/// RFC 5802, parts 5 and 6: header and data must match what the other side sees.
#[test]
fn sec_63_headers_that_do_not_fit_the_offer_are_refused() -> Result<()> {
    let pki = Pki::new()?;
    let config = Config::to(1)
        .set("failover_hold", "0")
        .set("auth_type", "scram-sha-256")
        .set("admin_users", "bound")
        .set("auth_failure_delay", "0")
        .userlist(&format!("\"bound\" \"{PASSWORD}\"\n"))
        .set_all(pki.client_side("prefer")?);
    let mut weir = Weir::start(&config)?;
    let dial = Dial::new(&pki.authority)?;
    let bound = end_point(&dial.request(weir.port())?)?;
    let point = "p=tls-server-end-point,,";
    let unique = "p=tls-unique,,";
    // Mechanism, header, repeated header, data, result in TLS, result in clear text.
    let none = Vec::new;
    let table = [
        (PLAIN, "n,,", "n,,", none(), true, true),
        (PLAIN, "y,,", "y,,", none(), false, true),
        (PLAIN, point, point, bound.clone(), false, false),
        (PLUS, point, point, bound.clone(), true, false),
        (PLUS, "n,,", "n,,", none(), false, false),
        (PLUS, "y,,", "y,,", none(), false, false),
        (PLUS, unique, unique, bound.clone(), false, false),
        (PLUS, point, point, none(), false, false),
        (PLUS, point, point, vec![0; 32], false, false),
        (PLUS, point, "n,,", none(), false, false),
        (PLUS, point, point, bound[..31].to_vec(), false, false),
        (PLAIN, "n,,", "y,,", none(), false, false),
        (PLAIN, "n,,", point, bound.clone(), false, false),
        (PLAIN, "y,,", "n,,", none(), false, false),
    ];
    for (mechanism, header, repeated, data, in_tls, in_clear) in table {
        let scram = Scram {
            mechanism,
            header,
            repeated,
            data,
        };
        let tls = gets_in(dial.request(weir.port())?, &scram);
        ensure!(tls? == in_tls, "{scram:?} in TLS");
        let clear = gets_in(Raw::tcp(weir.port(), PATIENCE)?, &scram);
        ensure!(clear? == in_clear, "{scram:?} in clear");
    }
    weir.check_healthy()
}

/// Authentication that a fake server requests from a pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Trust,
    Password,
    Md5,
    Scram,
    Both,
}

const ASKS: [Ask; 5] = [Ask::Trust, Ask::Password, Ask::Md5, Ask::Scram, Ask::Both];

/// Requests it; answers the first SCRAM message with an error that repeats mechanism and header.
fn interview(conversation: &mut Conversation, ask: Ask) -> Result<()> {
    conversation.startup()?;
    let sasl = |names: &str| message(b'R', &[&10_i32.to_be_bytes(), names.as_bytes()].concat());
    match ask {
        Ask::Trust => return conversation.welcome().and_then(|()| conversation.serve()),
        Ask::Password => conversation.send(&message(b'R', &3_i32.to_be_bytes()))?,
        Ask::Md5 => conversation.send(&message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]))?,
        Ask::Scram => conversation.send(&sasl("SCRAM-SHA-256\0\0"))?,
        Ask::Both => conversation.send(&sasl("SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"))?,
    }
    let answer = conversation.read_message()?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let head = match ask {
        Ask::Scram | Ask::Both => {
            let (mechanism, rest) = text.split_once('\0').context("no mechanism")?;
            let first = rest.get(4..).context("no first message")?;
            let header = first.split(",,").next().context("no header")?;
            format!("{mechanism} {header}")
        }
        _ => "a password".to_owned(),
    };
    // Recorded as the error of this conversation.
    bail!("got {head}")
}

/// Message that Weir sends to a server with this request, or its refusal.
fn interviewed(
    identity: &Identity,
    authority: &Authority,
    mode: Option<&str>,
    binding: &str,
    ask: Ask,
) -> Result<String> {
    let config: Option<Arc<ServerConfig>> = match mode {
        None => None,
        Some(_) => Some(tls::server::config(identity)?),
    };
    let server = Scripted::start(move |conversation| {
        match &config {
            Some(config) => conversation.accept_tls(config)?,
            None => {
                conversation.read(frontend::ssl_request().len())?;
                conversation.send(b"N")?;
            }
        }
        interview(conversation, ask)
    })?;
    let pki = Pki::new()?;
    let ca = pki.directory().join("other.crt");
    std::fs::write(&ca, authority.pem())?;
    let config = Config::to(server.port())
        .set("failover_hold", "0")
        .userlist("\"postgres\" \"secret\"\n")
        .set("server_tls_sslmode", mode.unwrap_or("prefer"))
        .set("server_tls_ca_file", &ca.to_string_lossy())
        .set("server_channel_binding", binding);
    let mut weir = Weir::start(&config)?;
    let login = weir.connect("postgres");
    weir.check_healthy()?;
    match login {
        Ok(_) => return Ok("trusted".to_owned()),
        Err(error) => ensure!(format!("{error:#}").contains("FATAL"), "{error:#}"),
    }
    wait_until("the end of the interviews", PATIENCE, || {
        Ok(server.open() == 0)
    })?;
    let sent = server.faults().into_iter().find_map(|fault| {
        let got = fault.strip_prefix("got ");
        got.map(ToOwned::to_owned)
    });
    Ok(sent.unwrap_or_else(|| "refused".to_owned()))
}

#[test]
fn sec_62_a_server_cannot_talk_us_out_of_channel_binding() -> Result<()> {
    let authority = Authority::new("Binding")?;
    let identity = authority.issue(&Spec::server())?;
    for mode in [None, Some("require"), Some("verify-full")] {
        for binding in ["disable", "prefer", "require"] {
            for ask in ASKS {
                let got = interviewed(&identity, &authority, mode, binding, ask)?;
                let wanted = match (binding, ask, mode.is_some()) {
                    ("require", Ask::Both, true) | ("prefer", Ask::Both, true) => {
                        "SCRAM-SHA-256-PLUS p=tls-server-end-point"
                    }
                    // As in libpq: an offer of binding without TLS indicates an attack.
                    (_, Ask::Both, false) | ("require", ..) => "refused",
                    (_, Ask::Trust, _) => "trusted",
                    (_, Ask::Password | Ask::Md5, _) => "a password",
                    // `y`: supported, but not offered. A server that did offer it detects the downgrade.
                    ("prefer", Ask::Scram, true) => "SCRAM-SHA-256 y",
                    _ => "SCRAM-SHA-256 n",
                };
                ensure!(
                    got == wanted,
                    "{mode:?}, {binding}, {ask:?}: {got}, not {wanted}"
                );
            }
        }
    }
    Ok(())
}

/// RFC 5929, part 4.1: a certificate whose signature has no hash has no `tls-server-end-point`.
#[test]
fn sec_62_certificates_without_an_end_point_cannot_be_bound_to() -> Result<()> {
    let authority = Authority::with("Ed25519", Key::Ed25519)?;
    let identity = authority.issue(&Spec::server())?;
    let require = interviewed(
        &identity,
        &authority,
        Some("verify-full"),
        "require",
        Ask::Both,
    )?;
    ensure!(require == "refused", "{require}");
    // PostgreSQL itself offers no PLUS with such a certificate; a server that does gets the same answer.
    let prefer = interviewed(
        &identity,
        &authority,
        Some("verify-full"),
        "prefer",
        Ask::Both,
    )?;
    ensure!(
        prefer == "SCRAM-SHA-256 n" || prefer == "SCRAM-SHA-256 y" || prefer == "refused",
        "{prefer}"
    );
    for key in [Key::Ecdsa384, Key::Rsa] {
        let authority = Authority::with("Other", key)?;
        let identity = authority.issue(&Spec::server().key(key))?;
        let got = interviewed(
            &identity,
            &authority,
            Some("verify-full"),
            "require",
            Ask::Both,
        )?;
        ensure!(got.starts_with(PLUS), "{key:?}: {got}");
    }
    Ok(())
}

/// Client side of SEC-62: a client that requires binding meets a listener whose certificate does not support it.
#[test]
fn sec_62_a_listener_offers_only_what_it_can_keep() -> Result<()> {
    let authority = Authority::with("Ed25519", Key::Ed25519)?;
    let pki = Pki::new()?;
    let identity = authority.issue(&Spec::server())?;
    let files = pki.write("ed", &identity, weir_conformance::child::Runner::Ourselves)?;
    let config = Config::to(1)
        .set("failover_hold", "0")
        .set("auth_type", "scram-sha-256")
        .set("admin_users", "bound")
        .userlist(&format!("\"bound\" \"{PASSWORD}\"\n"))
        .set_all(pki.client_side("require")?)
        .set("client_tls_cert_file", &files.certificate.to_string_lossy())
        .set("client_tls_key_file", &files.key.to_string_lossy());
    let weir = Weir::start(&config)?;
    let mut raw = Dial::new(&authority)?.request(weir.port())?;
    let login = [("user", "bound"), ("database", "pgbouncer")];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &login))?;
    let offer = raw.read_message()?;
    ensure!(
        weir_conformance::login::mechanisms(&offer) == [PLAIN],
        "{offer:?}"
    );
    let raw = Dial::new(&authority)?.request(weir.port())?;
    ensure!(gets_in(raw, &Scram::new(PLAIN, "n,,"))?);
    Ok(())
}

/// Answers of a hostile server to the first SCRAM message, in TLS with binding (suite `hazards` has those in clear
/// text).
#[test]
fn sec_22_a_hostile_servers_scram_in_tls_harms_nothing() -> Result<()> {
    let salt = BASE64_STANDARD.encode([7; 16]);
    let long = "n".repeat(1 << 20);
    let firsts = [
        String::new(),
        "r=".to_owned(),
        format!("s={salt},i=4096"),
        format!("r=mine,s={salt},i=4096"),
        format!("r={{nonce}},s={salt},i=4096"),
        "r={nonce}x,s=!!!,i=4096".to_owned(),
        "r={nonce}x,s=,i=4096".to_owned(),
        format!("r={{nonce}}x,s={salt},i=0"),
        format!("r={{nonce}}x,s={salt},i=-1"),
        format!("r={{nonce}}x,s={salt},i=2147483648"),
        format!("r={{nonce}}x,s={salt},i=1000000000"),
        format!("r={{nonce}}x,s={salt},i=99999999999999999999"),
        format!("r={{nonce}}{long},s={salt},i=4096"),
        format!("r={{nonce}}x,s={long},i=4096"),
        format!("m=ext,r={{nonce}}x,s={salt},i=4096"),
        format!("r={{nonce}}\0x,s={salt},i=4096"),
        "e=other-error".to_owned(),
    ];
    let pki = Pki::new()?;
    for first in firsts {
        let config = crate::support::server_tls(&pki)?;
        let script = first.clone();
        let server = Scripted::start(move |conversation| {
            conversation.accept_tls(&config)?;
            conversation.startup()?;
            let offer = b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
            conversation.send(&message(b'R', offer))?;
            let answer = conversation.read_message()?;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let nonce = text.rsplit("r=").next().unwrap_or_default();
            let reply = script.replace("{nonce}", nonce);
            conversation.send(&message(b'R', &[&[0, 0, 0, 11], reply.as_bytes()].concat()))?;
            // Weir must not send a proof after answers like these.
            let proof = conversation.read_message()?;
            bail!("proof {}", proof.body.escape_ascii())
        })?;
        let config = Config::to(server.port())
            .set("failover_hold", "0")
            .userlist("\"postgres\" \"secret\"\n")
            .set_all(pki.server_side("verify-full"));
        let mut weir = Weir::start(&config)?;
        let begun = clock::now();
        let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
        let login = [("user", "postgres"), ("database", "postgres")];
        raw.send(&frontend::startup(frontend::VERSION_3_0, &login))?;
        let words = last_words(&mut raw);
        let what = first.get(..first.len().min(60)).unwrap_or_default();
        check_refused(&words).with_context(|| what.to_owned())?;
        ensure!(
            begun.elapsed() < Duration::from_secs(15),
            "{what}: {:?}",
            begun.elapsed()
        );
        let proofs: Vec<_> = server
            .faults()
            .into_iter()
            .filter(|fault| fault.starts_with("proof"))
            .collect();
        ensure!(proofs.is_empty(), "{what}: {proofs:?}");
        weir.check_healthy()?;
    }
    Ok(())
}

/// Uses PostgreSQL itself, with every kind of key, and binding required.
#[test]
fn sec_62_real_servers_are_bound_to() -> Result<()> {
    for key in [Key::Ecdsa, Key::Rsa] {
        let pki = Pki::new()?;
        let options = weir_conformance::postgres::Options {
            settings: pki.postgres(&Spec::server().key(key))?,
            hba: vec![
                "hostssl all bound 127.0.0.1/32 scram-sha-256".to_owned(),
                "host all bound 127.0.0.1/32 reject".to_owned(),
            ],
            ..Default::default()
        };
        let postgres = weir_conformance::Postgres::start(&options)?;
        let mut beside = Raw::connect(postgres.port(), "postgres")?;
        beside.query(&format!("create role bound login password '{PASSWORD}'"))?;
        let config = Config::to(postgres.port())
            .userlist(&format!("\"bound\" \"{PASSWORD}\"\n\"postgres\" \"\"\n"))
            .set("server_channel_binding", "require")
            .set_all(pki.server_side("verify-full"));
        let mut weir = Weir::start(&config)?;
        let mut raw = weir.connect_as("bound", "postgres")?;
        ensure!(raw.query_one("select current_user")? == "bound");
        // The server trusts this user without a proof, which `require` does not accept.
        let text = refusal(weir.connect_as("postgres", "postgres"));
        ensure!(text.contains("FATAL"), "{text:?}");
        weir.check_healthy()?;
    }
    Ok(())
}
