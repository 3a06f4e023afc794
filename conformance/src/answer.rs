//! Answers of a server in a form that is equal for two databases of the same or of different clusters.

use std::collections::BTreeMap;

use anyhow::Context;
use anyhow::Result;

use crate::raw::Message;

/// Last `ParameterStatus` of each name.
pub type Parameters = BTreeMap<String, String>;

/// Outcome of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The messages, one line each, without `ParameterStatus` and notifications.
    pub lines: Vec<String>,
    /// Last `ParameterStatus` of each name, as of the end of the step.
    pub parameters: Parameters,
}

impl Answer {
    /// Describes the differences between two answers; empty if they agree.
    #[must_use]
    pub fn difference(&self, other: &Self) -> String {
        let mut text = String::new();
        if self.lines != other.lines {
            text.push_str(&format!(
                "    PostgreSQL: {}\n    target:     {}\n",
                self.lines.join(" / "),
                other.lines.join(" / ")
            ));
        }
        let names = self.parameters.keys().chain(other.parameters.keys());
        let names: std::collections::BTreeSet<_> = names.collect();
        for name in names {
            let (ours, theirs) = (self.parameters.get(name), other.parameters.get(name));
            if ours != theirs {
                text.push_str(&format!(
                    "    ParameterStatus {name}: PostgreSQL {ours:?}, target {theirs:?}\n"
                ));
            }
        }
        text
    }

    /// True if the step failed with this SQLSTATE.
    #[must_use]
    pub fn failed_with(&self, state: &str) -> bool {
        let begin = format!("E ERROR {state} ");
        self.lines.iter().any(|line| line.starts_with(&begin))
    }
}

/// Formats a message that is equal for all clients.
///
/// # Errors
/// When the message is not well formed.
pub fn line(message: &Message) -> Result<String> {
    let body = match message.tag {
        b'T' => return described(&message.body),
        b'D' => format!("[{}]", values(&message.body)?),
        b'E' | b'N' => fields(&message.body),
        b'C' => String::from_utf8_lossy(&message.body)
            .trim_end_matches('\0')
            .to_owned(),
        b't' => types(&message.body)?,
        b'R' | b'K' => String::new(),
        _ => message.body.escape_ascii().to_string(),
    };
    let tag = char::from(message.tag);
    Ok(format!("{tag} {body}").trim_end().to_owned())
}

/// Name and value of a `ParameterStatus`.
///
/// # Errors
/// When the message is not well formed.
pub fn parameter(body: &[u8]) -> Result<(String, String)> {
    let mut parts = body.split(|byte| *byte == 0);
    let mut next = || -> Result<String> {
        let part = parts.next().context("short ParameterStatus")?;
        Ok(String::from_utf8_lossy(part).into_owned())
    };
    Ok((next()?, next()?))
}

/// Formats columns without the parts that differ between databases.
fn described(body: &[u8]) -> Result<String> {
    let mut rest = body.get(2..).context("no count")?;
    let mut columns = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).context("name")?;
        let (name, tail) = rest.split_at(end);
        let (numbers, tail) = tail.split_at_checked(19).context("description cut short")?;
        columns.push(column(name, numbers)?);
        rest = tail;
    }
    Ok(format!("T {}", columns.join(", ")))
}

/// Formats one column. `numbers` begins at the zero after the name: the table's oid, the position in
/// it, type, length, modifier, format.
fn column(name: &[u8], numbers: &[u8]) -> Result<String> {
    let (oid, rest): (&[u8; 4], _) = numbers
        .get(7..)
        .and_then(<[u8]>::split_first_chunk)
        .context("description cut short")?;
    let oid = i32::from_be_bytes(*oid);
    let (length, rest) = rest.split_first_chunk().context("no length")?;
    let (modifier, format) = rest.split_first_chunk().context("no modifier")?;
    Ok(format!(
        "{}:{}/{}/{}/{}",
        name.escape_ascii(),
        type_name(oid),
        i16::from_be_bytes(*length),
        i32::from_be_bytes(*modifier),
        format.escape_ascii()
    ))
}

/// Oids of a `ParameterDescription`.
fn types(body: &[u8]) -> Result<String> {
    let mut rest = body.get(2..).context("no count")?;
    let mut texts = Vec::new();
    while let Some((oid, tail)) = rest.split_first_chunk::<4>() {
        texts.push(type_name(i32::from_be_bytes(*oid)));
        rest = tail;
    }
    Ok(texts.join(" "))
}

/// Name of a type: the oid of a type of PostgreSQL itself. Types that a script has made get another
/// oid each time.
fn type_name(oid: i32) -> String {
    if oid >= 16_384 {
        "made".to_owned()
    } else {
        oid.to_string()
    }
}

fn values(body: &[u8]) -> Result<String> {
    let mut rest = body.get(2..).context("no count")?;
    let mut texts = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            texts.push("NULL".to_owned());
            rest = tail;
            continue;
        };
        let (value, tail) = tail.split_at_checked(length).context("row cut short")?;
        texts.push(value.escape_ascii().to_string());
        rest = tail;
    }
    Ok(texts.join(", "))
}

/// Formats severity, SQLSTATE and text, then the other fields; leaves out the place in PostgreSQL's
/// source.
fn fields(body: &[u8]) -> String {
    let fields: BTreeMap<char, String> = body
        .split(|byte| *byte == 0)
        .filter_map(|field| field.split_first())
        .map(|(code, text)| {
            (
                char::from(*code),
                String::from_utf8_lossy(text).into_owned(),
            )
        })
        .collect();
    let part = |code| fields.get(&code).map_or("", String::as_str);
    let mut text = format!("{} {} {}", part('S'), part('C'), part('M'));
    for (code, value) in fields {
        if !"SVCMFLR".contains(code) {
            text.push_str(&format!(" | {code}={value}"));
        }
    }
    text
}
