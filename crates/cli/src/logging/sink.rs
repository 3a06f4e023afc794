//! Writer of log lines: standard error and optionally a file and syslog, on a thread of its own.
//!
//! A worker must not wait for a slow disk or a full pipe, so it puts a line into a bounded queue. When the queue is
//! full, the line is dropped and counted, and the count is logged once there is room. `tracing-appender` does the
//! same, but cannot change its file while running, which log rotation by SIGHUP requires.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use jiff::Timestamp;

use super::repeats::{LeftOut, Repeats, Saying, WINDOW};
use super::syslog::Syslog;

/// Maximum of queued lines.
const QUEUE_LINES_MAX: usize = 4096;
/// Maximum length of a line in bytes; the rest is cut off. Together with the queue's length this limits memory to 16
/// MiB.
const LINE_LEN_MAX: usize = 4096;
/// Lines are combined into writes of up to this many bytes.
const WRITE_LEN_MAX: usize = 64 * 1024;
/// Interval for checking if a count of repeated lines is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for writing the last lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Outputs besides standard error.
#[derive(Default)]
pub(crate) struct Outputs {
    pub(crate) file: Option<File>,
    pub(crate) syslog: Option<Syslog>,
}

enum Message {
    /// A line, with its message if the message is rate-limited.
    Line(Vec<u8>, Option<Saying>),
    /// Replaces the outputs from here on.
    Replace(Box<Outputs>),
    /// Writes the queued lines, then confirms.
    Stop(Sender<()>),
}

/// The writer thread and its queue. Dropping it waits a limited time for the last lines.
pub(crate) struct Sink {
    queue: Queue,
}

/// Sender's side of the queue, for workers.
#[derive(Clone)]
pub(crate) struct Queue {
    sender: Sender<Message>,
    lost_count: Arc<AtomicU64>,
}

impl Sink {
    /// Starts the thread.
    ///
    /// # Errors
    /// If no thread can be created.
    pub(crate) fn start(outputs: Outputs, is_quiet: bool) -> io::Result<Self> {
        let (sender, receiver) = bounded(QUEUE_LINES_MAX);
        let lost_count = Arc::new(AtomicU64::new(0));
        let mut writer = Writer {
            receiver,
            lost_count: Arc::clone(&lost_count),
            streams: ((!is_quiet).then(io::stderr), outputs),
            repeats: Repeats::default(),
        };
        std::thread::Builder::new()
            .name("weir-log".to_owned())
            .spawn(move || writer.run())?;
        let queue = Queue { sender, lost_count };
        Ok(Self { queue })
    }

    /// Returns a handle of the queue for the subscriber.
    pub(crate) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Changes the outputs, after all lines queued so far.
    pub(crate) fn replace(&self, outputs: Outputs) {
        let message = Message::Replace(Box::new(outputs));
        // Only the main thread calls this, and a short wait is acceptable there.
        let _ = self.queue.sender.send_timeout(message, FLUSH_TIMEOUT);
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let (done, is_done) = bounded(1);
        let message = Message::Stop(done);
        if self
            .queue
            .sender
            .send_timeout(message, FLUSH_TIMEOUT)
            .is_ok()
        {
            let _ = is_done.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Queue {
    /// Queues a line without waiting; counts it as lost if the queue is full.
    pub(crate) fn put(&self, line: &[u8], saying: Option<Saying>) {
        let mut cut = line.get(..LINE_LEN_MAX).unwrap_or(line).to_vec();
        if cut.len() < line.len() {
            cut.push(b'\n');
        }
        if self.sender.try_send(Message::Line(cut, saying)).is_err() {
            self.lost_count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// State of the writer thread.
struct Writer<E> {
    receiver: Receiver<Message>,
    lost_count: Arc<AtomicU64>,
    /// Standard error, unless it is disabled, and the other outputs.
    streams: (Option<E>, Outputs),
    repeats: Repeats,
}

impl<E: Write> Writer<E> {
    fn run(&mut self) {
        let mut batch = Vec::new();
        while let Some(mut next) = self.next() {
            while let Some(message) = next {
                match message {
                    Message::Line(line, saying) => self.line(&mut batch, &line, saying),
                    Message::Replace(outputs) => {
                        self.write(&mut batch);
                        self.streams.1 = *outputs;
                    }
                    Message::Stop(done) => {
                        tell_left_out(self.repeats.all());
                        while let Ok(Message::Line(line, _)) = self.receiver.try_recv() {
                            self.line(&mut batch, &line, None);
                        }
                        self.write(&mut batch);
                        let _ = done.try_send(());
                        return;
                    }
                }
                if batch.len() >= WRITE_LEN_MAX {
                    break;
                }
                next = self.receiver.try_recv().ok();
            }
            self.write(&mut batch);
            self.tell_lost();
            tell_left_out(self.repeats.over(Timestamp::now()));
        }
    }

    /// Waits for a message, with a time limit while a count is pending; the outer `None` is the end.
    fn next(&self) -> Option<Option<Message>> {
        if !self.repeats.has_untold() {
            return self.receiver.recv().ok().map(Some);
        }
        match self.receiver.recv_timeout(LOOK_INTERVAL) {
            Ok(message) => Some(Some(message)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn line(&mut self, batch: &mut Vec<u8>, line: &[u8], saying: Option<Saying>) {
        if saying.is_some_and(|saying| !self.repeats.admit(saying)) {
            return;
        }
        if let Some(syslog) = &mut self.streams.1.syslog {
            syslog.send(line);
        }
        batch.extend_from_slice(line);
    }

    /// Writes the batch. Failures are ignored: there is no output left to report them, and the pooler must go on.
    fn write(&mut self, batch: &mut Vec<u8>) {
        if let Some(stderr) = &mut self.streams.0 {
            let _ = stderr.write_all(batch);
        }
        if let Some(file) = &mut self.streams.1.file {
            let _ = file.write_all(batch);
        }
        batch.clear();
    }

    /// Logs the number of lost lines through the queue, so that it never blocks and the format is the same.
    fn tell_lost(&self) {
        let count = self.lost_count.swap(0, Ordering::Relaxed);
        if count > 0 {
            tracing::warn!("{count} log lines dropped: the log could not be written fast enough");
        }
    }
}

/// Logs counts of repeated lines, like [`Writer::tell_lost`].
fn tell_left_out(left_out: Vec<LeftOut>) {
    let seconds = WINDOW.as_secs();
    for LeftOut { count, text } in left_out {
        tracing::warn!("{count} similar lines within {seconds} s not logged, the last: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_of(len: usize) -> (Queue, Receiver<Message>) {
        let (sender, receiver) = bounded(len);
        let lost_count = Arc::default();
        (Queue { sender, lost_count }, receiver)
    }

    #[test]
    fn a_full_queue_drops_and_counts_instead_of_waiting() {
        let (queue, receiver) = queue_of(1);
        for line in ["one\n", "two\n", "three\n"] {
            queue.put(line.as_bytes(), None);
        }
        assert_eq!(queue.lost_count.load(Ordering::Relaxed), 2);
        assert!(matches!(receiver.recv(), Ok(Message::Line(line, None)) if line == b"one\n"));
    }

    #[test]
    fn a_long_line_is_cut_and_still_ends() {
        let (queue, receiver) = queue_of(1);
        queue.put(&[b'x'; 10_000], None);
        let Ok(Message::Line(line, None)) = receiver.recv() else {
            panic!("no line");
        };
        assert_eq!(line.len(), LINE_LEN_MAX + 1);
        assert!(line.ends_with(b"x\n"));
    }

    #[test]
    fn the_thread_writes_all_lines_in_order_before_it_stops() {
        let (queue, receiver) = queue_of(10);
        for line in ["one\n", "two\n"] {
            queue.put(line.as_bytes(), None);
        }
        let (done, is_done) = bounded(1);
        queue.sender.send(Message::Stop(done)).unwrap();
        let mut writer = Writer {
            receiver,
            lost_count: Arc::default(),
            streams: (Some(Vec::new()), Outputs::default()),
            repeats: Repeats::default(),
        };
        writer.run();
        assert_eq!(is_done.try_recv(), Ok(()));
        assert_eq!(writer.streams.0.unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn lines_that_say_the_same_are_limited() {
        let (queue, receiver) = queue_of(100);
        for _ in 0..50 {
            queue.put(b"a\n", Some(Saying::new("a", Timestamp::UNIX_EPOCH)));
            queue.put(b"b\n", None);
        }
        drop(queue);
        let mut writer = Writer {
            receiver,
            lost_count: Arc::default(),
            streams: (Some(Vec::new()), Outputs::default()),
            repeats: Repeats::default(),
        };
        writer.run();
        let written = writer.streams.0.unwrap();
        let count = |byte| written.iter().filter(|b| **b == byte).count();
        assert_eq!(count(b'a'), super::super::repeats::WRITTEN_MAX as usize);
        assert_eq!(count(b'b'), 50);
    }
}
