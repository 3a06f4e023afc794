//! Types that threads share through a mailbox. `tests/mailbox.rs` compiles `channel.rs` beside a module of this name with
//! types whose order shuttle decides.

pub(super) use std::sync::atomic::AtomicBool;

pub(super) use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
pub(super) use mio::Waker;
