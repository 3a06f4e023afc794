//! Settings that each host has for itself, or that decide which host is needed.

use crate::code;
use crate::lex::{Lexer, Reading, Token, Unclear};

const NAMES: [&str; 10] = [
    "config_file",
    "data_directory",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "hba_file",
    "in_hot_standby",
    "port",
    "primary_conninfo",
    "transaction_isolation",
    "transaction_read_only",
];

/// Beginnings of further names.
const PREFIXES: [&str; 3] = ["recovery_", "hot_standby", "synchronous_standby"];

/// Returns the name in lower case if it is one of these settings.
pub(super) fn host_setting(name: &str) -> Option<Box<str>> {
    let name = name.to_ascii_lowercase();
    let is_one =
        NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|start| name.starts_with(start));
    is_one.then(|| name.into())
}

/// True if a definition, as PostgreSQL shows it, may read one of these settings by `current_setting`.
pub(crate) fn may_read_host_setting(definition: &[u8]) -> bool {
    let mut lexer = Lexer::new(definition, Reading::Standard);
    read(&mut lexer).unwrap_or(true)
}

fn read(lexer: &mut Lexer<'_>) -> Result<bool, Unclear> {
    while let Some(token) = lexer.token()? {
        let (Token::Word(word) | Token::Quoted(word)) = token else {
            continue;
        };
        if word != b"current_setting" || lexer.clone().token()? != Some(Token::Other(b'(')) {
            continue;
        }
        lexer.token()?;
        let name = match lexer.token()? {
            Some(Token::Text(constant)) => code::unquoted(constant),
            _ => None,
        };
        let name = name
            .as_deref()
            .and_then(|name| std::str::from_utf8(name).ok());
        if name.is_none_or(|name| host_setting(name).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_definitions_are_read() {
        for definition in [
            "SELECT current_setting('transaction_read_only'::text)",
            "(tenant = current_setting('app.tenant'::text)) AND current_setting('In_Hot_Standby'::text) = 'on'",
            "SELECT current_setting(t.name) FROM t",
            "SELECT current_setting((t.name || 'x'::text))",
            "SELECT 'no end",
        ] {
            assert!(may_read_host_setting(definition.as_bytes()), "{definition}");
        }
        for definition in [
            "(tenant = current_setting('app.tenant'::text))",
            "SELECT current_setting('app.tenant'::text, true) AS current_setting FROM t",
            "SELECT 'current_setting(x)'::text",
            "SELECT 1",
        ] {
            assert!(
                !may_read_host_setting(definition.as_bytes()),
                "{definition}"
            );
        }
    }
}
