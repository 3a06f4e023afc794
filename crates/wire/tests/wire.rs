//! Tests of the wire crate from outside: exact bytes, refusals, and agreement of both directions.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, as in tests"
)]

#[path = "wire/decoders.rs"]
mod decoders;
#[path = "wire/encoders.rs"]
mod encoders;
#[path = "wire/frames.rs"]
mod frames;
#[path = "wire/messages.rs"]
mod messages;
#[path = "wire/openings.rs"]
mod openings;
#[path = "wire/properties.rs"]
mod properties;

/// Returns bytes from annotated hex: white space is ignored, `#` starts a comment, `'text'` stands for itself.
fn hex(annotated: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in annotated.lines() {
        let line = line.split('#').next().unwrap();
        for (index, part) in line.split('\'').enumerate() {
            if index % 2 == 1 {
                bytes.extend_from_slice(part.as_bytes());
                continue;
            }
            let digits: Vec<char> = part.chars().filter(|c| !c.is_whitespace()).collect();
            assert_eq!(digits.len() % 2, 0, "odd number of hex digits in {line}");
            bytes.extend(digits.chunks(2).map(|pair| {
                u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex digits")
            }));
        }
    }
    bytes
}
