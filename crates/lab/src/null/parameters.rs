//! The parameters that a session of the null backend reports, so that poolers see their settings take effect.

use weir_wire::encode;
use weir_wire::encode::EncodeError;

/// Reported parameters in PostgreSQL's spelling, with their defaults.
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

/// Further parameters that poolers ask for with `SHOW`.
const SHOWN: &[(&str, &str)] = &[
    ("transaction_read_only", "off"),
    ("transaction_isolation", "read committed"),
    ("default_transaction_isolation", "read committed"),
    ("search_path", "\"$user\", public"),
    ("max_connections", "10000"),
    ("superuser_reserved_connections", "3"),
    ("server_version_num", "150000"),
];

/// Parameters of one session.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    /// Values from the start-up packet, and current values, by index in [`REPORTED`]. All others have the default.
    started: Vec<(usize, String)>,
    current: Vec<(usize, String)>,
}

impl Parameters {
    /// Takes the names and values of the start-up packet.
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

    /// Reports all parameters.
    pub(super) fn tell(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        REPORTED
            .iter()
            .enumerate()
            .try_for_each(|(place, (name, _))| {
                let value = at(&self.current, place);
                encode::parameter_status(out, name.as_bytes(), value.as_bytes())
            })
    }

    /// Returns the value for `SHOW`; empty for an unknown parameter.
    pub(super) fn value(&self, name: &str) -> &str {
        if let Some(place) = place(name) {
            return at(&self.current, place);
        }
        let mut shown = SHOWN.iter();
        let found = shown.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// Sets a reported parameter, and reports it if it has changed. Other parameters are ignored.
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

    /// Restores the values of the start, and reports the changes.
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
