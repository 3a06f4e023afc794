//! A trial of io_uring: a round trip with a ring of the real sizes.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{Event, Options, Ring};
use crate::refusal::Refusal;
use crate::token::Token;

/// Time that one wait may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// Number of waits that a round trip may take.
const WAITS_MAX: usize = 10;

impl Ring {
    /// Makes a ring and sends bytes through it and a pair of sockets. Success shows that the system offers all that a ring
    /// needs, but for the memory of further rings.
    ///
    /// # Errors
    ///
    /// As [`Ring::new`], or the round trip failed.
    pub fn probe(options: &Options) -> Result<(), Refusal> {
        let mut ring = Self::new(options)?;
        ring.round_trip()
            .map_err(|error| match error.raw_os_error() {
                Some(_) => Refusal::new(error),
                None => Refusal::Trial(error),
            })
    }

    fn round_trip(&mut self) -> io::Result<()> {
        let (near, mut far) = UnixStream::pair()?;
        let token = Token::new(1, 1).ok_or(io::ErrorKind::InvalidInput)?;
        let mut buffer = self.send_buffer();
        buffer.write_all(b"weir")?;
        self.receive(token, near.as_fd());
        self.send(token, far.as_fd(), buffer);
        let (mut has_sent, mut received) = (false, Vec::new());
        for _ in 0..WAITS_MAX {
            self.wait(Some(PATIENCE))?;
            while let Some(event) = self.next_event() {
                match event {
                    Event::Received { bytes, .. } => {
                        let bytes = bytes?;
                        received
                            .extend_from_slice(bytes.memory.get(..bytes.len).unwrap_or_default());
                    }
                    Event::Sent { outcome, .. } => {
                        outcome?;
                        has_sent = true;
                    }
                    _ => {}
                }
            }
            if has_sent && received.len() >= 4 {
                far.flush()?;
                return match received == b"weir" {
                    true => Ok(()),
                    false => Err(io::Error::other("other bytes came back")),
                };
            }
        }
        Err(io::Error::other("there was no answer"))
    }
}
