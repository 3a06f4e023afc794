//! Tests of headers and frames: limits of every tag, hostile lengths, partial input.

use weir_wire::frame::{FrameError, Side, frame, header, length_max};

use crate::hex;

/// Tag bytes and their maximum length word, written down again from PostgreSQL's sources.
const FRONTEND: [(&str, u32); 3] = [("CDEHSXcf", 10_000), ("QPBFd", 0x3fff_fffe), ("p", 65_535)];
const BACKEND: [(&str, u32); 3] = [
    ("TDdVENAt", 0x4000_0003),
    ("S", 1 << 20),
    ("RKZ123CIGHWcnsv", 30_000),
];

fn limits(side: Side) -> [(&'static str, u32); 3] {
    match side {
        Side::Frontend => FRONTEND,
        Side::Backend => BACKEND,
    }
}

fn limit(tag: u8, side: Side) -> Option<u32> {
    limits(side)
        .iter()
        .find(|(tags, _)| tags.as_bytes().contains(&tag))
        .map(|(_, max)| *max)
}

fn bytes(tag: u8, len: u32) -> [u8; 5] {
    let [a, b, c, d] = len.to_be_bytes();
    [tag, a, b, c, d]
}

#[test]
fn every_tag_has_postgresqls_limit_and_every_other_byte_is_unknown() {
    for side in [Side::Frontend, Side::Backend] {
        for tag in 0..=u8::MAX {
            let Some(max) = limit(tag, side) else {
                assert_eq!(
                    header(&bytes(tag, 4), side),
                    Err(FrameError::UnknownTag { tag, side })
                );
                assert_eq!(length_max(tag, side), 0);
                continue;
            };
            let largest = header(&bytes(tag, max), side).unwrap().unwrap();
            assert_eq!((largest.tag, largest.len), (tag, max));
            assert_eq!(largest.total_len(), max as usize + 1);
            assert_eq!(largest.body_len(), max as usize - 4);
            let len = max + 1;
            let expect = Err(FrameError::BadLength {
                tag,
                len,
                max,
                side,
            });
            assert_eq!(header(&bytes(tag, len), side), expect);
        }
    }
}

#[test]
fn sec_21_hostile_lengths_are_refused_with_five_bytes_for_every_tag() {
    let hostile = [
        0,
        1,
        3,
        4,
        5,
        (1 << 31) - 1,
        1 << 31,
        (1 << 31) + 1,
        u32::MAX,
    ];
    for side in [Side::Frontend, Side::Backend] {
        for tag in 0..=u8::MAX {
            for len in hostile {
                let input = bytes(tag, len);
                let result = header(&input, side);
                let is_fine = limit(tag, side).is_some() && matches!(len, 4 | 5);
                assert_eq!(result.is_ok(), is_fine, "{side} tag {tag} length {len}");
                let frame = frame(&input, side);
                assert_eq!(
                    frame.is_err(),
                    result.is_err(),
                    "{side} tag {tag} length {len}"
                );
                assert_eq!(frame.ok().flatten().is_some(), is_fine && len == 4);
            }
        }
    }
}

#[test]
fn a_part_of_a_frame_is_not_an_error() {
    let message = hex("51 0000000d 'select 1' 00");
    for len in 0..message.len() {
        assert_eq!(
            frame(&message[..len], Side::Frontend),
            Ok(None),
            "{len} bytes"
        );
        assert_eq!(
            header(&message[..len], Side::Frontend).unwrap().is_some(),
            len >= 5
        );
    }
}

#[test]
fn a_frame_ends_where_the_next_begins() {
    let stream = hex("5a 00000005 'I' 53 00000006 00 00");
    let first = frame(&stream, Side::Backend).unwrap().unwrap();
    assert_eq!(
        (first.header.tag, first.body, first.raw),
        (b'Z', &b"I"[..], &stream[..6])
    );
    let second = frame(&stream[6..], Side::Backend).unwrap().unwrap();
    assert_eq!((second.header.tag, second.body), (b'S', &[0, 0][..]));
}

#[test]
fn errors_speak_as_postgresql_does() {
    let unknown = header(&bytes(b'x', 4), Side::Frontend).unwrap_err();
    assert_eq!(unknown.to_string(), "invalid frontend message type 120");
    let long = header(&bytes(b'S', 10_001), Side::Frontend).unwrap_err();
    let text = "invalid message length 10001 for frontend message type 83 (4 to 10000 bytes)";
    assert_eq!(long.to_string(), text);
}
