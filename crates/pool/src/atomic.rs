//! Atomics that lanes share: those of the standard library, or with the feature `model` those of shuttle, whose scheduler
//! then decides in which order threads touch them (`tests/model.rs`). Never enabled in a build of the binary.

#[cfg(feature = "model")]
pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
#[cfg(not(feature = "model"))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
