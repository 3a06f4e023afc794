//! Writer of log lines: standard error and optionally a file and syslog.
//!
//! A line is written by the thread that logs it, so that it is in the file before whatever comes after the event: a closed
//! connection, the end of a console command. A worker must not wait again and again for a slow disk, and never for a full
//! pipe. If an output takes no line at once, or was slow with the last one, lines go into a bounded queue, which a thread of
//! its own writes until it is empty. When the queue is full, lines are dropped and counted, and the count is logged once
//! there is room. The first slow write to a file is waited for, by all who log meanwhile.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Stderr, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;

use super::repeats::{LeftOut, Repeats, Saying, WINDOW};
use super::syslog::Syslog;

/// Maximum of queued lines.
const QUEUE_LINES_MAX: usize = 4096;
/// Maximum length of a line in bytes; the rest is cut off. A pipe that can be written to takes as much without blocking
/// (`PIPE_BUF`). Together with the queue's length this limits memory to 16 MiB.
const LINE_LEN_MAX: usize = 4096;
/// Lines of the queue are combined into writes of up to this many bytes.
const WRITE_LEN_MAX: usize = 64 * 1024;
/// Interval for checking if a count of repeated lines is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for writing the last lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// A write that takes longer is a slow one.
const SLOW: SignedDuration = SignedDuration::from_millis(20);
/// Time for which the thread writes after a slow write.
const SLOW_FOR: SignedDuration = SignedDuration::from_secs(1);

/// Outputs besides standard error.
#[derive(Default)]
pub(crate) struct Outputs {
    pub(crate) file: Option<File>,
    pub(crate) syslog: Option<Syslog>,
}

/// Standard error, or what stands for it in a test.
trait Stream: Write {
    /// True if the stream takes a line of the maximum length now without blocking.
    fn takes_now(&self) -> bool;
}

impl Stream for Stderr {
    fn takes_now(&self) -> bool {
        takes_now(self)
    }
}

/// All outputs.
struct Streams<E> {
    /// Standard error, unless it is disabled.
    stderr: Option<E>,
    outputs: Outputs,
}

impl<E: Stream> Streams<E> {
    fn take_now(&self) -> bool {
        let takes = |stream: &E| stream.takes_now();
        self.stderr.as_ref().is_none_or(takes) && self.outputs.file.as_ref().is_none_or(takes_now)
    }

    /// Writes lines. Failures are ignored: there is no output left to report them, and the pooler must go on.
    fn write(&mut self, lines: &[u8]) {
        if let Some(stderr) = &mut self.stderr {
            let _ = stderr.write_all(lines);
        }
        if let Some(file) = &mut self.outputs.file {
            let _ = file.write_all(lines);
        }
    }

    fn send_to_syslog(&mut self, line: &[u8]) {
        if let Some(syslog) = &mut self.outputs.syslog {
            syslog.send(line);
        }
    }
}

/// True for a file, and for a pipe, a socket or a terminal that can be written to.
fn takes_now(stream: &impl AsFd) -> bool {
    let is_file = rustix::fs::fstat(stream)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    let mut polled = [PollFd::new(stream, PollFlags::OUT)];
    is_file || poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Entry of the queue.
enum Queued {
    Line(Vec<u8>),
    /// Replaces the outputs from here on.
    Replace(Box<Outputs>),
}

struct State<E> {
    /// None while the thread writes.
    streams: Option<Streams<E>>,
    queue: VecDeque<Queued>,
    repeats: Repeats,
    /// Number of lines that were dropped.
    lost: u64,
    /// Until when the thread writes because a write was slow.
    slow_until: Option<Timestamp>,
    is_ending: bool,
}

/// Log as all threads share it.
struct Shared<E> {
    state: Mutex<State<E>>,
    /// Told when the thread has something to do.
    news: Condvar,
    /// Told when the thread has written everything.
    done: Condvar,
}

/// The outputs and the thread of a log. Dropping it waits a limited time for the last lines.
pub(crate) struct Sink {
    shared: Arc<Shared<Stderr>>,
}

/// Handle for whoever logs.
#[derive(Clone)]
pub(crate) struct Queue {
    shared: Arc<Shared<Stderr>>,
}

impl Sink {
    /// Starts the thread.
    ///
    /// # Errors
    /// If no thread can be created.
    pub(crate) fn start(outputs: Outputs, is_quiet: bool) -> io::Result<Self> {
        let stderr = (!is_quiet).then(io::stderr);
        let shared = Arc::new(Shared::new(Streams { stderr, outputs }));
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("weir-log".to_owned())
            .spawn(move || of_thread.run())?;
        Ok(Self { shared })
    }

    /// Returns a handle for the subscriber.
    pub(crate) fn queue(&self) -> Queue {
        Queue {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Changes the outputs, after all lines so far.
    pub(crate) fn replace(&self, outputs: Outputs) {
        self.shared.replace(outputs);
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let left_out = self.shared.lock().repeats.all();
        tell_left_out(left_out);
        self.shared.end();
    }
}

impl Queue {
    /// Writes a line, or queues it if an output would make the caller wait; counts it as lost if the queue is full.
    pub(crate) fn put(&self, line: &[u8], saying: Option<Saying>) {
        self.shared.put(line, saying);
    }
}

impl<E: Stream> Shared<E> {
    fn new(streams: Streams<E>) -> Self {
        Self {
            state: Mutex::new(State {
                streams: Some(streams),
                queue: VecDeque::new(),
                repeats: Repeats::default(),
                lost: 0,
                slow_until: None,
                is_ending: false,
            }),
            news: Condvar::new(),
            done: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, line: &[u8], saying: Option<Saying>) {
        let mut cut = line.get(..LINE_LEN_MAX).unwrap_or(line).to_vec();
        if cut.len() < line.len() {
            cut.pop();
            cut.push(b'\n');
        }
        let mut state = self.lock();
        if let Some(saying) = saying {
            let is_first = state.repeats.is_empty();
            let is_admitted = state.repeats.admit(saying);
            if is_first {
                // The thread looks after the counts of repeated lines.
                self.news.notify_one();
            }
            if !is_admitted {
                return;
            }
        }
        if state.is_direct() {
            state.write_now(&cut);
        } else if state.queue.len() < QUEUE_LINES_MAX {
            state.queue.push_back(Queued::Line(cut));
            self.news.notify_one();
        } else {
            state.lost += 1;
        }
    }

    fn replace(&self, outputs: Outputs) {
        let mut guard = self.lock();
        let state = &mut *guard;
        match state.streams.as_mut().filter(|_| state.queue.is_empty()) {
            Some(streams) => streams.outputs = outputs,
            None => {
                state.queue.push_back(Queued::Replace(Box::new(outputs)));
                self.news.notify_one();
            }
        }
    }

    /// Ends the thread when everything is written, and waits for that for a limited time.
    fn end(&self) {
        let mut state = self.lock();
        state.is_ending = true;
        self.news.notify_one();
        let is_busy = |state: &mut State<E>| state.streams.is_none() || !state.queue.is_empty();
        let waited = self.done.wait_timeout_while(state, FLUSH_TIMEOUT, is_busy);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Writes what is queued until the log ends: the work of the thread.
    fn run(&self) {
        loop {
            let mut state = self.lock();
            while state.queue.is_empty() && !state.is_ending {
                let left_out = state.repeats.over(Timestamp::now());
                let lost = std::mem::take(&mut state.lost);
                if !left_out.is_empty() || lost > 0 {
                    drop(state);
                    // Through the log, so that the format is the same.
                    tell_lost(lost);
                    tell_left_out(left_out);
                    state = self.lock();
                    continue;
                }
                state = match state.repeats.is_empty() {
                    true => (self.news.wait(state)).unwrap_or_else(PoisonError::into_inner),
                    false => {
                        let waited = self.news.wait_timeout(state, LOOK_INTERVAL);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            }
            if state.queue.is_empty() {
                self.done.notify_all();
                return;
            }
            let (mut batch, outputs) = state.batch();
            let Some(mut streams) = state.streams.take() else {
                return;
            };
            drop(state);
            streams.write(&batch);
            batch.clear();
            if let Some(outputs) = outputs {
                streams.outputs = outputs;
            }
            self.lock().streams = Some(streams);
            self.done.notify_all();
        }
    }
}

impl<E: Stream> State<E> {
    /// True if whoever logs a line writes it.
    fn is_direct(&mut self) -> bool {
        if let Some(until) = self.slow_until {
            if Timestamp::now() < until {
                return false;
            }
            self.slow_until = None;
        }
        let streams = self.streams.as_ref().filter(|_| self.queue.is_empty());
        streams.is_some_and(Streams::take_now)
    }

    fn write_now(&mut self, line: &[u8]) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        let begun = Timestamp::now();
        streams.send_to_syslog(line);
        streams.write(line);
        let now = Timestamp::now();
        if now.duration_since(begun) > SLOW {
            self.slow_until = now.checked_add(SLOW_FOR).ok();
        }
    }

    /// Takes lines that are written at once from the queue, and the outputs that count from then on, if others do.
    fn batch(&mut self) -> (Vec<u8>, Option<Outputs>) {
        let mut batch = Vec::new();
        while batch.len() < WRITE_LEN_MAX {
            match self.queue.pop_front() {
                Some(Queued::Line(line)) => {
                    if let Some(streams) = &mut self.streams {
                        streams.send_to_syslog(&line);
                    }
                    batch.extend_from_slice(&line);
                }
                Some(Queued::Replace(outputs)) => return (batch, Some(*outputs)),
                None => break,
            }
        }
        (batch, None)
    }
}

fn tell_lost(count: u64) {
    if count > 0 {
        tracing::warn!("{count} log lines dropped: the log could not be written fast enough");
    }
}

/// Logs counts of repeated lines.
fn tell_left_out(left_out: Vec<LeftOut>) {
    let seconds = WINDOW.as_secs();
    for LeftOut { count, text } in left_out {
        tracing::warn!("{count} similar lines within {seconds} s not logged, the last: {text}");
    }
}

#[cfg(test)]
mod tests;
