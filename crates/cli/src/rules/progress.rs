//! Progress of reading a long file, for people at a terminal.

use std::io::{self, IsTerminal, Read, Write};

/// Number of bytes between two changes of the line.
const STEP: u64 = 16 * 1024 * 1024;

/// Reader that writes to the terminal how much of it has been read. Nothing is written if standard error is no terminal, or
/// about short files.
pub(super) struct Progress<R> {
    input: R,
    /// Number of bytes in the file, if that is known.
    total: Option<u64>,
    done: u64,
    shown: u64,
    is_on: bool,
}

impl<R: Read> Progress<R> {
    /// Watches a reader of this many bytes.
    pub(super) fn new(input: R, total: Option<u64>) -> Self {
        Self {
            input,
            total,
            done: 0,
            shown: 0,
            is_on: io::stderr().is_terminal(),
        }
    }
}

impl<R: Read> Read for Progress<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.done += count as u64;
        if self.is_on && self.done - self.shown >= STEP {
            self.shown = self.done;
            // A terminal that is gone does not end the work.
            let _ = write!(io::stderr(), "\r{}", line(self.done, self.total));
        }
        Ok(count)
    }
}

impl<R> Drop for Progress<R> {
    fn drop(&mut self) {
        if self.shown > 0 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(done: u64, total: Option<u64>) -> String {
    let mebibytes = |bytes: u64| bytes / (1024 * 1024);
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let percent = (done.saturating_mul(100) / total).min(100);
            format!("read {percent:>3}% of {} MiB", mebibytes(total.max(done)))
        }
        None => format!("read {} MiB", mebibytes(done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_shown_if_the_length_is_known() {
        assert_eq!(line(STEP, Some(4 * STEP)), "read  25% of 64 MiB");
        // A log grows while it is read.
        assert_eq!(line(2 * STEP, Some(STEP)), "read 100% of 32 MiB");
        assert_eq!(line(STEP, None), "read 16 MiB");
        assert_eq!(line(STEP, Some(0)), "read 16 MiB");
    }
}
