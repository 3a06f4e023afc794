//! Clients behind a proxy that sends the header of the PROXY protocol.

use weir_wire::encode;
use weir_wire::startup::Version;

use super::world::World;

const PROXY: &str = "192.0.2.1";
const LINES: &str = "proxy_protocol_from = 192.0.2.1, 10.0.0.0/8\napplication_name_add_host = 1";

/// Returns a header (version 2) with this command and family, for 198.51.100.7:50000.
fn header(command: u8, family: u8) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    bytes.extend([command, family, 0, 12]);
    bytes.extend([198, 51, 100, 7, 192, 0, 2, 1, 0xc3, 0x50, 0x19, 0x20]);
    bytes
}

fn startup() -> Vec<u8> {
    let mut packet = Vec::new();
    let parameters: [(&[u8], &[u8]); 3] = [
        (b"user", b"ann"),
        (b"database", b"shop"),
        (b"application_name", b"app"),
    ];
    encode::startup(&mut packet, Version::V3_0, &parameters).unwrap();
    packet
}

/// Returns the name of the application that a client from this address is told after it has sent these parts.
#[track_caller]
fn name(address: &str, parts: &[&[u8]]) -> String {
    let mut world = World::new(1, LINES);
    let client = world.connect_from(address);
    for part in parts {
        world.callers[client].say(part);
        world.settle();
    }
    let heard = world.callers[client].heard();
    let at = heard.find("S(application_name=").expect(&heard);
    heard[at..].split(')').next().unwrap().to_owned()
}

#[test]
fn the_header_names_the_address_of_the_client() {
    let (header, startup) = (header(0x21, 0x11), startup());
    let expected = "S(application_name=app - 198.51.100.7:50000";
    let all = [&header[..], &startup].concat();
    assert_eq!(name(PROXY, &[&all]), expected);
    assert_eq!(name("10.1.2.3", &[&all]), expected);
    for cut in [1, 12, 15, 16, 27, 28, 29, 40] {
        let (first, rest) = all.split_at(cut);
        assert_eq!(name(PROXY, &[first, rest]), expected, "{cut}");
    }
    let bytes: Vec<&[u8]> = all.chunks(1).collect();
    assert_eq!(name(PROXY, &bytes), expected);
}

#[test]
fn a_proxy_that_speaks_for_itself_keeps_its_address() {
    let expected = "S(application_name=app - 192.0.2.1:0";
    for (command, family) in [(0x20, 0x11), (0x21, 0x00)] {
        let all = [header(command, family), startup()].concat();
        assert_eq!(name(PROXY, &[&all]), expected);
    }
}

#[test]
fn other_addresses_speak_the_ordinary_protocol() {
    assert_eq!(
        name("192.0.2.2", &[&startup()]),
        "S(application_name=app - 192.0.2.2:0"
    );
    let mut world = World::new(1, LINES);
    let client = world.connect_from("192.0.2.2");
    let heard = world.ask(client, &[header(0x21, 0x11), startup()].concat());
    assert!(!heard.contains("Z(I)"), "{heard}");
}

#[test]
fn a_client_cannot_add_a_header_of_its_own() {
    let ssl_request = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let (ours, theirs) = (header(0x21, 0x11), header(0x21, 0x11));
    for between in [&b""[..], &ssl_request] {
        let mut world = World::new(1, LINES);
        let client = world.connect_from(PROXY);
        let heard = world.ask(client, &[&ours, between, &theirs, &startup()].concat());
        // A second header is a start-up packet of an impossible length.
        assert!(!heard.contains("Z(I)"), "{heard}");
        assert!(world.callers[client].is_closed());
    }
}

#[test]
fn a_connection_of_a_proxy_without_the_header_is_closed() {
    let mut world = World::new(1, LINES);
    for bytes in [
        &startup()[..],
        b"\x16",
        b"PROXY TCP4 ",
        b"\r\n\r\n\0\r\nQUIT\n\x11",
    ] {
        let client = world.connect_from(PROXY);
        assert_eq!(world.ask(client, bytes), "");
        assert!(world.callers[client].is_closed(), "{bytes:?}");
    }
    // A reload turns the option off, and then on.
    world.reload("");
    let client = world.connect_from(PROXY);
    assert!(world.ask(client, &startup()).ends_with("Z(I)"));
    world.reload(LINES);
    let client = world.connect_from(PROXY);
    assert_eq!(world.ask(client, &startup()), "");
}
