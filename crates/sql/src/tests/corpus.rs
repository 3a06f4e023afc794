//! Tests of both steps with every statement of SQL files: our own, and those of the directory in `WEIR_REGRESS_SQL`
//! (PostgreSQL's `src/test/regress/sql`).

use std::fs;
use std::path::Path;

use super::{check, lexical};
use crate::is_harmless;
use crate::lex::{Lexer, Reading, Token};

/// Returns the statements of a psql script without its backslash commands, and one combined text for every three
/// statements.
fn statements(script: &str) -> Vec<String> {
    let lines = script.lines().filter(|line| !line.starts_with('\\'));
    let script = lines.collect::<Vec<_>>().join("\n");
    let mut lexer = Lexer::new(script.as_bytes(), Reading::Standard);
    let (mut all, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    while let Ok(Some(token)) = lexer.token() {
        match token {
            Token::Other(b'(') => depth += 1,
            Token::Other(b')') => depth -= 1,
            Token::Other(b';') if depth <= 0 => {
                all.extend(script.get(start..lexer.at()).map(str::to_owned));
                (start, depth) = (lexer.at(), 0);
            }
            _ => {}
        }
    }
    let longer: Vec<String> = all.chunks(3).map(|chunk| chunk.concat()).collect();
    all.extend(longer);
    all
}

/// Checks all files of a directory. Returns the number of statements, of those that parse, and of those that step 1
/// clears.
fn check_directory(directory: &Path) -> (usize, usize, usize) {
    let (mut total, mut parsed, mut harmless) = (0, 0, 0);
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let script = fs::read(&path).unwrap();
        for text in statements(&String::from_utf8_lossy(&script)) {
            total += 1;
            parsed += usize::from(check(&text));
            harmless += usize::from(is_harmless(text.as_bytes(), &super::functions()));
            lexical::check(&text);
        }
    }
    (total, parsed, harmless)
}

#[test]
fn our_own_statements_agree() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let (total, parsed, harmless) = check_directory(&directory);
    assert!(
        total > 100 && parsed > 100 && harmless > 20,
        "{total} {parsed} {harmless}"
    );
}

#[test]
fn the_statements_of_a_directory_agree() {
    let Some(directory) = std::env::var_os("WEIR_REGRESS_SQL") else {
        return;
    };
    let (total, parsed, harmless) = check_directory(Path::new(&directory));
    println!("{total} texts, {parsed} parse, {harmless} are cleared by step 1");
    assert!(parsed > total / 2, "{parsed} of {total}");
}
