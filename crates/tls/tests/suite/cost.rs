//! Cost of sealing and opening a record, by cipher suite. In a test run each figure is of a few records and only shows that
//! the code works. For true figures:
//! `WEIR_RECORDS=20000 cargo test --release -p weir-tls --test suite cost -- --nocapture`.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, ServerConnection};
use weir_tls::connector::{ConnectorOptions, Verify};

use crate::handshake::{connector, listener, listening, meet};
use crate::pki::{Directory, self_signed, server};

const SUITES: [&str; 3] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];
const SIZES: [usize; 3] = [100, 4_096, 16_384];

/// Passes records of one plaintext from the server to the client.
struct Records {
    client: ClientConnection,
    server: ServerConnection,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    opened: Vec<u8>,
}

impl Records {
    fn new(suite: &str, size: usize) -> Self {
        let directory = Directory::new();
        let pair = self_signed(&server(&["localhost"]));
        let listener = listener(&listening(&directory, &pair));
        let connector = connector(&ConnectorOptions {
            tls13_ciphers: suite.to_owned(),
            ..ConnectorOptions::new(Verify::None)
        });
        let outcome = meet(&connector, &listener, "localhost");
        assert_eq!(outcome.verdict(), "fine");
        Self {
            client: outcome.client,
            server: outcome.server,
            plain: vec![b'x'; size],
            sealed: Vec::new(),
            opened: vec![0; size],
        }
    }

    /// Returns the time for sealing and opening `count` records.
    #[expect(clippy::disallowed_methods, reason = "time is what is measured")]
    fn pass(&mut self, count: u32) -> Duration {
        let begin = Instant::now();
        for _ in 0..count {
            self.sealed.clear();
            self.server.writer().write_all(&self.plain).unwrap();
            while self.server.wants_write() {
                self.server.write_tls(&mut self.sealed).unwrap();
            }
            let mut sealed = self.sealed.as_slice();
            let mut filled = 0;
            while filled < self.opened.len() {
                self.client.read_tls(&mut sealed).unwrap();
                let state = self.client.process_new_packets().unwrap();
                if state.plaintext_bytes_to_read() > 0 {
                    let (_, rest) = self.opened.split_at_mut(filled);
                    filled += self.client.reader().read(rest).unwrap();
                }
            }
            assert!(sealed.is_empty());
        }
        begin.elapsed()
    }
}

#[test]
fn records_cost_less_with_fewer_rounds() {
    let wanted = std::env::var("WEIR_RECORDS").ok();
    let count = wanted.map_or(5, |count| count.parse().unwrap());
    for size in SIZES {
        // By turns, so that a slow second is no suite's own.
        let mut all = SUITES.map(|suite| Records::new(suite, size));
        let mut times = SUITES.map(|_| Vec::new());
        for _ in 0..9 {
            for (records, times) in all.iter_mut().zip(&mut times) {
                times.push(records.pass(count));
                assert_eq!(records.opened, records.plain);
            }
        }
        for (suite, times) in SUITES.iter().zip(&mut times) {
            times.sort_unstable();
            let us = |at: usize| times[at].as_secs_f64() * 1e6 / f64::from(count);
            println!(
                "{size:>6} B  {suite:<30} {:>7.3} us ({:.3} to {:.3})",
                us(4),
                us(0),
                us(8)
            );
        }
    }
}
