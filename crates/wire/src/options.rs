//! The startup parameter `options`: command-line switches for the session, as in `PGOPTIONS`.
//!
//! The parser splits words like PostgreSQL's `pg_split_opts`, and accepts only switches that set a parameter.

/// A parameter that the switches set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name, never empty; dashes become underscores, as in PostgreSQL's `ParseLongOption`.
    pub name: Vec<u8>,
    /// Value, escapes removed; may be empty.
    pub value: Vec<u8>,
}

/// Reason for which a word of `options` is not a setting. The texts contain only what the client sent, which the
/// startup packet bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The switch has no `=value`, or `-c` is the last word.
    #[error("{option} requires a value")]
    MissingValue {
        /// The switch as sent, without escapes.
        option: String,
    },
    /// The name in front of the `=` is empty.
    #[error("{option} names no parameter")]
    MissingName {
        /// The switch as sent, without escapes.
        option: String,
    },
    /// Neither `-c name=value` nor `--name=value`.
    #[error("unsupported startup option {argument}")]
    Unsupported {
        /// The word as sent, without escapes.
        argument: String,
    },
}

/// Parses the value of the startup parameter `options` into settings, in the order given.
///
/// Words are separated by white space. A backslash makes the next byte literal; a backslash at the end is dropped.
/// Accepted are `-c name=value`, `-cname=value` and `--name=value`. PostgreSQL has further switches for debugging
/// (`-d`, `-S`, `-f` …). A pooler could not replay them on another server, so it refuses them by name.
///
/// # Errors
/// Returns the first word that is not a setting.
pub fn parse(options: &[u8]) -> Result<Vec<Setting>, OptionsError> {
    let mut words = Words { rest: options };
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = if word == b"-c" {
            let Some(argument) = words.next() else {
                return Err(OptionsError::MissingValue {
                    option: "-c".to_owned(),
                });
            };
            setting("-c ", &argument)?
        } else if let Some(argument) = word.strip_prefix(b"-c") {
            setting("-c", argument)?
        } else if let Some(argument) = word.strip_prefix(b"--").filter(|name| !name.is_empty()) {
            setting("--", argument)?
        } else {
            return Err(OptionsError::Unsupported {
                argument: text("", &word),
            });
        };
        settings.push(setting);
    }
    Ok(settings)
}

fn setting(switch: &str, argument: &[u8]) -> Result<Setting, OptionsError> {
    let mut parts = argument.splitn(2, |&byte| byte == b'=');
    let name = parts.next().unwrap_or_default();
    let Some(value) = parts.next() else {
        return Err(OptionsError::MissingValue {
            option: text(switch, argument),
        });
    };
    if name.is_empty() {
        return Err(OptionsError::MissingName {
            option: text(switch, argument),
        });
    }
    let name = name
        .iter()
        .map(|&byte| if byte == b'-' { b'_' } else { byte })
        .collect();
    Ok(Setting {
        name,
        value: value.to_vec(),
    })
}

fn text(switch: &str, word: &[u8]) -> String {
    format!("{switch}{}", String::from_utf8_lossy(word))
}

/// Words of an `options` string, without escapes.
struct Words<'a> {
    rest: &'a [u8],
}

impl Iterator for Words<'_> {
    type Item = Vec<u8>;

    /// Returns the next word, which takes at least one byte of input (hazard SEC-24).
    fn next(&mut self) -> Option<Vec<u8>> {
        let start = self.rest.iter().position(|&byte| !is_space(byte))?;
        let mut word = Vec::new();
        let mut is_escaped = false;
        let mut len = start;
        for &byte in self.rest.get(start..)? {
            if !is_escaped && is_space(byte) {
                break;
            }
            len += 1;
            is_escaped = !is_escaped && byte == b'\\';
            if !is_escaped {
                word.push(byte);
            }
        }
        debug_assert!(len > start, "a word has at least one byte");
        self.rest = self.rest.get(len..).unwrap_or_default();
        Some(word)
    }
}

/// Matches C's `isspace`; Rust's `is_ascii_whitespace` lacks the vertical tab.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}
