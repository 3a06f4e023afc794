//! Rate limit for repeated log lines: some are written, the rest is counted, and the count is logged.
//!
//! A server that is down makes a thousand clients fail with the same message each second. Only warnings and errors
//! are limited: connects and disconnects are a record, and log parsers count them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};

/// Maximum of equal lines written within [`WINDOW`].
pub(super) const WRITTEN_MAX: u32 = 20;
/// Time from the first of several equal lines until they are written again.
pub(super) const WINDOW: SignedDuration = SignedDuration::from_secs(10);
/// Maximum of different messages that are remembered; further messages are always written.
const SAYINGS_MAX: usize = 1024;

/// Message of a line, independent of the connection it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saying {
    key: u64,
    at: Timestamp,
    text: String,
}

impl Saying {
    pub(super) fn new(text: &str, at: Timestamp) -> Self {
        let (socket, rest) = without_socket(text);
        let mut hasher = DefaultHasher::new();
        (socket, rest).hash(&mut hasher);
        Self {
            key: hasher.finish(),
            at,
            text: text.to_owned(),
        }
    }
}

/// Splits off PgBouncer's prefix `C-0x1: db/user@addr:port `. Returns the client without number and port, and the
/// message.
fn without_socket(text: &str) -> (&str, &str) {
    let is_socket = text.starts_with("C-0x") || text.starts_with("S-0x");
    let Some((_, rest)) = text.split_once(": ").filter(|_| is_socket) else {
        return ("", text);
    };
    let Some((who, said)) = rest.split_once(' ') else {
        return ("", rest);
    };
    // The number in `unix(4711)` is a process id.
    let end = who.find("@unix(").or_else(|| who.rfind(':'));
    (end.and_then(|end| who.get(..end)).unwrap_or(who), said)
}

/// Messages of the current windows.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    sayings: HashMap<u64, Said>,
}

#[derive(Debug)]
struct Said {
    since: Timestamp,
    written: u32,
    left_out: u64,
    /// The last line that was left out.
    text: String,
}

/// Lines that were not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) count: u64,
    pub(super) text: String,
}

impl Repeats {
    /// Counts a line; true if it is to be written.
    pub(super) fn admit(&mut self, saying: Saying) -> bool {
        let is_full = self.sayings.len() >= SAYINGS_MAX;
        match self.sayings.entry(saying.key) {
            Entry::Vacant(_) if is_full => true,
            Entry::Vacant(entry) => {
                entry.insert(Said {
                    since: saying.at,
                    written: 1,
                    left_out: 0,
                    text: String::new(),
                });
                true
            }
            Entry::Occupied(mut entry) => {
                let said = entry.get_mut();
                if said.written < WRITTEN_MAX {
                    said.written += 1;
                    return true;
                }
                said.left_out += 1;
                said.text = saying.text;
                false
            }
        }
    }

    /// True if there is no line whose repetitions are counted.
    pub(super) fn is_empty(&self) -> bool {
        self.sayings.is_empty()
    }

    /// Forgets messages whose window is over; returns their omitted lines.
    pub(super) fn over(&mut self, now: Timestamp) -> Vec<LeftOut> {
        self.take(|said| now.duration_since(said.since) >= WINDOW)
    }

    /// Forgets all messages; returns their omitted lines.
    pub(super) fn all(&mut self) -> Vec<LeftOut> {
        self.take(|_| true)
    }

    fn take(&mut self, is_over: impl Fn(&Said) -> bool) -> Vec<LeftOut> {
        let over = self.sayings.extract_if(|_, said| is_over(said));
        let untold = over.filter(|(_, said)| said.left_out > 0);
        untold
            .map(|(_, said)| LeftOut {
                count: said.left_out,
                text: said.text,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn client(number: u32) -> String {
        format!(
            "C-{number:#x}: shop/alice@192.0.2.9:{} pooler error: query_wait_timeout",
            40_000 + number
        )
    }

    #[test]
    fn lines_beyond_some_are_counted_and_the_count_is_told_once() {
        let mut repeats = Repeats::default();
        let written = (0..1000).filter(|n| repeats.admit(Saying::new(&client(*n), at(0))));
        assert_eq!(written.count(), WRITTEN_MAX as usize);
        assert_eq!(repeats.over(at(9)), []);
        let told = repeats.over(at(10));
        let left_out = LeftOut {
            count: 1000 - u64::from(WRITTEN_MAX),
            text: client(999),
        };
        assert_eq!(told, [left_out]);
        assert!(repeats.is_empty());
        assert!(repeats.admit(Saying::new(&client(1), at(10))));
    }

    #[test]
    fn what_differs_is_not_counted_together() {
        let mut repeats = Repeats::default();
        for n in 0..100 {
            let lines = [
                format!("C-0x1: shop/user{n}@192.0.2.9:1 pooler error: query_wait_timeout"),
                format!("C-0x1: shop/alice@192.0.2.{n}:1 pooler error: query_wait_timeout"),
                format!("C-0x1: shop/alice@192.0.2.9:1 pooler error: no such database: {n}"),
                format!("reload: {n}"),
            ];
            for line in lines {
                assert!(repeats.admit(Saying::new(&line, at(0))), "{line}");
            }
        }
        assert_eq!(repeats.all(), []);
    }

    #[test]
    fn numbers_of_sockets_make_no_difference() {
        for (one, other) in [
            ("C-0x1: a/b@[::1]:7 x", "C-0xff: a/b@[::1]:60000 x"),
            ("C-0x1: a/b@unix(17):6432 x", "C-0x2: a/b@unix(18):6432 x"),
            (
                "S-0x1: a/b@10.0.0.5:5432 x y",
                "S-0x9: a/b@10.0.0.5:5432 x y",
            ),
        ] {
            assert_eq!(Saying::new(one, at(0)).key, Saying::new(other, at(0)).key);
        }
    }

    #[test]
    fn no_more_is_remembered_than_fits() {
        let mut repeats = Repeats::default();
        for n in 0..5000 {
            assert!(repeats.admit(Saying::new(&format!("warning {n}"), at(0))));
        }
        assert_eq!(repeats.sayings.len(), SAYINGS_MAX);
        assert_eq!(repeats.over(at(11)), []);
        assert!(repeats.sayings.is_empty());
    }
}
