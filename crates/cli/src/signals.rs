//! Signals as a channel, so that the main thread can wait for signals and for the engine together.

use std::io;

use crossbeam_channel::Receiver;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Maximum of queued signals while the main thread is busy. Further ones would add no information.
const WAITING_MAX: usize = 16;

/// Starts to catch signals. From now on none of them ends the process by default.
///
/// # Errors
/// If the handlers or the thread cannot be created.
pub(crate) fn listen() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
    let (sender, receiver) = crossbeam_channel::bounded(WAITING_MAX);
    std::thread::Builder::new()
        .name("weir-signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                // Full: enough signals are queued. Closed: the process is about to end.
                let _ = sender.try_send(signal);
            }
        })?;
    Ok(receiver)
}

/// Name of a caught signal.
pub(crate) fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}
