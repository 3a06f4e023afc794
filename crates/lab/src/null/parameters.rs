//! The parameters that a session of the null backend reports, so that poolers see their settings take effect.

use weir_wire::encode;
use weir_wire::encode::EncodeError;

/// Names as PostgreSQL spells them, with its defaults.
const REPORTED: &[(&str, &str)] = &[
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("default_transaction_read_only", "off"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("IntervalStyle", "postgres"),
    ("is_superuser", "on"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("session_authorization", "postgres"),
    ("standard_conforming_strings", "on"),
    ("TimeZone", "Etc/UTC"),
];

/// What `SHOW` tells of others that poolers ask for.
const SHOWN: &[(&str, &str)] = &[
    ("transaction_read_only", "off"),
    ("transaction_isolation", "read committed"),
    ("default_transaction_isolation", "read committed"),
    ("search_path", "\"$user\", public"),
    ("max_connections", "10000"),
    ("superuser_reserved_connections", "3"),
    ("server_version_num", "150000"),
];

/// One session's.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    /// What the start-up packet has set, and what is in force; by place in the table. Others have the default.
    started: Vec<(usize, String)>,
    current: Vec<(usize, String)>,
}

impl Parameters {
    /// By the start-up packet's names and values.
    pub(super) fn new<'a>(sent: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut started = Vec::new();
        for (name, value) in sent {
            let name = match name {
                b"user" => &b"session_authorization"[..],
                other => other,
            };
            if let Some(place) = place(&String::from_utf8_lossy(name)) {
                started.push((place, String::from_utf8_lossy(value).into_owned()));
            }
        }
        Self {
            current: started.clone(),
            started,
        }
    }

    /// Reports all of them.
    pub(super) fn tell(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        REPORTED
            .iter()
            .enumerate()
            .try_for_each(|(place, (name, _))| {
                let value = at(&self.current, place);
                encode::parameter_status(out, name.as_bytes(), value.as_bytes())
            })
    }

    /// The value of one, for `SHOW`; empty if nobody knows it.
    pub(super) fn value(&self, name: &str) -> &str {
        if let Some(place) = place(name) {
            return at(&self.current, place);
        }
        let mut shown = SHOWN.iter();
        let found = shown.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// Sets one, and reports it if it is among those and has changed.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let Some(place) = place(name) else {
            return Ok(());
        };
        if at(&self.current, place) == value {
            return Ok(());
        }
        self.current.retain(|(other, _)| *other != place);
        self.current.push((place, value.to_owned()));
        let name = REPORTED.get(place).map_or("", |(name, _)| name);
        encode::parameter_status(out, name.as_bytes(), value.as_bytes())
    }

    /// Back to the start; reports what changes by it.
    pub(super) fn reset(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.current == self.started {
            return Ok(());
        }
        for (place, (name, _)) in REPORTED.iter().enumerate() {
            let value = at(&self.started, place);
            if at(&self.current, place) != value {
                encode::parameter_status(out, name.as_bytes(), value.as_bytes())?;
            }
        }
        self.current.clone_from(&self.started);
        Ok(())
    }
}

fn place(name: &str) -> Option<usize> {
    REPORTED
        .iter()
        .position(|(known, _)| known.eq_ignore_ascii_case(name))
}

fn at(values: &[(usize, String)], place: usize) -> &str {
    let known = values.iter().rev().find(|(other, _)| *other == place);
    let default = || REPORTED.get(place).map_or("", |(_, default)| default);
    known.map_or_else(default, |(_, value)| value.as_str())
}
