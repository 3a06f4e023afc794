//! Tests of the built binary, run as a user and as `weir` run it: output and exit codes.

#![allow(clippy::unwrap_used, reason = "helpers of tests, as in tests")]

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Exit code, output and errors.
fn run(name: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-lab"));
    let output = command.arg0(name).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_help_names_the_program_that_was_called() {
    for name in ["weir", "weir-lab"] {
        let (code, out, _) = run(name, &["bench", "run", "--help"]);
        assert_eq!(code, 0);
        assert!(
            out.contains(&format!("Usage: {name} bench run [OPTIONS] [PROFILE]")),
            "{out}"
        );
        let (code, out, _) = run(name, &["help", "tune"]);
        assert_eq!(code, 0);
        assert!(
            out.contains(&format!("Usage: {name} tune <COMMAND>")),
            "{out}"
        );
    }
}

#[test]
fn mistakes_have_the_codes_that_the_help_names() {
    let (code, out, err) = run("weir", &["bench", "frobnicate"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("frobnicate"), "{err}");
    let (code, _, err) = run("weir", &["bench", "run", "-e", "nothing-of-this-name"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("weir bench: there is no experiment"), "{err}");
    let (code, _, err) = run("weir", &["tune", "report", "/nowhere"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.starts_with("weir tune: "), "{err}");
}
