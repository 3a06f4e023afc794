//! Values from outside the text of the file: `${NAME}` from the environment, in weir.toml only, and passwords from
//! files of their own. PgBouncer's ini has neither `${NAME}` nor an escape for it, so a password such as `a${b}` is
//! taken literally there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::error::ErrorKind;
use crate::options::Scope;
use crate::raw::{Origin, Raw, error_at, quoted};
use crate::value::{BadValue, Dialect, Value};

/// The variables of the environment by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// A text with its variables replaced, and their names.
pub(crate) struct Expanded<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) names: Vec<&'a str>,
}

/// Replaces each `${NAME}` by the variable's value; `$${` stands for a plain `${`. A lone `$` stays as it is.
pub(crate) fn expand<'a>(text: &'a str, variables: &Variables) -> Result<Expanded<'a>, BadValue> {
    let mut expanded = Expanded {
        text: Cow::Borrowed(text),
        names: Vec::new(),
    };
    if !text.contains("${") {
        return Ok(expanded);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        if out.ends_with('$') && before.ends_with('$') {
            // The first `$` only escapes the second one.
            out.push('{');
            rest = after;
            continue;
        }
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| BadValue::plain("${ needs a } behind the variable's name"))?;
        if !is_name(name) {
            return Err(BadValue::plain(
                "${NAME} takes letters, digits and _; $${ is a plain ${",
            ));
        }
        let value = variables
            .get(name)
            .ok_or_else(|| BadValue::plain(format!("environment variable {name} is not set")))?;
        out.push_str(value);
        expanded.names.push(name);
        rest = after;
    }
    out.push_str(rest);
    expanded.text = Cow::Owned(out);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Escapes a text so that [`expand`] returns it unchanged.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    match text.contains("${") {
        true => text.replace("${", "$${").into(),
        false => text.into(),
    }
}

/// Reads the passwords of databases with a `password_file`. One line end at the file's end is not part of the password.
pub(crate) fn read_passwords(raw: &mut Raw, read: &mut dyn FnMut(&Path) -> io::Result<String>) {
    let Some(opt) = Scope::Database.find("password") else {
        return;
    };
    let mut databases = std::mem::take(&mut raw.databases);
    for (name, (values, _)) in &mut databases {
        let Some((Value::Text(path), at)) = values.get("password_file").cloned() else {
            continue;
        };
        if path.is_empty() {
            continue;
        }
        let mut fail = |kind, message: String| {
            let mut error = error_at(&at, kind, message);
            error.key = Some("password_file".to_owned());
            raw.fail(error);
        };
        if values.contains_key("password") {
            let message = format!("database \"{name}\" has both password and password_file");
            fail(ErrorKind::Conflict, message);
            continue;
        }
        let text = match read(Path::new(&path)) {
            Ok(text) => text,
            Err(why) => {
                let message = format!("cannot read password_file {}: {why}", quoted(&path));
                fail(ErrorKind::Read, message);
                continue;
            }
        };
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        if password.is_empty() || password.contains('\n') {
            let message = format!(
                "password_file {} must hold one line, the password",
                quoted(&path)
            );
            fail(ErrorKind::BadValue, message);
            continue;
        }
        match opt.parse(password, Dialect::Native) {
            Ok(value) => {
                let origin = Origin::File(path.as_str().into(), 0);
                values.insert(opt.name, (value, origin));
            }
            Err(bad) => fail(
                ErrorKind::BadValue,
                format!("password_file: {}", bad.message),
            ),
        }
    }
    raw.databases = databases;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<(&str, Option<&str>), &str>) {
        let variables = [("A", "1"), ("B_2", "${A}")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expanded = expand(text, &variables.into());
        match (&expanded, expect) {
            (Ok(expanded), Ok(wanted)) => {
                assert_eq!((&*expanded.text, expanded.names.first().copied()), wanted)
            }
            (Err(bad), Err(wanted)) => assert_eq!(bad.message, wanted),
            _ => panic!("{text}: wanted {expect:?}"),
        }
    }

    #[test]
    fn variables_are_put_in_once_and_only_where_asked_for() {
        check("plain $1 $A {A}", Ok(("plain $1 $A {A}", None)));
        check("${A}", Ok(("1", Some("A"))));
        check("x${A}y${B_2}z", Ok(("x1y${A}z", Some("A"))));
        check("$${A}", Ok(("${A}", None)));
        check("$$${A}", Ok(("$${A}", None)));
        check("$ ${A}", Ok(("$ 1", Some("A"))));
        check("${C}", Err("environment variable C is not set"));
        check("${A", Err("${ needs a } behind the variable's name"));
        for text in ["${}", "${1}", "${A-x}", "${ A}"] {
            check(
                text,
                Err("${NAME} takes letters, digits and _; $${ is a plain ${"),
            );
        }
    }

    #[test]
    fn what_is_escaped_comes_back() {
        for text in ["a", "${A}", "$${A}", "$$${", "${${A}}", "$", "x${"] {
            let escaped = escape(text).into_owned();
            check(&escaped, Ok((text, None)));
        }
    }
}
