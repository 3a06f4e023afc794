//! `weir convert`: PgBouncer's ini as weir.toml.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use weir_command::exit::{Exit, complain, print};

use crate::args;

/// Permissions of a new file: it may hold passwords.
const OWNER_ONLY: u32 = 0o600;
/// Permissions of a file without passwords, before the process's umask.
const EVERYBODY: u32 = 0o644;

/// Writes the converted file to the place that the arguments name.
pub(crate) fn convert(args: &args::Convert) -> Exit {
    if weir_config::is_native(&args.file) {
        let file = args.file.display();
        complain(format_args!("{file}: is weir.toml's format already"));
        return Exit::Config;
    }
    let mut read = |path: &Path| std::fs::read_to_string(path);
    let converted = match weir_config::convert(&args.file, &mut read) {
        Ok(converted) => converted,
        Err(errors) => {
            errors.iter().for_each(complain);
            return Exit::Config;
        }
    };
    for note in &converted.notes {
        complain(format_args!("note: {note}"));
    }
    let Some(path) = &args.output else {
        print(&converted.text);
        return Exit::Ok;
    };
    let mode = match converted.has_secrets {
        true => OWNER_ONLY,
        false => EVERYBODY,
    };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    match file.and_then(|mut file| file.write_all(converted.text.as_bytes())) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            complain(format_args!("{}: {error}", path.display()));
            Exit::Start
        }
    }
}
