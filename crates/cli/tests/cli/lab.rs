//! `weir bench` and `weir tune`, which the program `weir-lab` does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Dir, output};

/// Copy of weir in a directory of its own, where no `weir-lab` is beside it.
fn alone(dir: &Dir) -> PathBuf {
    let copy = dir.path("weir");
    let built = Path::new(env!("CARGO_BIN_EXE_weir"));
    if fs::hard_link(built, &copy).is_err() {
        made(Command::new("cp").args([built, copy.as_path()]));
    }
    copy
}

/// Writes a `weir-lab` that says how it was called and exits with 9.
fn stand_in(directory: &Path) {
    let program = directory.join("weir-lab");
    let text = "#!/bin/sh\necho \"$(basename \"$0\"): $*; $WEIR_BIN\"\nexit 9\n";
    let script = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
    made(
        Command::new("sh")
            .args(["-c", script, "sh", text])
            .arg(&program),
    );
}

/// Has another process make a program. If this one wrote it, a test beside this one could start its own process while
/// the file is open, and that process would keep the program from being started ("Text file busy").
fn made(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

fn run(weir: &Path, path: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(weir);
    output(command.args(arguments).env("PATH", path))
}

#[test]
fn without_weir_lab_it_says_what_to_install() {
    let dir = Dir::new("no-lab");
    let weir = alone(&dir);
    for arguments in [
        &["bench"][..],
        &["bench", "run", "--help"],
        &["tune", "watch", "postgresql://a@b/c"],
        &["help", "tune"],
    ] {
        let (code, out, err) = run(&weir, "/nowhere", arguments);
        assert_eq!((code, out.as_str()), (3, ""), "{arguments:?}");
        for part in [
            "Debian package weir-lab",
            "cargo build --release -p weir-lab-cli",
        ] {
            assert!(err.contains(part), "{part}: {err}");
        }
    }
}

#[test]
fn weir_lab_gets_the_arguments_as_they_are_and_its_exit_code_is_weirs() {
    let dir = Dir::new("lab");
    let weir = alone(&dir);
    let here = weir.display();
    let elsewhere = dir.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    stand_in(&elsewhere);
    let path = format!("{}:/usr/bin:/bin", elsewhere.display());
    let arguments = ["bench", "run", "--", "-h", "--frob"];
    let expected = format!("weir-lab: bench run -- -h --frob; {here}\n");
    assert_eq!(
        run(&weir, &path, &arguments),
        (9, expected, String::new()),
        "on PATH"
    );

    // The program beside weir wins.
    stand_in(&dir.0);
    fs::write(elsewhere.join("weir-lab"), "#!/bin/sh\nexit 8\n").unwrap();
    let expected = format!("weir-lab: help tune run; {here}\n");
    let found = run(&weir, &path, &["help", "tune", "run"]);
    assert_eq!(found, (9, expected, String::new()), "beside");
}

#[test]
fn the_help_has_a_line_for_each_of_its_commands() {
    let (code, out, _) = output(&mut crate::weir(&["--help"]));
    assert_eq!(code, 0);
    // The width of the column is that of the longest command.
    let lines = out.lines().filter_map(|line| line.trim().split_once("  "));
    let lines: Vec<_> = lines.map(|(name, told)| (name, told.trim())).collect();
    for line in [
        ("bench", "Compare poolers by reproducible benchmarks"),
        ("tune", "Find out how many connections a database is worth"),
    ] {
        assert!(lines.contains(&line), "{line:?}: {out}");
    }
}
