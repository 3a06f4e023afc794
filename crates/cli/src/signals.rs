//! Signals as a channel, so that the main thread can wait for them and for the engine at once.

use std::io;

use crossbeam_channel::Receiver;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Signals that wait while the main thread is busy. More of the same would say nothing new.
const WAITING_MAX: usize = 16;

/// Starts to catch signals. From now on none of these ends the process by itself.
///
/// # Errors
/// The handlers or the thread cannot be made.
pub(crate) fn listen() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
    let (sender, receiver) = crossbeam_channel::bounded(WAITING_MAX);
    std::thread::Builder::new()
        .name("weir-signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                // Full: as many are waiting already. Closed: the process is about to end.
                let _ = sender.try_send(signal);
            }
        })?;
    Ok(receiver)
}

/// The name of a signal that is caught.
pub(crate) fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}
