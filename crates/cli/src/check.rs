//! `weir check`: finds mistakes in a configuration, and prints what would be in force.

use weir_command::exit::{Exit, complain, print};

use crate::args;
use crate::load::{LoadError, Source, ended_rules};

mod hints;

/// Prints every mistake to standard error, or the effective configuration to standard output.
pub(crate) fn check(args: &args::Check) -> Exit {
    let Some(source) = Source::choose(args.file.as_deref(), None) else {
        return args::report_missing("<FILE>");
    };
    let loaded = source.load().and_then(|prepared| {
        let now = jiff::Timestamp::now().as_second();
        let ended = ended_rules(&prepared.settings(), &[], now);
        match ended.is_empty() {
            true => Ok(prepared),
            false => Err(ended.into_iter().map(LoadError::from).collect()),
        }
    });
    match loaded {
        Ok(prepared) => {
            for note in prepared.loaded.notes.iter().chain(&prepared.warnings) {
                complain(format_args!("note: {note}"));
            }
            for hint in hints::hints(&prepared) {
                complain(format_args!("hint: {hint}"));
            }
            match &args.database {
                None => {
                    let driver = weir_proxy::driver_for(prepared.loaded.settings.global.io);
                    let text = weir_config::effective_text(&prepared.loaded);
                    print(&format!("{text}\n# io: {driver}\n"));
                }
                Some(database) => {
                    let user = args.user.as_deref().unwrap_or_default();
                    let text = weir_config::pool_text(&prepared.loaded, database, user);
                    let Some(text) = text else {
                        complain(format_args!("no such database: {database}"));
                        return Exit::Config;
                    };
                    print(&text);
                }
            }
            Exit::Ok
        }
        Err(errors) => {
            errors.iter().for_each(complain);
            Exit::Config
        }
    }
}
