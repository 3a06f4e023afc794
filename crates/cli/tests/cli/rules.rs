//! Query rules on the command line: the files of `rules_dir`.

use std::fs;

use rustix::process::Signal;

use crate::{Dir, Running, with_file};

/// Rule that rejects a table.
fn rule(name: &str) -> String {
    format!("[[rules]]\nname = \"{name}\"\nmatch.tables = \"t\"\naction = \"reject\"\n")
}

#[test]
fn check_covers_the_files_of_rules_dir() {
    let dir = Dir::new("rules-check");
    let rules = dir.path("rules.d");
    let file = dir.config(&format!("rules_dir = {}\n", rules.display()));
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(err.contains(":8: cannot read the directory "), "{err}");
    assert!(err.contains("No such file or directory"), "{err}");
    fs::create_dir(&rules).unwrap();
    fs::write(rules.join("b.toml"), rule("b")).unwrap();
    fs::write(rules.join("a.toml"), rule("a")).unwrap();
    fs::write(rules.join("a.toml~"), "of an editor").unwrap();
    let (code, out, err) = with_file("check", &file);
    assert_eq!(code, 0, "{err}");
    let heads = out.lines().filter(|line| line.starts_with("[[rules]]"));
    let heads: Vec<_> = heads.collect();
    let place = |name: &str| format!("[[rules]]  # {}:1", rules.join(name).display());
    assert_eq!(heads, [place("a.toml"), place("b.toml")]);
    // A link to a file that is gone is a mistake, and not a rule less.
    std::os::unix::fs::symlink(dir.path("gone"), rules.join("c.toml")).unwrap();
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(err.contains("c.toml: cannot read "), "{err}");
}

#[test]
fn a_reload_reads_the_files_of_rules_dir_again() {
    let dir = Dir::new("rules-reload");
    let rules = dir.path("rules.d");
    fs::create_dir(&rules).unwrap();
    let file = dir.config(&format!("rules_dir = {}\n", rules.display()));
    let mut running = Running::start(&file);
    let named = rules.join("a.toml");
    fs::write(&named, rule("stop")).unwrap();
    running.signal(Signal::HUP);
    running.expect("reload: rules.stop added");
    fs::write(&named, rule("stop").replace("tables", "table")).unwrap();
    running.signal(Signal::HUP);
    running.expect("a.toml:3: unknown key \"table\" in match");
    running.expect("reload failed, the running configuration stays as it was");
    fs::remove_file(&named).unwrap();
    running.signal(Signal::HUP);
    running.expect("reload: rules.stop removed");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}
