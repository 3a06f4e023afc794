//! Keywords of the section `global`.

use super::facts::Facts;
use super::rows::GLOBAL;
use super::{VERSION, row};
use crate::apply::{How, apply, set};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::leaf::{Leaf, Scalar};

pub(super) fn setting(words: &[String], facts: &Facts, draft: &mut Draft) -> Outcome {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let copy = |how: How, draft: &mut Draft| apply(how, &value(word(1)), Table::Global, draft);
    match word(0) {
        "maxconn" => match facts.main.is_some() {
            true => Outcome::Mapped("max_client_conn, or the limit of the section".to_owned()),
            false => Outcome::NoMeaning("no section leads to PostgreSQL"),
        },
        "nbthread" => copy(How::Number("workers"), draft),
        "pidfile" => copy(How::Copy("pidfile"), draft),
        "hard-stop-after" => copy(How::Millis("drain_timeout"), draft),
        "log" => log(words, draft),
        "log-tag" => copy(How::Copy("syslog_ident"), draft),
        "log-send-hostname" => Outcome::NoMeaning("the system's log adds it"),
        keyword => row(GLOBAL, keyword).unwrap_or(Outcome::Unknown(VERSION)),
    }
}

/// Maps `log ADDRESS [len N] [format F] FACILITY [LEVEL]`. Weir writes to the system's log only.
pub(super) fn log(words: &[String], draft: &mut Draft) -> Outcome {
    let address = words.get(1).map_or("", String::as_str);
    match address {
        "global" => return Outcome::NoMeaning("the log of the section global"),
        "/dev/log" | "127.0.0.1" | "127.0.0.1:514" | "localhost" => {}
        "stdout" | "stderr" | "fd@1" | "fd@2" => {
            return Outcome::NoMeaning("Weir writes its log to standard error");
        }
        _ => {
            let why = "Weir writes to /dev/log (syslog): let the system's log pass it on";
            return Outcome::NotMapped(why.to_owned());
        }
    }
    let names = ["len", "format", "sample", "profile"];
    let mut rest = words.iter().skip(2).map(String::as_str);
    let mut facility = "";
    while let Some(word) = rest.next() {
        if names.contains(&word) {
            rest.next();
        } else {
            facility = word;
            break;
        }
    }
    draft.set(Table::Global, "syslog", Term::Flag(true));
    match facility {
        "" => Outcome::Mapped("syslog = true".to_owned()),
        _ => set(
            draft,
            Table::Global,
            "syslog_facility",
            Term::text(facility),
        ),
    }
}

/// Returns a word as the value of a setting.
pub(super) fn value(word: &str) -> Leaf {
    Leaf {
        path: Vec::new(),
        value: Scalar::Text(word.to_owned()),
        file: String::new(),
        line: 0,
    }
}
