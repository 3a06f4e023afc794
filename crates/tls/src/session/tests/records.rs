//! Tests of records: sealed data is opened however it is cut, without a buffer being kept.

use weir_testkit::cuts::Cuts;

use super::*;

#[test]
fn what_is_sealed_is_opened_however_it_is_cut() {
    let mut dice = Dice::new(3);
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        let lens = [
            0,
            1,
            2,
            100,
            16_383,
            16_384,
            16_385,
            65_536,
            100_000,
            1 << 20,
        ];
        let more: Vec<_> = (0..40).map(|_| dice.below(40_000)).collect();
        for len in lens.into_iter().chain(more) {
            let sent = noise(len, &mut dice);
            let records = seal(&mut client, &sent);
            let mut got = Vec::new();
            for piece in Cuts::random(dice.roll()).pieces(&records) {
                // Received bytes are kept once, and only if they cannot be opened yet.
                got.extend(open(&mut server, piece));
                assert!(
                    server.rest.len() < RECORD_LEN + 256,
                    "{}",
                    server.rest.len()
                );
            }
            assert!(got == sent, "{len} bytes");
            assert!(!server.has_partial_record());
        }
        talk(&mut client, &mut server);
    }
}

#[test]
fn records_are_opened_byte_by_byte() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        let sent = noise(300, &mut Dice::new(4));
        let mut records = seal(&mut client, &sent[..100]);
        records.extend(seal(&mut client, &sent[100..]));
        let mut got = Vec::new();
        for byte in records.chunks(1) {
            got.extend(open(&mut server, byte));
        }
        assert_eq!(got, sent);
    }
}

#[test]
fn several_records_and_a_part_of_one_come_in_one_receive() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        let mut records: Vec<_> = (0..10)
            .flat_map(|n| seal(&mut client, format!("part {n};").as_bytes()))
            .collect();
        let half = records.split_off(records.len() - 3);
        let opened = open(&mut server, &records);
        assert_eq!(
            opened,
            b"part 0;part 1;part 2;part 3;part 4;part 5;part 6;part 7;part 8;"
        );
        assert!(server.has_partial_record());
        assert_eq!(open(&mut server, &half), b"part 9;");
        assert!(!server.has_partial_record());
    }
}

#[test]
fn a_partial_record_that_is_put_back_waits_as_before() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        let records = seal(&mut client, b"words");
        for cut in 1..records.len() {
            let mut buffer = vec![0; 100];
            assert_eq!(open(&mut server, &records[..cut]), b"");
            for _ in 0..2 {
                let kept = server.take_partial(&mut buffer);
                assert_eq!(buffer[..kept], records[..cut]);
                assert!(!server.has_partial_record());
                server.put_back(&buffer[..kept]);
                assert!(server.has_partial_record());
            }
            // A buffer that is too short leaves the partial record in place.
            assert_eq!(server.take_partial(&mut buffer[..cut - 1]), 0);
            assert!(server.has_partial_record());
            let kept = server.take_partial(&mut buffer);
            assert_eq!(kept, cut);
        }
        assert_eq!(open(&mut server, &records), b"words");
    }
}

#[test]
fn an_idle_session_owns_no_buffer() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        assert_eq!((client.rest.capacity(), server.rest.capacity()), (0, 0));
        let records = seal(&mut client, &[7; 40_000]);
        for piece in records.chunks(1000) {
            open(&mut server, piece);
        }
        talk(&mut client, &mut server);
        assert_eq!((client.rest.capacity(), server.rest.capacity()), (0, 0));
        server.put_back(&[]);
        assert_eq!(server.rest.capacity(), 0);
    }
}

#[test]
fn the_room_that_sealing_asks_for_is_enough_and_not_much_more() {
    for version in VERSIONS {
        let (mut client, mut server) = pair(version);
        let around = (0..6).flat_map(|count| {
            let edge = count * RECORD_LEN;
            edge.saturating_sub(3)..edge + 4
        });
        for len in around.chain([1 << 20, (1 << 20) - 1]) {
            let plain = vec![1; len];
            let mut room = vec![0; Session::sealed_len_max(len)];
            let used = client.seal(&plain, &mut room).unwrap();
            assert!(
                used >= len && room.len() - used <= 2 * SLACK + used / 500,
                "{len}: {used}"
            );
            assert!(open(&mut server, &room[..used]) == plain, "{len}");
        }
        // Too little room is an error that does not harm the connection.
        assert!(client.seal(b"words", &mut [0; 10]).is_err());
        talk(&mut client, &mut server);
    }
}
