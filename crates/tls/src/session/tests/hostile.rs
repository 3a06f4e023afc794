//! Tests of a hostile end: tampered bytes, close_notify, key updates, partial messages.

use std::io::{Read, Write};

use rustls::crypto::cipher::OutboundPlainMessage;
use rustls::{
    AlertDescription, ClientConnection, ConnectionTrafficSecrets, ContentType,
    SupportedCipherSuite, Tls13CipherSuite,
};

use super::*;

#[test]
fn a_byte_that_was_tampered_with_ends_the_connection_with_an_alert() {
    for version in VERSIONS {
        let (mut client, _) = pair(version);
        let len = seal(&mut client, b"words").len();
        for at in 0..len {
            for mask in [0x01, 0x80, 0xff] {
                tamper(version, at, mask);
            }
        }
    }
}

fn tamper(version: &'static SupportedProtocolVersion, at: usize, mask: u8) {
    let (mut client, mut server) = pair(version);
    let mut records = seal(&mut client, b"words");
    records[at] ^= mask;
    // A head that claims more is detected when more has come.
    let behind = seal(&mut client, &[9; 70_000]);
    let mut out = Vec::new();
    let mut got = Vec::new();
    let outcome = [&records[..], &behind].into_iter().try_for_each(|piece| {
        got.extend(receive(&mut server, piece, &mut out)?.0);
        Ok::<_, TlsFault>(())
    });
    let Err(fault) = outcome else {
        // RFC 8446, 5.1 and 5.2: type and minor version in the head of a sealed record are ignored.
        assert!(at == 0 || at == 2, "{at} ^ {mask:#x} is not noticed");
        assert!(got.starts_with(b"words") && got[5..] == vec![9; 70_000]);
        return;
    };
    assert!(got.is_empty(), "{at} ^ {mask:#x} is opened");
    assert!(matches!(fault, TlsFault::Tls(_)), "{fault}");
    let heard = receive(&mut client, &out, &mut Vec::new());
    let heard = heard.expect_err("an alert");
    let TlsFault::Tls(Error::AlertReceived(alert)) = heard else {
        panic!("{at} ^ {mask:#x}: {heard}");
    };
    let expected = [
        AlertDescription::BadRecordMac,
        AlertDescription::DecodeError,
        AlertDescription::RecordOverflow,
        AlertDescription::UnexpectedMessage,
        AlertDescription::IllegalParameter,
        AlertDescription::ProtocolVersion,
    ];
    assert!(expected.contains(&alert), "{at} ^ {mask:#x}: {alert:?}");
}

#[test]
fn a_record_that_is_repeated_left_out_or_swapped_is_refused() {
    for version in VERSIONS {
        for order in [&[0, 0][..], &[1], &[1, 0], &[0, 2]] {
            let (mut client, mut server) = pair(version);
            let records: Vec<_> = (0..3)
                .map(|n| seal(&mut client, format!("{n}").as_bytes()))
                .collect();
            let told: Vec<_> = order.iter().flat_map(|n| records[*n].clone()).collect();
            assert!(
                receive(&mut server, &told, &mut Vec::new()).is_err(),
                "{order:?}"
            );
        }
    }
}

#[test]
fn nothing_behind_a_good_bye_is_delivered() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        let mut records = seal(&mut client, b"last words");
        records.extend(client.close());
        assert_eq!(client.close(), b"", "said once");
        records.extend_from_slice(b"\x17\x03\x03\0\x05words");
        let mut out = Vec::new();
        let (plain, closed) = receive(&mut server, &records, &mut out).unwrap();
        assert_eq!((&plain[..], closed), (&b"last words"[..], true));
        // Bytes after close_notify are ignored.
        let later = receive(&mut server, b"\x17\x03\x03\0\x05words", &mut out);
        assert!(later.is_err() || later.unwrap().0.is_empty());
        // The other direction is still open.
        let records = seal(&mut server, b"answer");
        assert_eq!(open(&mut client, &records), b"answer");
        let bye = server.close();
        let (plain, closed) = receive(&mut client, &bye, &mut out).unwrap();
        assert!(plain.is_empty() && closed && out.is_empty());
    }
}

#[test]
fn a_good_bye_is_heard_wherever_it_is_cut() {
    for version in VERSIONS {
        let (mut client, _) = pair(version);
        let len = client.close().len();
        for cut in 0..=len {
            let (mut client, mut server) = pair(version);
            let bye = client.close();
            let closed: Vec<_> = split(&bye, &[cut])
                .into_iter()
                .map(|piece| receive(&mut server, piece, &mut Vec::new()).unwrap().1)
                .collect();
            assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
            assert_eq!(closed.last(), Some(&true));
        }
    }
}

/// Seals a record of any type as the client, bypassing rustls' rules. Uses up the client's keys.
fn forge(client: Session, typ: ContentType, plain: &[u8]) -> Vec<u8> {
    let Connection::Client(connection) = client.connection else {
        panic!("that is the other end");
    };
    let suite = connection.negotiated_cipher_suite();
    let Some(SupportedCipherSuite::Tls13(suite)) = suite else {
        panic!("not TLS 1.3");
    };
    let (seq, keys) = connection.dangerous_into_kernel_connection().unwrap().0.tx;
    let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = keys else {
        panic!("another suite");
    };
    let mut encrypter = suite.aead_alg.encrypter(key, iv);
    let message = OutboundPlainMessage {
        typ,
        version: ProtocolVersion::TLSv1_2,
        payload: plain.into(),
    };
    encrypter.encrypt(message, seq).unwrap().encode()
}

#[test]
fn sec_21_half_a_handshake_message_hinders_nobody_who_speaks() {
    // A key update has five bytes.
    for half in [&b"\x18"[..], b"\x18\0\0", b"\x18\0\0\x01"] {
        let (client, mut server) = pair(&TLS13);
        let record = forge(client, ContentType::Handshake, half);
        for piece in split(&record, &[3]) {
            assert_eq!(open(&mut server, piece), b"");
        }
        // A truncated message looks like a slow one.
        assert!(!seal(&mut server, b"words").is_empty());
        assert_eq!(open(&mut server, b"\x17"), b"");
        assert!(!seal(&mut server, &[1; 40_000]).is_empty());
        assert!(!server.close().is_empty());
    }
}

#[test]
fn sec_09_a_handshake_inside_of_the_session_ends_it() {
    for message in [
        &b"\x01\0\0\x01\0"[..],
        b"\x18\0\0\x01\x07",
        b"\x63\0\0\0\x63\0\0\0",
    ] {
        let (client, mut server) = pair(&TLS13);
        let record = forge(client, ContentType::Handshake, message);
        let mut out = Vec::new();
        let fault = receive(&mut server, &record, &mut out).unwrap_err();
        assert!(!out.is_empty(), "an alert");
        // The first fault stays.
        let again = receive(&mut server, &record, &mut Vec::new());
        assert_eq!(again, Err(fault.clone()));
        assert_eq!(server.seal(b"words", &mut [0; 200]), Err(fault));
        assert_eq!(server.close(), b"");
    }
}

// === keys ===

/// A plain rustls client, after a handshake with Weir's server end.
fn foreign_client(terms: &Terms) -> (ClientConnection, Session) {
    let name = ServerName::try_from(NAME).unwrap();
    let mut client = ClientConnection::new(terms.client_config(), name).unwrap();
    let mut server = End::Shaking(Box::new(terms.accept(true)));
    let mut answer = Vec::new();
    while client.is_handshaking() || !server.is_up() {
        server = server.take(&written(&mut client), &mut answer).unwrap();
        hear(&mut client, &std::mem::take(&mut answer));
    }
    (client, server.session())
}

fn written(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn hear(client: &mut ClientConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        let state = client.process_new_packets().unwrap();
        let start = plain.len();
        plain.resize(start + state.plaintext_bytes_to_read(), 0);
        client.reader().read_exact(&mut plain[start..]).unwrap();
    }
    plain
}

#[test]
fn sec_09_a_key_update_is_followed_and_answered_before_the_next_bytes() {
    let (mut client, mut server) = foreign_client(&Terms::new(&TLS13));
    for round in 0..5 {
        client.refresh_traffic_keys().unwrap();
        client.writer().write_all(b"with new keys").unwrap();
        // Several unanswered updates get one answer.
        if round == 3 {
            client.refresh_traffic_keys().unwrap();
        }
        let records = written(&mut client);
        let (mut got, mut out) = (Vec::new(), Vec::new());
        for piece in records.chunks(7) {
            let (plain, closed) = receive(&mut server, piece, &mut out).unwrap();
            assert!(!closed);
            got.extend(plain);
        }
        assert_eq!(got, b"with new keys");
        let plain_len = 2 * RECORD_LEN;
        let update_len = out.len();
        out.extend(seal(&mut server, &vec![5; plain_len]));
        // The output stays within the reported room, although the answer goes in front.
        assert!(out.len() - update_len <= Session::sealed_len_max(plain_len));
        assert!(
            out.len() > plain_len + 3 * 22,
            "the answer is a record of its own"
        );
        assert_eq!(hear(&mut client, &out), vec![5; plain_len]);
    }
    client.writer().write_all(b"still here").unwrap();
    assert_eq!(open(&mut server, &written(&mut client)), b"still here");
}

/// Settings with the first suite of a version, whose keys may seal only this many records.
fn with_limit(version: &'static SupportedProtocolVersion, limit: u64) -> Terms {
    let mut terms = Terms::new(version);
    let mut provider = CryptoProvider::clone(&terms.provider);
    provider.cipher_suites = vec![match aws_lc_rs::DEFAULT_CIPHER_SUITES[0] {
        SupportedCipherSuite::Tls13(suite) => {
            let mut limited = Tls13CipherSuite {
                common: rustls::crypto::CipherSuiteCommon {
                    suite: suite.common.suite,
                    hash_provider: suite.common.hash_provider,
                    confidentiality_limit: suite.common.confidentiality_limit,
                },
                ..*suite
            };
            limited.common.confidentiality_limit = limit;
            SupportedCipherSuite::Tls13(Box::leak(Box::new(limited)))
        }
        SupportedCipherSuite::Tls12(_) => panic!("the first suite is one of TLS 1.3"),
    }];
    terms.provider = Arc::new(provider);
    terms
}

#[test]
fn a_connection_outlives_its_keys() {
    let (mut client, mut server) = pair_of(&with_limit(&TLS13, 8));
    for round in 0..100 {
        talk(&mut client, &mut server);
        // Several records at once, also beyond the limit.
        let sent = vec![round; 5 * RECORD_LEN + 1];
        let records = seal(&mut server, &sent);
        assert!(open(&mut client, &records) == sent, "{round}");
    }
}
