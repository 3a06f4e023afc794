//! The generator as a separate process, so that its CPU time can be told from its caller's. A plan comes in as
//! JSON; lines of JSON go out.

use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::load::{LoadError, Plan, Progress, run};
use crate::record::Outcome;

/// Line of the output. The last is [`Message::Outcome`] or [`Message::Failed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Reason why there is no result.
    Failed(String),
    /// Result of the load.
    Outcome(Box<Outcome>),
    /// Progress of the load.
    Progress(Progress),
}

/// Reads a [`Plan`] from `input` to its end, carries it out and writes [`Message`]s to `output`, one per line.
/// `stop` ends the load early; the result is what was measured by then.
///
/// # Errors
/// Any error of [`run`], after it was written as [`Message::Failed`]; or `input` cannot be read, or `output` cannot
/// be written.
pub fn serve(
    mut input: impl Read,
    output: &mut impl Write,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(LoadError::Io)?;
    let mut written = Ok(());
    let result = serde_json::from_str::<Plan>(&text)
        .map_err(LoadError::Json)
        .and_then(|plan| {
            run(&plan, stop, &mut |progress| {
                if written.is_ok() {
                    written = write_line(output, &Message::Progress(*progress));
                }
            })
        });
    written?;
    match result {
        Ok(outcome) => write_line(output, &Message::Outcome(Box::new(outcome))),
        Err(error) => {
            write_line(output, &Message::Failed(error.to_string()))?;
            Err(error)
        }
    }
}

fn write_line(output: &mut impl Write, message: &Message) -> Result<(), LoadError> {
    let mut line = serde_json::to_string(message).map_err(LoadError::Json)?;
    line.push('\n');
    output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .map_err(LoadError::Io)
}
