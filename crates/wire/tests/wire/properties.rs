//! Properties over many random inputs: both directions agree, cuts do not matter, nothing panics.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use weir_wire::frame::{FrameError, Side, frame};
use weir_wire::startup::{Startup, Version, startup};
use weir_wire::{encode, fuzzing};

use crate::messages::{any_back, any_front};

/// Uses the same inputs in every run, unless `PROPTEST_RNG_SEED` is set.
fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..Default::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x5745_4952);
    }
    config
}

/// Returns the complete frames of bytes that arrive in pieces, and the bytes left over.
fn collect(pieces: &[&[u8]], side: Side) -> Result<(Vec<Vec<u8>>, Vec<u8>), FrameError> {
    let mut frames = Vec::new();
    let mut buf: Vec<u8> = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        let mut taken = 0;
        while let Some(frame) = frame(&buf[taken..], side)? {
            frames.push(frame.raw.to_vec());
            taken += frame.raw.len();
        }
        buf.drain(..taken);
    }
    Ok((frames, buf))
}

fn cut<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut start = 0;
    ends.iter()
        .map(|&end| &bytes[std::mem::replace(&mut start, end)..end])
        .collect()
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..12)
}

/// Bytes of which a few are replaced.
fn damage(bytes: &mut [u8], changes: &[(Index, u8)]) {
    for (index, value) in changes {
        if !bytes.is_empty() {
            bytes[index.index(bytes.len())] = *value;
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(Index, u8)>> {
    let value = prop_oneof![Just(0), Just(0x7f), Just(0xff), any::<u8>()];
    prop::collection::vec((any::<Index>(), value), 0..4)
}

fn pairs() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let name = prop::collection::vec(b'v'..=u8::MAX, 1..12);
    let value = prop::collection::vec(1..=u8::MAX, 0..12);
    prop::collection::vec((name, value), 0..6)
}

fn every_target(bytes: &[u8]) {
    fuzzing::frame(bytes);
    fuzzing::startup(bytes);
    fuzzing::options(bytes);
    fuzzing::frontend(bytes);
    fuzzing::backend(bytes);
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn sec_20_every_frontend_encoder_makes_exactly_one_frame(message in any_front()) {
        let mut buf = Vec::new();
        message.encode(&mut buf).unwrap();
        let frame = frame(&buf, Side::Frontend).unwrap().expect("one whole frame");
        prop_assert_eq!(frame.raw, &buf[..]);
        message.assert_same(frame);
    }

    #[test]
    fn sec_20_every_backend_encoder_makes_exactly_one_frame(message in any_back()) {
        let mut buf = Vec::new();
        message.encode(&mut buf).unwrap();
        let frame = frame(&buf, Side::Backend).unwrap().expect("one whole frame");
        prop_assert_eq!(frame.raw, &buf[..]);
        message.assert_same(frame);
    }

    #[test]
    fn any_cut_of_a_frontend_stream_gives_the_same_frames(
        messages in prop::collection::vec(any_front(), 0..8),
        cuts in cuts(),
    ) {
        let mut stream = Vec::new();
        let mut ends = Vec::new();
        for message in &messages {
            let start = stream.len();
            message.encode(&mut stream).unwrap();
            ends.push(stream[start..].to_vec());
        }
        prop_assert_eq!(collect(&cut(&stream, &cuts), Side::Frontend), Ok((ends, vec![])));
    }

    #[test]
    fn any_cut_of_a_damaged_stream_gives_the_same_outcome(
        messages in prop::collection::vec(any_back(), 0..8),
        changes in changes(),
        cuts in cuts(),
    ) {
        let mut stream = Vec::new();
        for message in &messages {
            message.encode(&mut stream).unwrap();
        }
        damage(&mut stream, &changes);
        let whole = collect(&[&stream], Side::Backend);
        prop_assert_eq!(collect(&cut(&stream, &cuts), Side::Backend), whole);
    }

    #[test]
    fn startup_round_trip(minor in any::<u16>(), params in pairs()) {
        let params: Vec<_> = params.iter().map(|(n, v)| (&n[..], &v[..])).collect();
        let version = Version { major: 3, minor };
        let mut buf = Vec::new();
        encode::startup(&mut buf, version, &params).unwrap();
        let Ok(Some((Startup::Startup(message), len))) = startup(&buf) else {
            panic!("not a startup message")
        };
        prop_assert_eq!(len, buf.len());
        prop_assert_eq!(message.version, version);
        prop_assert_eq!(message.params().collect::<Vec<_>>(), params);
    }

    #[test]
    fn a_head_and_its_rest_are_the_whole_message(
        portal in "[^\0]{0,9}", statement in "[^\0]{0,9}", rest in any::<Vec<u8>>(),
    ) {
        let (portal, statement) = (portal.as_bytes(), statement.as_bytes());
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        encode::bind_renamed(&mut whole, portal, statement, &rest).unwrap();
        encode::bind_head(&mut parts, portal, statement, rest.len()).unwrap();
        parts.extend_from_slice(&rest);
        prop_assert_eq!(&parts, &whole);
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        encode::parse(&mut whole, statement, portal, &rest).unwrap();
        encode::parse_head(&mut parts, statement, portal.len() + 1 + rest.len()).unwrap();
        parts.extend_from_slice(portal);
        parts.push(0);
        parts.extend_from_slice(&rest);
        prop_assert_eq!(parts, whole);
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn sec_21_decoders_survive_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        every_target(&bytes);
    }

    #[test]
    fn sec_24_options_survive_bytes_that_matter(
        bytes in prop::collection::vec(prop::sample::select(&b"-c=\\ \t'\"ab\xff"[..]), 0..200),
    ) {
        fuzzing::options(&bytes);
    }

    #[test]
    fn sec_29_startup_survives_damage(params in pairs(), changes in changes()) {
        let params: Vec<_> = params.iter().map(|(n, v)| (&n[..], &v[..])).collect();
        let mut buf = Vec::new();
        encode::startup(&mut buf, Version::V3_0, &params).unwrap();
        damage(&mut buf, &changes);
        fuzzing::startup(&buf);
    }

    #[test]
    fn sec_23_views_survive_damage(
        front in any_front(), back in any_back(), changes in changes(), cut in any::<Index>(),
    ) {
        let mut buf = Vec::new();
        front.encode(&mut buf).unwrap();
        damage(&mut buf[5..], &changes);
        fuzzing::frontend(&buf[5..]);
        fuzzing::frontend(&buf[5..5 + cut.index(buf.len() - 4)]);
        buf.clear();
        back.encode(&mut buf).unwrap();
        damage(&mut buf[5..], &changes);
        fuzzing::backend(&buf[5..]);
        fuzzing::backend(&buf[5..5 + cut.index(buf.len() - 4)]);
    }
}
