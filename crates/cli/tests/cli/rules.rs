//! Query rules on the command line: the files of `rules_dir`, and `weir rules test`.

use std::fs;

use rustix::process::Signal;

use crate::{Dir, Running, output, weir, with_file};

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

#[test]
fn a_reload_reads_the_files_of_statement_list_dir_again() {
    let dir = Dir::new("lists-reload");
    let lists = dir.path("lists");
    fs::create_dir(&lists).unwrap();
    let file = dir.config(&format!("statement_list_dir = {}\n", lists.display()));
    let mut running = Running::start(&file);
    let named = lists.join("app.toml");
    let list = "user = \"app\"\n[[statements]]\ntext = \"SELECT ?\"\n";
    fs::write(&named, list).unwrap();
    running.signal(Signal::HUP);
    running.expect("reload: statement_lists.app added");
    fs::write(&named, list.replace("text", "txt")).unwrap();
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(err.contains("app.toml:3: unknown key \"txt\""), "{err}");
    running.signal(Signal::HUP);
    running.expect("app.toml:3: unknown key \"txt\" in a statement");
    running.expect("reload failed, the running configuration stays as it was");
    fs::remove_file(&named).unwrap();
    running.signal(Signal::HUP);
    running.expect("reload: statement_lists.app removed");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_new_rule_that_has_ended_is_refused_and_one_that_ended_in_force_is_none() {
    let dir = Dir::new("rules-ended");
    let rules = dir.path("rules.d");
    fs::create_dir(&rules).unwrap();
    let file = dir.config(&format!("rules_dir = {}\n", rules.display()));
    let named = rules.join("a.toml");
    let ended = format!("{}expires = 2026-01-01T00:00:00Z\n", rule("old"));
    fs::write(&named, &ended).unwrap();
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(
        err.contains("a.toml:1: rule \"old\" ended at 2026-01-01T00:00:00Z; remove it"),
        "{err}"
    );
    // A process that is started again runs: the rule has no effect.
    let mut running = Running::start(&file);
    running.signal(Signal::HUP);
    running.expect("reload done");
    fs::write(&named, ended.replace("old", "new")).unwrap();
    running.signal(Signal::HUP);
    running.expect("rule \"new\" ended at 2026-01-01T00:00:00Z; remove it");
    running.expect("reload failed, the running configuration stays as it was");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn rules_are_tested_against_the_past() {
    let dir = Dir::new("rules-test");
    let file = dir.path("new.toml");
    let log = dir.path("log");
    // A whole configuration; only its rules are read.
    let main = "auth_file = \"${NOWHERE}\"\n[databases.shop]\nhost = \"x\"\n";
    let user = "match.user = \"ann\"\n";
    fs::write(&file, format!("{main}{}{user}", rule("stop"))).unwrap();
    let lines = "\
        2026-11-01 [7] LOG:  duration: 1.500 ms  statement: SELECT *\n\
        \tFROM t WHERE id = 42\n\
        2026-11-01 [7] LOG:  duration: 0.100 ms  execute <unnamed>: SELECT 1\n";
    fs::write(&log, lines).unwrap();
    let test = |args: &[&str]| output(weir(&["rules", "test"]).arg(&file).args(args));
    let log = log.to_str().unwrap();
    let (code, out, err) = test(&["--against", log]);
    assert_eq!((code, err.as_str()), (0, ""));
    let expected = "\
rule       action  statements  server_us  notes
stop       reject           1       1500  taken as met: match.user
    SELECT * FROM t WHERE id = ?
(no rule)                   1        100
    SELECT ?
";
    assert_eq!(out, expected);
    let (code, out, _) = test(&["--against", log, "--format", "json", "--as", "log"]);
    assert_eq!(code, 0);
    assert!(out.contains("\"server_us\": 1500"), "{out}");
    let (code, out, err) = test(&["--against", log, "--as", "digests"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains(":1: not the output of `weir digests"), "{err}");
    assert_eq!(test(&["--against", "/nowhere"]).0, 3);
    fs::write(&file, "\n[[rules]]\nname = \"x\"\naction = \"jump\"\n").unwrap();
    let (code, out, err) = test(&["--against", log]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.contains("new.toml:4: rule \"x\": unknown action"),
        "{err}"
    );
    fs::write(&file, main).unwrap();
    let (code, _, err) = test(&["--against", log]);
    assert_eq!(code, 1);
    assert!(err.contains("new.toml: no rules"), "{err}");
}
