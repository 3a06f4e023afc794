//! `weir rules test`: counts the statements of the past that each rule of a file would have met.

mod csvlog;
mod digests;
mod input;
mod log;
mod progress;
mod report;
mod tally;

use std::fs;

use weir_command::exit::{Exit, complain, print};
use weir_config::QueryRule;

use self::input::{Input, InputError};
use self::tally::Tally;
use crate::args::RulesTest;

/// Prints the counts.
pub(crate) fn test(args: &RulesTest) -> Exit {
    let rules = match read(args) {
        Ok(rules) => rules,
        Err(exit) => return exit,
    };
    let shown = args.against.display();
    let input = match Input::open(&args.against, args.kind) {
        Ok(input) => input,
        Err(error) => {
            complain(format_args!("{shown}: {error}"));
            return Exit::Start;
        }
    };
    let kind = input.kind();
    let now = jiff::Timestamp::now().as_second();
    let mut tally = Tally::new(&rules, kind, usize::from(args.examples), now);
    match input.read(&mut |seen| tally.add(seen)) {
        Ok(()) => {
            if tally.is_empty() {
                complain(format_args!("note: {shown}: {}", input::advice(kind)));
            }
            print(&report::text(&tally, args.format));
            Exit::Ok
        }
        Err(InputError::Io(error)) => {
            complain(format_args!("{shown}: {error}"));
            Exit::Start
        }
        Err(InputError::Content(mistake)) => {
            complain(format_args!("{shown}{mistake}"));
            Exit::Config
        }
    }
}

/// Reads the rules, or prints why they cannot be read.
fn read(args: &RulesTest) -> Result<Vec<QueryRule>, Exit> {
    let file = args.file.display().to_string();
    let text = fs::read_to_string(&args.file).map_err(|error| {
        complain(format_args!("{file}: {error}"));
        Exit::Start
    })?;
    let rules = crate::load::rules_of(&file, &text).map_err(|mistakes| {
        mistakes.iter().for_each(complain);
        Exit::Config
    })?;
    if rules.is_empty() {
        complain(format_args!(
            "{file}: no rules; each begins with a line [[rules]]"
        ));
        return Err(Exit::Config);
    }
    Ok(rules)
}
