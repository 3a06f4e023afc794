//! Tests of the writer of log lines, with a pipe that is never really full.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// Standard error of a test: a pipe whose reader may be slow.
#[derive(Clone, Default)]
struct Pipe {
    written: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
}

impl Pipe {
    fn written(&self) -> String {
        String::from_utf8(self.written.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Pipe {
    fn takes_now(&self) -> bool {
        !self.is_full.load(Ordering::SeqCst)
    }
}

fn log() -> (Pipe, Arc<Shared<Pipe>>) {
    let pipe = Pipe::default();
    let streams = Streams {
        stderr: Some(pipe.clone()),
        outputs: Outputs::default(),
    };
    (pipe, Arc::new(Shared::new(streams)))
}

/// Writes what is queued, as the thread does, and ends.
fn drain(log: &Arc<Shared<Pipe>>) {
    let of_thread = Arc::clone(log);
    let thread = thread::spawn(move || of_thread.run());
    log.end();
    thread.join().unwrap();
}

#[test]
fn a_line_is_written_when_it_is_logged() {
    let (pipe, log) = log();
    log.put(b"one\n", None);
    assert_eq!(pipe.written(), "one\n");
    log.put(b"two\n", None);
    assert_eq!(pipe.written(), "one\ntwo\n");
}

#[test]
fn nobody_waits_for_an_output_that_takes_nothing_and_the_order_stays() {
    let (pipe, log) = log();
    log.put(b"one\n", None);
    pipe.is_full.store(true, Ordering::SeqCst);
    log.put(b"two\n", None);
    pipe.is_full.store(false, Ordering::SeqCst);
    log.put(b"three\n", None);
    assert_eq!(pipe.written(), "one\n");
    drain(&log);
    assert_eq!(pipe.written(), "one\ntwo\nthree\n");
    log.put(b"four\n", None);
    assert_eq!(pipe.written(), "one\ntwo\nthree\nfour\n");
}

#[test]
fn a_slow_write_leaves_the_next_lines_to_the_thread() {
    let (pipe, log) = log();
    log.lock().slow_until = Some(Timestamp::MAX);
    log.put(b"one\n", None);
    assert_eq!(pipe.written(), "");
    log.lock().slow_until = Some(Timestamp::UNIX_EPOCH);
    drain(&log);
    log.put(b"two\n", None);
    assert_eq!(pipe.written(), "one\ntwo\n");
}

#[test]
fn a_full_queue_drops_and_counts_instead_of_waiting() {
    let (pipe, log) = log();
    pipe.is_full.store(true, Ordering::SeqCst);
    for _ in 0..QUEUE_LINES_MAX + 2 {
        log.put(b"x\n", None);
    }
    assert_eq!(log.lock().lost, 2);
    drain(&log);
    assert_eq!(pipe.written().len(), 2 * QUEUE_LINES_MAX);
}

#[test]
fn a_long_line_is_cut_and_still_ends() {
    let (pipe, log) = log();
    log.put(&[b'x'; 10_000], None);
    let written = pipe.written();
    assert_eq!(written.len(), LINE_LEN_MAX);
    assert!(written.ends_with("x\n"));
}

#[test]
fn outputs_change_behind_the_lines_before() {
    let (pipe, log) = log();
    let place = |n| std::env::temp_dir().join(format!("weir-log-{}-{n}", std::process::id()));
    let files = [place(0), place(1)];
    let output = |file: &PathBuf| Outputs {
        file: Some(File::create(file).unwrap()),
        syslog: None,
    };
    log.replace(output(&files[0]));
    log.put(b"one\n", None);
    pipe.is_full.store(true, Ordering::SeqCst);
    log.put(b"two\n", None);
    log.replace(output(&files[1]));
    log.put(b"three\n", None);
    drain(&log);
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        std::fs::remove_file(file).unwrap();
        text
    };
    assert_eq!(read(&files[0]), "one\ntwo\n");
    assert_eq!(read(&files[1]), "three\n");
}

#[test]
fn lines_that_say_the_same_are_limited() {
    let (pipe, log) = log();
    for _ in 0..50 {
        log.put(b"a\n", Some(Saying::new("a", Timestamp::UNIX_EPOCH)));
        log.put(b"b\n", None);
    }
    let written = pipe.written();
    let count = |letter| written.matches(letter).count();
    assert_eq!(count('a'), super::super::repeats::WRITTEN_MAX as usize);
    assert_eq!(count('b'), 50);
}
