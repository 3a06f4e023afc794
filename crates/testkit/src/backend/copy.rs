//! COPY FROM STDIN: the messages that count, the messages that are ignored, and the end.

use std::collections::VecDeque;

use weir_wire::frontend::tag;

use super::sql::{Name, Sql};
use super::{Backend, Failure};

/// A COPY FROM STDIN that waits for data.
#[derive(Debug)]
pub(super) struct Copying {
    table: Option<Name>,
    lines: Vec<String>,
    then: Then,
}

/// Continuation after the COPY.
#[derive(Debug)]
enum Then {
    /// Next message of the extended protocol.
    Next,
    /// Rest of the Query.
    Rest(VecDeque<Sql>, bool),
}

impl Copying {
    pub(super) fn execute(table: Option<Name>) -> Self {
        Self {
            table,
            lines: Vec::new(),
            then: Then::Next,
        }
    }

    pub(super) fn query(table: Option<Name>, rest: VecDeque<Sql>, alone: bool) -> Self {
        Self {
            table,
            lines: Vec::new(),
            then: Then::Rest(rest, alone),
        }
    }
}

impl Backend {
    /// Fails unless the table exists in this session.
    pub(super) fn copy_target(&self, table: Option<&Name>) -> Result<(), Failure> {
        match table {
            Some(name) => self.relation(name).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn start_copy(&mut self, copying: Copying) {
        // CopyInResponse: text, one column in text. PostgreSQL sends it at once; otherwise no client would
        // send data.
        self.buffered
            .extend_from_slice(&[b'G', 0, 0, 0, 9, 0, 0, 1, 0, 0]);
        self.flush();
        self.copying = Some(copying);
    }

    /// Processes a message during COPY (`CopyGetData` in `copyfromparse.c`).
    pub(super) fn copy_message(&mut self, tag: u8, body: &[u8]) {
        let Some(copying) = self.copying.as_mut() else {
            return;
        };
        match tag {
            tag::FLUSH | tag::SYNC => {}
            tag::COPY_DATA if body.starts_with(b"bad") => self.fail(&Failure::new(
                "22P04",
                "extra data after last expected column",
            )),
            tag::COPY_DATA => {
                let line = String::from_utf8_lossy(body);
                copying.lines.push(line.trim_end().to_owned());
            }
            tag::COPY_DONE => self.end_copy(),
            tag::COPY_FAIL => {
                let reason = String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(body));
                self.fail(&Failure::new(
                    "57014",
                    format!("COPY from stdin failed: {reason}"),
                ));
            }
            other => {
                let text = format!("unexpected message type 0x{other:02X} during COPY from stdin");
                self.report("ERROR", "08P01", &text);
                self.fatal(
                    "08P01",
                    "terminating connection because protocol synchronization was lost",
                );
            }
        }
    }

    fn end_copy(&mut self) {
        let Some(copying) = self.copying.take() else {
            return;
        };
        let count = copying.lines.len();
        self.see_rows(&copying.lines);
        if let Some(name) = &copying.table {
            self.insert(name, copying.lines);
        }
        self.complete(&format!("COPY {count}"));
        if let Then::Rest(rest, alone) = copying.then
            && let Err(failure) = self.run_rest(rest, alone)
        {
            self.fail(&failure);
        }
    }
}
