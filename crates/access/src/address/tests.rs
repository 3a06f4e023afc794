//! Tests of networks, against an oracle that compares bit by bit, and of names.

use proptest::prelude::*;

use super::*;
use crate::tokens::{Comments, Tokens};

/// Parses an address, and a mask behind it if there is one.
fn parse(text: &str) -> Result<Address, Mistake> {
    let mut tokens = Tokens::new(text, Comments::Hash);
    let (first, _) = tokens.next()?.expect("there is an address");
    let second = tokens.next()?.map(|pair| pair.0);
    Address::parse(&first, || {
        second.as_ref().ok_or(Mistake::Missing("mask", ""))
    })
}

fn fits(address: &str, ip: &str) -> bool {
    let address = parse(address).expect("the address is right");
    let ip: IpAddr = ip.parse().unwrap();
    address.fits(ip.to_canonical(), None, &Facts::default()) == Reach::Known(Fit::Yes)
}

#[test]
fn networks_hold_their_addresses() {
    for (network, inside, outside) in [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
        ("10.9.9.9/8", "10.0.0.1", "9.255.255.255"),
        ("192.168.1.7/32", "192.168.1.7", "192.168.1.6"),
        ("192.168.0.0/23", "192.168.1.255", "192.168.2.0"),
        ("127.0.0.0 255.255.255.0", "127.0.0.9", "127.0.1.9"),
        ("10.0.0.5 255.0.0.255", "10.7.7.5", "10.7.7.6"),
        ("0.0.0.0/0", "255.255.255.255", "::1"),
        ("::1/128", "::1", "::2"),
        ("::/0", "fe80::1", "10.0.0.1"),
        ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
        ("fe80:: ffff:ffff::", "fe80::1", "fe81::1"),
    ] {
        assert!(fits(network, inside), "{network} {inside}");
        assert!(!fits(network, outside), "{network} {outside}");
    }
}

#[test]
fn a_mapped_address_is_the_ipv4_address_it_stands_for() {
    assert!(fits("10.0.0.0/8", "::ffff:10.1.2.3"));
    assert!(!fits("::/0", "::ffff:10.1.2.3"));
    // In PostgreSQL an entry in IPv6 form fits only IPv6 connections.
    assert!(!fits("::ffff:10.0.0.0/104", "10.1.2.3"));
}

#[test]
fn bad_addresses_are_told_apart() {
    let bad = |text: &str| parse(text).unwrap_err();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        bad("10.0.0.256/8"),
        Mistake::BadAddress(text("10.0.0.256/8"))
    );
    assert_eq!(bad("10.0.0/24"), Mistake::BadAddress(text("10.0.0/24")));
    assert_eq!(
        bad("010.0.0.1/32"),
        Mistake::BadAddress(text("010.0.0.1/32"))
    );
    assert_eq!(
        bad("fe80::1%eth0"),
        Mistake::BadAddress(text("fe80::1%eth0"))
    );
    assert_eq!(bad("1.2.3"), Mistake::BadAddress(text("1.2.3")));
    for cidr in [
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/",
        "::/+8",
        "::/-1",
        "::/0008",
        "::/x",
    ] {
        assert_eq!(bad(cidr), Mistake::BadCidr(text(cidr)));
    }
    assert_eq!(bad("10.0.0.0 md5"), Mistake::BadMask(text("md5")));
    assert_eq!(bad("10.0.0.0 ::"), Mistake::MaskFamily);
    assert!(matches!(bad("10.0.0.0"), Mistake::Missing("mask", _)));
    assert_eq!(
        bad("db.example/24"),
        Mistake::HostNameWithMask(text("db.example/24"))
    );
    for name in [".", "\"\"", "a..b", "a*", "*.example", "a.", "ä.example"] {
        assert!(matches!(bad(name), Mistake::BadHostName(_)), "{name}");
    }
}

#[test]
fn host_names_are_compared_without_case_and_only_when_confirmed() {
    let ip = [10, 0, 0, 1].into();
    for (pattern, name, expect) in [
        ("db.example", "DB.Example", true),
        ("db.example", "x.db.example", false),
        (".example", "db.example", true),
        (".EXAMPLE", "a.b.example", true),
        (".example", "example", false),
        (".example", "badexample", false),
        (".example", ".example", true),
    ] {
        let facts = Facts {
            host_name: Answer::Known(Some(name)),
            ..Facts::default()
        };
        let found = parse(pattern).unwrap().fits(ip, None, &facts);
        assert_eq!(
            found,
            Reach::Known(Fit::from_bool(expect)),
            "{pattern} {name}"
        );
    }
    let fit = |host_name| {
        let facts = Facts {
            host_name,
            ..Facts::default()
        };
        parse(".example").unwrap().fits(ip, None, &facts)
    };
    assert_eq!(fit(Answer::Known(None)), Reach::Known(Fit::No));
    assert_eq!(
        fit(Answer::NotAsked),
        Reach::Known(Fit::Needs(Fact::HostName))
    );
    assert_eq!(
        fit(Answer::Failed),
        Reach::Known(Fit::Unknown(Fact::HostName))
    );
}

#[test]
fn samehost_and_samenet_look_at_the_interfaces() {
    let interfaces = [
        Interface {
            address: [10, 1, 0, 1].into(),
            prefix: 16,
        },
        Interface {
            address: "fd00::1".parse().unwrap(),
            prefix: 64,
        },
    ];
    for (ip, host, net) in [
        ("10.1.0.1", true, true),
        ("10.1.255.9", false, true),
        ("10.2.0.1", false, false),
        ("fd00::1", true, true),
        ("fd00::2", false, true),
        ("fd00:0:0:1::1", false, false),
    ] {
        let ip = ip.parse().unwrap();
        let reach = |word| {
            let address = parse(word).unwrap();
            address.fits(ip, Some(&interfaces), &Facts::default())
        };
        assert_eq!(
            reach("samehost"),
            Reach::Known(Fit::from_bool(host)),
            "{ip}"
        );
        assert_eq!(reach("samenet"), Reach::Known(Fit::from_bool(net)), "{ip}");
    }
    let unknown = parse("samenet")
        .unwrap()
        .fits([10, 1, 0, 1].into(), None, &Facts::default());
    assert_eq!(unknown, Reach::NoInterfaces);
}

#[test]
fn a_quoted_keyword_is_a_host_name() {
    assert_eq!(
        parse("\"all\"").unwrap(),
        Address::HostName("all".to_owned())
    );
    assert_eq!(parse("all").unwrap(), Address::All);
}

/// The bits of an address, first bit first.
fn bits(ip: IpAddr) -> Vec<bool> {
    let bytes = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let bit = |byte: u8, index: u8| byte & (0x80 >> index) != 0;
    bytes
        .iter()
        .flat_map(|byte| (0..8).map(|index| bit(*byte, index)))
        .collect()
}

/// An address and another one that differs from it in a few bits.
fn neighbours() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let v4 = (any::<u32>(), any::<u32>(), 0..=32_u32).prop_map(|(a, noise, keep)| {
        let near = a ^ noise.checked_shr(keep).unwrap_or_default();
        (Ipv4Addr::from(a).into(), Ipv4Addr::from(near).into())
    });
    let v6 = (any::<u128>(), any::<u128>(), 0..=128_u32).prop_map(|(a, noise, keep)| {
        let near = a ^ noise.checked_shr(keep).unwrap_or_default();
        (Ipv6Addr::from(a).into(), Ipv6Addr::from(near).into())
    });
    prop_oneof![v4, v6]
}

proptest! {
    #[test]
    fn a_network_agrees_with_an_oracle_that_goes_bit_by_bit(
        (base, ip) in neighbours(),
        length in 0..=128_usize,
    ) {
        let length = length.min(bits(base).len());
        let same = bits(base).iter().zip(bits(ip)).take(length).all(|(a, b)| *a == b);
        let Address::Network(network) = parse(&format!("{base}/{length}")).unwrap() else {
            panic!("no network");
        };
        prop_assert_eq!(network.contains(ip), same);
    }

    #[test]
    fn a_mask_agrees_with_an_oracle_that_goes_bit_by_bit(
        (base, ip) in neighbours(),
        mask in any::<u128>(),
    ) {
        let mask = match base {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from((mask >> 96) as u32)),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from(mask)),
        };
        let columns = bits(base).into_iter().zip(bits(ip)).zip(bits(mask));
        let same = columns.into_iter().all(|((a, b), counts)| a == b || !counts);
        let Address::Network(network) = parse(&format!("{base} {mask}")).unwrap() else {
            panic!("no network");
        };
        prop_assert_eq!(network.contains(ip), same);
        prop_assert_eq!(parse(&network.to_string()).unwrap(), Address::Network(network));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[0-9a-f:./%\\-*\"]{1,30}") {
        if !text.contains('"') {
            let _ = parse(&text);
        }
    }
}
