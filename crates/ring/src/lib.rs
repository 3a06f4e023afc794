//! io_uring for sockets: the only crate with unsafe code.
//!
//! A [`Ring`] belongs to one thread. Its user asks for receives, sends, accepts and polls, and [`Ring::wait`] hands all of
//! them to the kernel in one system call, which also waits. [`Ring::next_event`] returns what has happened.
//!
//! **Memory.** The kernel reads and writes memory while our code runs. Two tables own what it may use: `lent` the receive
//! buffers, `sends` the bytes to be sent. Memory leaves a table only when the kernel has reported that it is done with it.
//! If a ring ends earlier, the memory is leaked. Neither table makes a system call, so Miri and the property tests run
//! them with a kernel of their own.
//!
//! **Descriptors.** An operation names a socket by its number. The user keeps the socket open until the operation has
//! ended: the kernel would otherwise find another socket under the number. That would be a fault, but not one of memory.
//!
//! **Kernel.** Linux 6.1 and later (`IORING_SETUP_DEFER_TASKRUN`). [`Refusal`] tells why a kernel does not offer it.
//! After a ring has started, the kernel refuses all operations but those of this crate (`IORING_REGISTER_RESTRICTIONS`).

use std::fmt;

mod buffers;
mod demand;
mod lent;
mod refusal;
mod ring;
mod sends;
mod token;
#[cfg(any(test, feature = "trouble"))]
mod trouble;

pub use buffers::BufferSizes;
pub use refusal::Refusal;
pub use ring::{Bytes, Counters, Event, Options, Ring, Waker};
pub use sends::SendId;
pub use token::Token;
#[cfg(any(test, feature = "trouble"))]
pub use trouble::Trouble;

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
