//! Types that threads share through a mailbox. `tests/mailbox.rs` compiles `channel.rs` with another module of this
//! name, whose types are scheduled by shuttle.

pub(super) use std::sync::atomic::AtomicBool;

pub(super) use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

/// Waker of a worker.
pub(super) type Waker = dyn crate::driver::Wake;
