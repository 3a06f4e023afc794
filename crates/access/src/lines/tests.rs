//! Tests of joined lines, comments, included files and limits.

use std::collections::HashMap;

use super::*;

/// Files in memory.
#[derive(Default)]
struct Disk(HashMap<PathBuf, Vec<u8>>);

impl Disk {
    fn with(files: &[(&str, &str)]) -> Self {
        let entry = |(name, text): &(&str, &str)| (PathBuf::from(name), text.as_bytes().to_vec());
        Self(files.iter().map(entry).collect())
    }
}

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        match path.file_name().is_some_and(|name| name == "locked") {
            true => Err(FileError::Failed("permission denied".to_owned())),
            false => self.0.get(path).cloned().ok_or(FileError::Missing),
        }
    }

    fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        let names: Vec<String> = self
            .0
            .keys()
            .filter(|path| path.parent() == Some(directory))
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect();
        match names.is_empty() {
            true => Err(FileError::Missing),
            false => Ok(names),
        }
    }
}

/// `file:line: field field`, tokens joined with commas; or the mistakes.
fn read(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
    read_from(&Disk::with(files))
}

fn read_from(disk: &Disk) -> Result<Vec<String>, String> {
    let mut problems = Collected::default();
    let lines = load(Path::new("/etc/hba"), disk, &mut problems);
    let show = |line: &Line| {
        let fields: Vec<String> = line
            .fields
            .iter()
            .map(|field| {
                let texts: Vec<&str> = field.iter().map(|token| token.text.as_str()).collect();
                texts.join(",")
            })
            .collect();
        format!("{}: {}", line.place, fields.join(" "))
    };
    let shown = lines.iter().map(show).collect();
    problems.finish(shown).map_err(|error| error.to_string())
}

#[test]
fn empty_lines_and_comments_vanish_and_lines_keep_their_numbers() {
    let text = "# first\n\n  a b # why\r\n\t\nc d";
    assert_eq!(
        read(&[("/etc/hba", text)]).unwrap(),
        ["/etc/hba:3: a b", "/etc/hba:5: c d"]
    );
}

#[test]
fn the_text_of_a_line_is_as_written_without_its_comment() {
    let mut problems = Collected::default();
    let text = "  a   \"b # c\"  # why\n";
    let lines = parse(Path::new("x"), text, &Disk::default(), &mut problems);
    assert_eq!(lines[0].text.as_str(), "a   \"b # c\"");
}

#[test]
fn a_backslash_at_the_end_joins_lines_even_inside_quotes() {
    let text = "a \\\nb\\\r\n c \"d\\\ne\"\nf";
    assert_eq!(
        read(&[("/etc/hba", text)]).unwrap(),
        ["/etc/hba:1: a b c de", "/etc/hba:5: f"]
    );
}

#[test]
fn a_backslash_left_over_by_a_join_joins_no_further() {
    assert_eq!(
        read(&[("/etc/hba", "a\\\\\n\nb")]).unwrap(),
        ["/etc/hba:1: a\\", "/etc/hba:3: b"]
    );
    assert_eq!(read(&[("/etc/hba", "a \\")]).unwrap(), ["/etc/hba:1: a"]);
}

#[test]
fn a_comment_that_would_swallow_the_next_line_is_a_mistake() {
    let text = "# C:\\\nhost all all all reject\n";
    let error = read(&[("/etc/hba", text)]).unwrap_err();
    assert!(
        error.starts_with("/etc/hba:1: a comment that ends"),
        "{error}"
    );
    // A comment on the last of the joined lines swallows nothing.
    assert_eq!(
        read(&[("/etc/hba", "a \\\nb # c")]).unwrap(),
        ["/etc/hba:1: a b"]
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_word() {
    assert_eq!(
        read(&[("/etc/hba", "\u{feff}a b")]).unwrap(),
        ["/etc/hba:1: a b"]
    );
}

#[test]
fn included_lines_stand_where_the_include_stands() {
    let files = [
        ("/etc/hba", "a\ninclude sub/one\ninclude_if_exists none\nd"),
        ("/etc/sub/one", "b\ninclude two"),
        ("/etc/sub/two", "\nc"),
    ];
    assert_eq!(
        read(&files).unwrap(),
        [
            "/etc/hba:1: a",
            "/etc/sub/one:1: b",
            "/etc/sub/two:2: c",
            "/etc/hba:4: d"
        ]
    );
}

#[test]
fn a_directory_gives_its_conf_files_in_order() {
    let files = [
        ("/etc/hba", "include_dir /d"),
        ("/d/b.conf", "b"),
        ("/d/a.conf", "a"),
        ("/d/B.conf", "B"),
        ("/d/.hidden.conf", "h"),
        ("/d/a.conf~", "x"),
    ];
    assert_eq!(
        read(&files).unwrap(),
        ["/d/B.conf:1: B", "/d/a.conf:1: a", "/d/b.conf:1: b"]
    );
}

#[test]
fn a_file_of_names_becomes_one_list() {
    let files = [
        ("/etc/hba", "x,@admins,y z \"@admins\""),
        ("/etc/admins", "ann # boss\nbob, carl\n\n@more"),
        ("/etc/more", "\"d e\""),
    ];
    assert_eq!(
        read(&files).unwrap(),
        ["/etc/hba:1: x,ann,bob,carl,d e,y z @admins"]
    );
}

#[test]
fn files_that_cannot_be_read_are_named_where_they_are_included() {
    for (text, error) in [
        (
            "\ninclude none",
            "/etc/hba:2: cannot read \"/etc/none\": no such file",
        ),
        (
            "a @none b",
            "/etc/hba:1: cannot read \"/etc/none\": no such file",
        ),
        (
            "include_dir /none",
            "/etc/hba:1: cannot read \"/none\": no such file",
        ),
        (
            "include_if_exists locked",
            "/etc/hba:1: cannot read \"/etc/locked\": permission denied",
        ),
        ("include hba", "/etc/hba:1: \"/etc/hba\" includes itself"),
        ("a @hba", "/etc/hba:1: \"/etc/hba\" includes itself"),
    ] {
        let found = read(&[("/etc/hba", text)]).unwrap_err();
        assert!(found.starts_with(error), "{found}");
    }
    let error = read(&[]).unwrap_err();
    assert!(
        error.starts_with("/etc/hba: cannot read \"/etc/hba\""),
        "{error}"
    );
    let error = read(&[("/etc/hba", "a @e"), ("/etc/e", "# nobody")]).unwrap_err();
    assert!(
        error.starts_with("/etc/hba:1: empty file behind @"),
        "{error}"
    );
}

#[test]
fn files_nest_ten_deep_and_no_deeper() {
    let chain = |last: usize| {
        let names: Vec<String> = (0..=last).map(|level| format!("/etc/{level}")).collect();
        let mut disk = Disk::with(&[("/etc/hba", "include 1")]);
        for (level, name) in names.iter().enumerate().skip(1) {
            let text = match level == last {
                true => "deepest".to_owned(),
                false => format!("include {}", level + 1),
            };
            disk.0.insert(name.into(), text.into_bytes());
        }
        read_from(&disk)
    };
    assert_eq!(chain(DEPTH_MAX).unwrap(), ["/etc/10:1: deepest"]);
    let error = chain(DEPTH_MAX + 1).unwrap_err();
    assert!(
        error.starts_with("/etc/10:1: \"/etc/11\" is included too deeply"),
        "{error}"
    );
}

#[test]
fn every_size_has_a_limit() {
    let line = |len: usize| "x".repeat(len);
    let long = line(LINE_BYTES_MAX + 1);
    let error = read(&[("/etc/hba", &long)]).unwrap_err();
    assert!(
        error.starts_with("/etc/hba:1: the line is longer"),
        "{error}"
    );
    assert!(read(&[("/etc/hba", &line(LINE_BYTES_MAX))]).is_ok());

    let error = read(&[("/etc/hba", &"#\n".repeat(FILE_BYTES_MAX / 2 + 1))]).unwrap_err();
    assert!(error.starts_with("/etc/hba: the file is longer"), "{error}");

    let big = format!("#{}\n", line(LINE_BYTES_MAX - 2)).repeat(FILE_BYTES_MAX / LINE_BYTES_MAX);
    let error = read(&[("/etc/hba", &"include big\n".repeat(5)), ("/etc/big", &big)]).unwrap_err();
    assert!(
        error.starts_with("/etc/big: the files are longer"),
        "{error}"
    );

    let many = "include none\n".repeat(FILES_MAX).replace("none", "e");
    let error = read(&[("/etc/hba", &many), ("/etc/e", "")]).unwrap_err();
    assert!(
        error.starts_with("/etc/hba:1000: more than 1000 files"),
        "{error}"
    );
}

#[test]
fn mistakes_are_counted_up_to_a_limit() {
    let error = read(&[("/etc/hba", &"\"\n".repeat(PROBLEMS_MAX * 2))]).unwrap_err();
    assert_eq!(error.lines().count(), PROBLEMS_MAX);
    assert!(error.ends_with("the rest is not shown"), "{error}");
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    let disk = Disk(HashMap::from([("/etc/hba".into(), b"a \xff".to_vec())]));
    let error = read_from(&disk).unwrap_err();
    assert!(
        error.starts_with("/etc/hba: the file is not UTF-8"),
        "{error}"
    );
}
