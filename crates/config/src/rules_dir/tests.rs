//! Tests of `rules_dir`: the order of its rules, and the mistakes that refuse a configuration.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::Files;
use crate::load::{Loaded, Upstream, load, upstream};
use crate::native::rules_of;
use crate::rules::RULES_MAX;
use crate::show::effective_text;

/// Files by their paths; a path without a text cannot be read.
struct Tree(BTreeMap<String, Option<String>>);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let files = files.iter();
        Self(
            files
                .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())))
                .collect(),
        )
    }
}

impl Files for Tree {
    fn read(&mut self, path: &Path) -> io::Result<String> {
        let found = self.0.get(path.to_str().unwrap_or_default()).cloned();
        found
            .flatten()
            .ok_or_else(|| io::Error::other("no such file"))
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        // In the wrong order, as a directory may list its entries.
        let paths = self.0.keys().rev().map(PathBuf::from);
        let found: Vec<_> = paths
            .filter(|path| path.parent() == Some(directory))
            .collect();
        match found.is_empty() {
            true => Err(io::Error::other("no such directory")),
            false => Ok(found),
        }
    }
}

const MAIN: &str = "auth_type = \"any\"\nrules_dir = \"rules.d\"\n[databases.shop]\nhost = \"x\"\n";

/// Rule that rejects a table.
fn rule(name: &str) -> String {
    format!("[[rules]]\nname = \"{name}\"\nmatch.tables = \"t\"\naction = \"reject\"\n")
}

fn loaded(mut tree: Tree, file: &str, env: &[(&str, &str)]) -> Result<Loaded, String> {
    let env = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let loaded = match file {
        "--upstream" => {
            let to = Upstream {
                server: "x:5432".to_owned(),
                ..Upstream::default()
            };
            upstream(&to, &mut tree, env)
        }
        file => load(Path::new(file), &mut tree, env),
    };
    loaded.map_err(|errors| {
        let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

/// Names of the rules in force, with their places.
fn names(loaded: &Loaded) -> Vec<String> {
    let rules = loaded.settings.rules.iter();
    rules
        .map(|rule| format!("{} {}", rule.rule.name, rule.at))
        .collect()
}

/// Mistakes of a configuration with these files in its directory.
fn mistakes(files: &[(&str, &str)]) -> String {
    let mut all = vec![("weir.toml", MAIN)];
    all.extend(files);
    loaded(Tree::new(&all), "weir.toml", &[]).unwrap_err()
}

#[test]
fn rules_of_files_follow_in_the_order_of_the_names() {
    let main = format!("{MAIN}{}", rule("main"));
    let (a, b) = (format!("\n{}{}", rule("a1"), rule("a2")), rule("b"));
    let tree = Tree::new(&[
        ("weir.toml", &main),
        ("rules.d/10-a.toml", &a),
        ("rules.d/20-b.toml", &b),
        ("rules.d/30-empty.toml", "# nothing yet\n"),
        ("rules.d/.#20-b.toml", "no TOML"),
        ("rules.d/20-b.toml~", "no TOML"),
        ("rules.d/README", "no TOML"),
    ]);
    let loaded = loaded(tree, "weir.toml", &[]).unwrap();
    assert_eq!(
        names(&loaded),
        [
            "main weir.toml:5",
            "a1 rules.d/10-a.toml:2",
            "a2 rules.d/10-a.toml:6",
            "b rules.d/20-b.toml:1"
        ]
    );
}

#[test]
fn rules_alone_are_read_with_those_of_their_directory() {
    let mut tree = Tree::new(&[("rules.d/a.toml", &rule("a"))]);
    let mut read = |text: &str| {
        let env = [("DIR".to_owned(), "rules.d".to_owned())].into_iter();
        let rules = rules_of("weir.toml", text, &mut tree, env);
        let rules = rules.map_err(|errors| errors.iter().map(ToString::to_string).collect());
        rules.map(|rules| {
            rules
                .iter()
                .map(|rule| rule.rule.name.to_string())
                .collect()
        })
    };
    let main = format!("{MAIN}{}", rule("main"));
    let names = |names: &[&str]| -> Result<Vec<String>, Vec<String>> {
        Ok(names.iter().map(|name| (*name).to_owned()).collect())
    };
    assert_eq!(read(&main), names(&["main", "a"]));
    assert_eq!(
        read(&main.replace("rules.d", "${DIR}")),
        names(&["main", "a"])
    );
    assert_eq!(read(&rule("b")), names(&["b"]));
    let mistakes: Vec<String> = read(&main.replace("rules.d", "other")).unwrap_err();
    assert!(
        mistakes[0].starts_with("weir.toml:2: cannot read the directory \"other\""),
        "{mistakes:?}"
    );
    let mistakes = read(&format!("{MAIN}{}", rule("a"))).unwrap_err();
    assert!(
        mistakes[0].contains("there is a rule \"a\" already, at weir.toml:5"),
        "{mistakes:?}"
    );
}

#[test]
fn every_source_of_options_may_name_the_directory() {
    let b = rule("b");
    let ini = "[databases]\nshop =\n[pgbouncer]\nauth_type = any\nrules_dir = rules.d\n";
    let files = [("rules.d/b.toml", &*b), ("a.ini", ini)];
    let found = loaded(Tree::new(&files), "a.ini", &[]).unwrap();
    assert_eq!(names(&found), ["b rules.d/b.toml:1"]);
    let env = [("WEIR_RULES_DIR", "rules.d")];
    let found = loaded(Tree::new(&files), "--upstream", &env).unwrap();
    assert_eq!(names(&found), ["b rules.d/b.toml:1"]);
}

#[test]
fn a_directory_or_file_that_cannot_be_read_is_refused() {
    assert_eq!(
        mistakes(&[]),
        "weir.toml:2: cannot read the directory \"rules.d\" of rules_dir: no such directory; create it, or remove \
         rules_dir"
    );
    let mut tree = Tree::new(&[("weir.toml", MAIN)]);
    tree.0.insert("rules.d/a.toml".to_owned(), None);
    assert_eq!(
        loaded(tree, "weir.toml", &[]).unwrap_err(),
        "rules.d/a.toml: cannot read \"rules.d/a.toml\": no such file"
    );
}

#[test]
fn a_file_has_nothing_but_rules() {
    for (text, place) in [
        ("pool_mode = \"session\"\n", "1: \"pool_mode\""),
        ("\n[databases.b]\nhost = \"x\"\n", "2: \"databases\""),
        ("[databases]\n", "1: \"databases\""),
        ("rules_dir = \"more\"\n", "1: \"rules_dir\""),
    ] {
        let expected = format!(
            "rules.d/a.toml:{place} is not allowed here: a file of rules_dir has nothing but [[rules]]; options and \
             other tables belong in the configuration file"
        );
        assert_eq!(mistakes(&[("rules.d/a.toml", text)]), expected, "{text}");
    }
}

#[test]
fn mistakes_in_rules_have_their_file_and_line() {
    let unnamed = "[[rules]]\naction = \"pass\"\n";
    let unknown = "[[rules]]\nname = \"x\"\nmatch.table = \"t\"\naction = \"pass\"\n";
    let said = mistakes(&[("rules.d/a.toml", unnamed), ("rules.d/b.toml", unknown)]);
    let [first, second] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}");
    };
    assert!(
        first.starts_with("rules.d/a.toml:1: a rule needs a name"),
        "{first}"
    );
    let begin = "rules.d/b.toml:3: unknown key \"table\" in match; there are ";
    assert!(second.starts_with(begin), "{second}");
    let broken = mistakes(&[("rules.d/a.toml", "\n[[rules\n")]);
    assert!(broken.starts_with("rules.d/a.toml:2: "), "{broken}");
}

#[test]
fn a_name_that_two_files_give_is_refused_with_both_places() {
    let a = rule("a");
    assert_eq!(
        mistakes(&[
            ("rules.d/1.toml", &a),
            ("rules.d/2.toml", &format!("\n{a}"))
        ]),
        "rules.d/2.toml:2: there is a rule \"a\" already, at rules.d/1.toml:1"
    );
    let main = format!("{MAIN}{a}");
    let tree = Tree::new(&[("weir.toml", &main), ("rules.d/1.toml", &a)]);
    assert_eq!(
        loaded(tree, "weir.toml", &[]).unwrap_err(),
        "rules.d/1.toml:1: there is a rule \"a\" already, at weir.toml:5"
    );
}

#[test]
fn too_many_files_are_refused() {
    let mut tree = Tree::new(&[("weir.toml", MAIN)]);
    for number in 0..=crate::directory::FILES_MAX {
        tree.0
            .insert(format!("rules.d/{number:04}.toml"), Some(String::new()));
    }
    assert_eq!(
        loaded(tree, "weir.toml", &[]).unwrap_err(),
        "weir.toml:2: rules_dir \"rules.d\" has 1001 files, and at most 1000 are read; put several rules into one file"
    );
}

#[test]
fn the_limit_on_rules_counts_all_files() {
    let mut raw = crate::raw::Raw::default();
    let mut tree = Tree::new(&[("a.toml", &rule("last"))]);
    let known = loaded(
        Tree::new(&[("weir.toml", MAIN), ("rules.d/a.toml", &rule("a"))]),
        "weir.toml",
        &[],
    );
    raw.rules = vec![known.unwrap().settings.rules[0].clone(); RULES_MAX];
    crate::native::read_rules(&mut raw, Path::new("a.toml"), &mut tree);
    let said: Vec<_> = raw.errors.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["a.toml:1: more than 100000 rules"]);
}

#[test]
fn the_effective_text_has_each_rule_once() {
    let tree = Tree::new(&[("weir.toml", MAIN), ("rules.d/a.toml", &rule("a"))]);
    let first = loaded(tree, "weir.toml", &[]).unwrap();
    let text = effective_text(&first);
    let line = "# rules_dir = \"rules.d\"  # weir.toml:2\n";
    assert!(text.contains(line), "{text}");
    let again = loaded(Tree::new(&[("weir.toml", &text)]), "weir.toml", &[]).unwrap();
    let [rule] = again.settings.rules.as_slice() else {
        panic!("{text}");
    };
    assert!(rule.is_like(&first.settings.rules[0]));
}

#[test]
fn the_console_cannot_change_the_directory() {
    let tree = Tree::new(&[("weir.toml", MAIN), ("rules.d/a.toml", "")]);
    let refused = loaded(tree, "weir.toml", &[]).unwrap();
    let refused = refused.set("rules_dir", "other").unwrap_err();
    assert_eq!(
        refused[0].to_string(),
        "SET: \"rules_dir\" changes only by a reload, which reads its files"
    );
}

#[test]
fn only_the_rules_of_any_file_are_read() {
    let mut tree = Tree::new(&[("rules.d/README", "")]);
    let mut known = |text: &str| {
        let found = rules_of("new.toml", text, &mut tree, std::iter::empty());
        let found = found.map_err(|errors| errors[0].to_string())?;
        let names = found
            .iter()
            .map(|rule| format!("{} {}", rule.rule.name, rule.at));
        Ok::<_, String>(names.collect::<Vec<_>>())
    };
    let main = "no_option = \"${UNSET}\"\nrules_dir = \"rules.d\"\n";
    let found = known(&format!("{main}{}[databases.shop]\nport = 0\n", rule("a")));
    assert_eq!(found, Ok(vec!["a new.toml:3".to_owned()]));
    assert_eq!(known(main), Ok(Vec::new()));
    let mistake = known("[[rules]]\nname = \"a\"\n").unwrap_err();
    assert!(
        mistake.starts_with("new.toml:1: rule \"a\" needs an action"),
        "{mistake}"
    );
    assert!(known("[[rules").unwrap_err().starts_with("new.toml:1: "));
}
