//! `weir import`: another pooler's configuration as weir.toml, with a user list for its secrets.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use weir_command::exit::{Exit, complain, print};
use weir_import::{FileNames, Imported, Product, Source};

use crate::args;

/// Permissions of files that may hold passwords.
const OWNER_ONLY: u32 = 0o600;
/// Permissions of the configuration, which holds none, before the process's umask.
const EVERYBODY: u32 = 0o644;
/// Name of the user list, beside the configuration.
const USERLIST: &str = "userlist.txt";
/// Name of the HBA file, beside the configuration.
const HBA: &str = "hba.conf";

/// Writes the converted files, or says why not. The report goes to standard error.
pub(crate) fn import(args: &args::Import) -> Exit {
    let product = match args.from {
        args::ImportFrom::Haproxy => Product::HaProxy,
        args::ImportFrom::Odyssey => Product::Odyssey,
        args::ImportFrom::Pgbouncer => return pgbouncer(args),
        args::ImportFrom::Pgcat => Product::PgCat,
        args::ImportFrom::Pgdog => Product::PgDog,
        args::ImportFrom::Pgpool => Product::Pgpool,
        args::ImportFrom::Proxysql => Product::ProxySql,
    };
    let mut sources = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => sources.push(Source { name, text }),
            Err(error) => {
                complain(format_args!("{name}: {error}"));
                return Exit::Config;
            }
        }
    }
    let (userlist, hba) = (
        args.out.with_file_name(USERLIST),
        args.out.with_file_name(HBA),
    );
    let names = FileNames {
        auth_file: &userlist.to_string_lossy(),
        hba_file: &hba.to_string_lossy(),
    };
    match weir_import::import(product, &sources, &names) {
        Ok(imported) => finish(args, &userlist, &hba, &imported),
        Err(errors) => {
            errors.iter().for_each(complain);
            Exit::Config
        }
    }
}

/// Does what `weir convert` does, as Weir has all settings of PgBouncer. Passwords stay in the new file.
fn pgbouncer(args: &args::Import) -> Exit {
    let [file] = args.files.as_slice() else {
        complain("PgBouncer has one file; others are found by its %include");
        return Exit::Usage;
    };
    if weir_config::is_native(file) {
        let file = file.display();
        complain(format_args!("{file}: is weir.toml's format already"));
        return Exit::Config;
    }
    let mut read = |path: &Path| std::fs::read_to_string(path);
    let converted = match weir_config::convert(file, &mut read) {
        Ok(converted) => converted,
        Err(errors) => {
            errors.iter().for_each(complain);
            return Exit::Config;
        }
    };
    for note in &converted.notes {
        complain(format_args!("note: {note}"));
    }
    if args.dry_run {
        match converted.has_secrets {
            true => complain("the result holds passwords and is not printed"),
            false => print(&converted.text),
        }
        return Exit::Ok;
    }
    let mode = if converted.has_secrets {
        OWNER_ONLY
    } else {
        EVERYBODY
    };
    exit_of(write(&args.out, mode, &converted.text))
}

fn finish(args: &args::Import, userlist: &Path, hba: &Path, imported: &Imported) -> Exit {
    imported.findings.iter().for_each(complain);
    for note in &imported.notes {
        complain(format_args!("note: {note}"));
    }
    let blocking = imported
        .findings
        .iter()
        .filter(|finding| finding.blocks())
        .count();
    if blocking > 0 && !args.lenient {
        complain(format_args!(
            "nothing is written: {blocking} settings are not mapped; --lenient writes the others"
        ));
        return Exit::Config;
    }
    if args.dry_run {
        print(&imported.text);
        return Exit::Ok;
    }
    let files = [
        (userlist, OWNER_ONLY, &imported.userlist),
        (hba, OWNER_ONLY, &imported.hba),
        (args.out.as_path(), EVERYBODY, &imported.text),
    ];
    exit_of(write_all(&files))
}

/// Writes all files that have a content, or none.
fn write_all(files: &[(&Path, u32, &String)]) -> Result<(), String> {
    let mut written = Vec::new();
    for (path, mode, text) in files.iter().filter(|(.., text)| !text.is_empty()) {
        if let Err(error) = write(path, *mode, text) {
            for path in written {
                // A file that cannot be removed is one that the error leaves behind.
                let _removed = std::fs::remove_file(path);
            }
            return Err(error);
        }
        written.push(path);
    }
    Ok(())
}

fn exit_of(written: Result<(), String>) -> Exit {
    match written {
        Ok(()) => Exit::Ok,
        Err(error) => {
            complain(error);
            Exit::Start
        }
    }
}

/// Writes a file that must not exist.
fn write(path: &Path, mode: u32, text: &str) -> Result<(), String> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error: io::Error| format!("{}: {error}", path.display()))
}
