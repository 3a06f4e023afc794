//! Bytes that the kernel may be reading, by number. Pure: no system calls.

use std::io;
use std::os::fd::RawFd;

use slab::Slab;

use crate::token::Token;

/// Number of a send, from its begin to its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendId(pub(crate) u32);

/// Send that the kernel has or is about to get.
#[derive(Debug)]
struct Flight {
    token: Token,
    socket: RawFd,
    /// Never changed while the kernel may read it.
    bytes: Vec<u8>,
    sent: usize,
    is_cancelled: bool,
}

/// Facts of a send for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: SendId,
    pub(crate) socket: RawFd,
    pub(crate) address: *const u8,
    pub(crate) len: u32,
}

/// Consequence of a completion.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The socket took a part; the rest is to be sent.
    Again(Order),
    /// The send is over, and the kernel is done with the bytes.
    Done(Token, io::Result<()>),
    /// No send has this number.
    Unknown,
}

/// Capacity above which the memory of a send is freed instead of used again.
const KEPT_LEN: usize = 64 * 1024;
/// Capacity of all buffers that are kept for later sends.
const KEPT: usize = 8 * 1024 * 1024;

/// See the module's page. Bytes that are still in flight at the end are leaked.
#[derive(Debug, Default)]
pub(crate) struct Sends {
    flights: Slab<Flight>,
    spare: Vec<Vec<u8>>,
    /// Capacity of all `spare`.
    kept: usize,
    /// Minimum number of spare buffers since the last [`Sends::trim`].
    unused: usize,
}

impl Sends {
    /// Number of sends in flight.
    pub(crate) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Returns an empty buffer, with capacity if one was used before.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let buffer = self.spare.pop().unwrap_or_default();
        self.unused = self.unused.min(self.spare.len());
        self.kept -= buffer.capacity();
        buffer
    }

    /// Takes back a buffer.
    pub(crate) fn recycle(&mut self, mut bytes: Vec<u8>) {
        let capacity = bytes.capacity();
        if (1..=KEPT_LEN).contains(&capacity) && self.kept + capacity <= KEPT {
            bytes.clear();
            self.kept += capacity;
            self.spare.push(bytes);
        }
    }

    /// Frees what was spare since the last call.
    pub(crate) fn trim(&mut self) {
        let unused = self.unused.min(self.spare.len());
        let freed = self.spare.drain(..unused);
        self.kept -= freed.map(|buffer| buffer.capacity()).sum::<usize>();
        self.spare.shrink_to_fit();
        self.unused = self.spare.len();
    }

    /// Takes bytes to be sent; they stay where they are until the send is over. None, and the bytes are dropped, if there
    /// are 2^28 sends.
    pub(crate) fn begin(&mut self, token: Token, socket: RawFd, bytes: Vec<u8>) -> Option<Order> {
        let place = u32::try_from(self.flights.vacant_key()).ok()?;
        Token::new(place, 0)?;
        self.flights.insert(Flight {
            token,
            socket,
            bytes,
            sent: 0,
            is_cancelled: false,
        });
        self.order(SendId(place))
    }

    /// Notes that the rest of a send is not to be sent. The kernel tells a part that went before as a success.
    pub(crate) fn cancel(&mut self, id: SendId) {
        if let Some(flight) = self.flights.get_mut(id.0 as usize) {
            flight.is_cancelled = true;
        }
    }

    /// Takes the kernel's result of a send: the number of bytes that the socket took, or a negative error number.
    pub(crate) fn completed(&mut self, id: SendId, result: i32) -> Outcome {
        let Some(flight) = self.flights.get_mut(id.0 as usize) else {
            return Outcome::Unknown;
        };
        let outcome = match usize::try_from(result) {
            Ok(sent) => {
                flight.sent += sent;
                let is_whole = flight.sent >= flight.bytes.len();
                match (is_whole, flight.is_cancelled) {
                    (true, _) => Ok(()),
                    (false, true) => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
                    // A stream takes at least one byte.
                    (false, false) if sent == 0 => Err(io::ErrorKind::WriteZero.into()),
                    (false, false) => match self.order(id) {
                        Some(order) => return Outcome::Again(order),
                        None => Ok(()),
                    },
                }
            }
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        let flight = self.flights.remove(id.0 as usize);
        self.recycle(flight.bytes);
        Outcome::Done(flight.token, outcome)
    }

    /// Forgets the bytes in flight without freeing them.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.flights));
    }

    fn order(&self, id: SendId) -> Option<Order> {
        let flight = self.flights.get(id.0 as usize)?;
        let rest = flight.bytes.get(flight.sent..)?;
        Some(Order {
            id,
            socket: flight.socket,
            address: rest.as_ptr(),
            // The kernel takes the rest in a later part.
            len: u32::try_from(rest.len()).unwrap_or(u32::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads as the kernel does: from the address that it was told.
    fn read(order: Order, count: usize) -> Vec<u8> {
        let byte = |at| {
            // SAFETY: the bytes are in flight, and there are so many of them.
            let place = unsafe { order.address.add(at) };
            // SAFETY: as above.
            unsafe { place.read() }
        };
        (0..count).map(byte).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn every_byte_is_sent_once_and_in_order(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 1..12),
            dice in prop::collection::vec(any::<(usize, usize, bool)>(), 1..60),
        ) {
            let mut sends = Sends::default();
            let mut orders = Vec::new();
            let mut received: Vec<Vec<u8>> = vec![Vec::new(); messages.len()];
            let mut over = 0;
            let mut messages = messages.iter().enumerate();
            let all: Vec<Vec<u8>> = messages.clone().map(|(_, bytes)| bytes.clone()).collect();
            for (which, how_many, begins) in dice {
                if begins && let Some((i, bytes)) = messages.next() {
                    let token = Token::new(u32::try_from(i).unwrap(), 7).unwrap();
                    let mut buffer = sends.buffer();
                    buffer.extend_from_slice(bytes);
                    orders.push((i, sends.begin(token, 3, buffer).unwrap()));
                }
                if orders.is_empty() {
                    continue;
                }
                let (i, order) = orders.swap_remove(which % orders.len());
                let count = 1 + how_many % order.len as usize;
                received[i].extend(read(order, count));
                match sends.completed(order.id, i32::try_from(count).unwrap()) {
                    Outcome::Again(order) => orders.push((i, order)),
                    Outcome::Done(token, outcome) => {
                        prop_assert_eq!(token.index() as usize, i);
                        prop_assert!(outcome.is_ok());
                        prop_assert_eq!(&received[i], &all[i]);
                        over += 1;
                    }
                    Outcome::Unknown => prop_assert!(false, "an order has no send"),
                }
            }
            prop_assert_eq!(sends.len(), orders.len());
            for (i, order) in orders {
                let done = sends.completed(order.id, -libc::ECANCELED);
                let Outcome::Done(token, Err(error)) = done else {
                    panic!("{done:?}");
                };
                prop_assert_eq!(token.index() as usize, i);
                prop_assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
                prop_assert!(all[i].starts_with(&received[i]));
                over += 1;
            }
            prop_assert!(matches!(sends.completed(SendId(99), 1), Outcome::Unknown));
            prop_assert!(over <= all.len());
        }
    }

    #[test]
    fn a_socket_that_takes_nothing_ends_the_send() {
        let mut sends = Sends::default();
        let token = Token::new(1, 1).unwrap();
        let order = sends.begin(token, 3, vec![1]).unwrap();
        assert!(matches!(
            sends.completed(order.id, 0),
            Outcome::Done(_, Err(_))
        ));
        assert_eq!(sends.len(), 0);
    }
}
