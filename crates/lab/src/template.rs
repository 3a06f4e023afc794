//! Templates. An undefined placeholder is an error with its line, never an empty text.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Serialize;

/// Error of a template that cannot be filled in.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {}", words(source))]
pub struct Error {
    name: String,
    source: minijinja::Error,
}

impl Error {
    fn of(name: &str, source: minijinja::Error) -> Self {
        Self {
            name: name.to_owned(),
            source,
        }
    }
}

fn words(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!("line {line}: "));
    let detail = error.detail().map(|detail| format!(": {detail}"));
    format!(
        "{}{}{}",
        line.unwrap_or_default(),
        error.kind(),
        detail.unwrap_or_default()
    )
}

/// Returns the template engine. Lines with only a condition or a loop leave no trace in the text.
fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    syntax.keep_trailing_newline(true);
    let mut environment = Environment::new();
    environment.set_syntax(syntax.build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    Ok(environment)
}

/// Renders `template`; `name` is for errors.
///
/// # Errors
/// The template is invalid, or has a placeholder that `values` lacks.
pub fn render(name: &str, template: &str, values: &impl Serialize) -> Result<String, Error> {
    let values = Value::from(Serde(values));
    environment()
        .and_then(|environment| environment.render_str(template, values))
        .map_err(|source| Error::of(name, source))
}

/// Evaluates a condition such as `auth == 'trust' and version.minor < 21`.
///
/// # Errors
/// As [`render`].
pub fn holds(name: &str, expression: &str, values: &impl Serialize) -> Result<bool, Error> {
    let values = Value::from(Serde(values));
    let eval = || {
        let environment = environment()?;
        environment.compile_expression(expression)?.eval(values)
    };
    match eval() {
        Ok(value) => Ok(value.is_true()),
        Err(source) => Err(Error::of(name, source)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn values() -> BTreeMap<&'static str, u32> {
        BTreeMap::from([("port", 6432), ("workers", 2)])
    }

    #[test]
    fn placeholders_are_filled_in_and_braces_of_the_text_stay() {
        let text = render("x", "listen { port {{ port }} }\n", &values()).unwrap();
        assert_eq!(text, "listen { port 6432 }\n");
    }

    #[test]
    fn an_unknown_placeholder_is_an_error_with_its_line() {
        let error = render("pooler.ini", "a\nb = {{ prot }}\n", &values()).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("pooler.ini: line 2: undefined"), "{text}");
    }

    #[test]
    fn expressions_hold_or_not_and_misspelt_ones_fail() {
        assert!(holds("when", "workers == 2 and port > 6000", &values()).unwrap());
        assert!(!holds("when", "workers == 3", &values()).unwrap());
        assert!(holds("when", "workers ==", &values()).is_err());
        assert!(holds("when", "worker.count == 1", &values()).is_err());
    }
}
