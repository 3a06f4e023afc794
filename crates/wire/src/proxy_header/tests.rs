//! Headers as HAProxy writes them, at every cut, and random bytes.

use super::*;

/// Returns a header with this command, family and rest.
fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend([command, family]);
    bytes.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
    bytes.extend(rest);
    bytes
}

fn v4() -> Vec<u8> {
    // 192.0.2.7:50000 to 192.0.2.1:6432.
    vec![192, 0, 2, 7, 192, 0, 2, 1, 0xc3, 0x50, 0x19, 0x20]
}

fn v6(source: &str) -> Vec<u8> {
    let source: Ipv6Addr = source.parse().unwrap();
    [&source.octets()[..], &[0; 16], &[0xc3, 0x50, 0x19, 0x20]].concat()
}

/// Checks the source of a header, at every cut and with bytes behind it.
#[track_caller]
fn check(bytes: &[u8], source: Option<&str>) {
    for cut in 0..bytes.len() {
        assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut}");
    }
    let len = bytes.len();
    let source = source.map(|source| source.parse().unwrap());
    let expected = Ok(Some(ProxyHeader { len, source }));
    assert_eq!(parse(bytes), expected);
    assert_eq!(parse(&[bytes, b"\0\0\0\x08"].concat()), expected);
}

#[test]
fn the_source_of_a_stream_is_read_and_extensions_are_skipped() {
    check(&header(0x21, 0x11, &v4()), Some("192.0.2.7:50000"));
    check(
        &header(0x21, 0x21, &v6("2001:db8::7")),
        Some("[2001:db8::7]:50000"),
    );
    check(
        &header(0x21, 0x21, &v6("::ffff:192.0.2.7")),
        Some("192.0.2.7:50000"),
    );
    // PP2_TYPE_CRC32C and PP2_TYPE_NOOP.
    let extended = [&v4()[..], &[0x03, 0, 4, 1, 2, 3, 4, 0x04, 0, 0]].concat();
    check(&header(0x21, 0x11, &extended), Some("192.0.2.7:50000"));
    let longest = [v4(), vec![0; LEN_MAX - FIXED_LEN - 12]].concat();
    check(&header(0x21, 0x11, &longest), Some("192.0.2.7:50000"));
}

#[test]
fn a_header_without_a_known_source_leaves_the_address_of_the_connection() {
    check(&header(0x20, 0x00, &[]), None);
    check(&header(0x20, 0x11, &v4()), None);
    check(&header(0x21, 0x00, &[]), None);
    check(&header(0x21, 0x31, &[0; 216]), None);
}

#[test]
fn bytes_that_never_become_a_header_are_refused_at_once() {
    let refused = |bytes: &[u8], why: ProxyHeaderError| assert_eq!(parse(bytes), Err(why));
    // An SSLRequest, a TLS handshake, and version 1.
    refused(b"\0", ProxyHeaderError::Missing);
    refused(b"\x16\x03\x01", ProxyHeaderError::Missing);
    refused(b"PROXY TCP4 192.0.2.7", ProxyHeaderError::Missing);
    refused(b"\r\n\r\n\0\r\nQUIX", ProxyHeaderError::Missing);
    refused(
        &header(0x11, 0x11, &v4())[..13],
        ProxyHeaderError::Command(0x11),
    );
    refused(
        &header(0x22, 0x11, &v4())[..13],
        ProxyHeaderError::Command(0x22),
    );
    // UDP.
    refused(&header(0x21, 0x12, &v4()), ProxyHeaderError::Family(0x12));
    refused(&header(0x21, 0x11, &v4()[..11]), ProxyHeaderError::TooShort);
    refused(
        &header(0x21, 0x21, &v6("::1")[..35]),
        ProxyHeaderError::TooShort,
    );
    let long = header(0x21, 0x11, &vec![0; LEN_MAX - FIXED_LEN + 1]);
    refused(&long[..FIXED_LEN], ProxyHeaderError::TooLong(LEN_MAX + 1));
}

/// Feeds headers with random changes, byte by byte. A verdict never changes when more bytes come, and comes within the
/// limit.
#[test]
fn random_bytes_get_one_verdict_within_the_limit() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..20_000 {
        let rest_len = random(600);
        let rest: Vec<u8> = (0..rest_len)
            .map(|_| random(256).try_into().unwrap())
            .collect();
        let family = [0x00, 0x11, 0x21, 0x31, 0x12][random(5)];
        let mut bytes = header([0x20, 0x21][random(2)], family, &rest);
        for _ in 0..random(3) {
            let at = random(bytes.len().min(20));
            bytes[at] = random(256).try_into().unwrap();
        }
        let mut verdict = None;
        for end in 0..=bytes.len() {
            match (parse(&bytes[..end]), verdict) {
                (Ok(None), None) => assert!(end < LEN_MAX, "no verdict after {end} bytes"),
                (found, None) => verdict = Some(found),
                (found, Some(first)) => assert_eq!(found, first),
            }
            if let Some(Ok(Some(header))) = verdict {
                assert!(header.len <= LEN_MAX && header.len <= end);
            }
        }
    }
}
