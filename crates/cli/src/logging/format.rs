//! Format of log lines: PgBouncer's, which log parsers understand, or JSON. Each event is exactly one line.
//!
//! The log is the only place in the binary that reads the wall clock.

use std::fmt::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use weir_config::LogFormat;

use super::repeats::Saying;
use super::sink::Queue;

/// Formats each event as a line and puts it into the queue.
pub(crate) struct Lines {
    pub(crate) format: Format,
    pub(crate) queue: Queue,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (now, metadata) = (Timestamp::now(), event.metadata());
        let mut line = String::new();
        // Writing to a String cannot fail.
        let _ = self.format.line(&mut line, now, metadata, &fields);
        let is_limited = *metadata.level() <= Level::WARN;
        let saying = is_limited.then(|| Saying::new(&fields.message, now));
        self.queue.put(line.as_bytes(), saying);
    }
}

/// Formats events.
pub(crate) struct Format {
    shape: LogFormat,
    zone: TimeZone,
    pid: u32,
}

/// Fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Format {
    /// Creates a formatter for this format, in the time zone of the system.
    pub(crate) fn new(shape: LogFormat) -> Self {
        // A container may have no time zone at all.
        let zone = Some(TimeZone::system()).filter(|zone| !zone.is_unknown());
        Self {
            shape,
            zone: zone.unwrap_or(TimeZone::UTC),
            pid: std::process::id(),
        }
    }

    fn line(
        &self,
        out: &mut dyn Write,
        now: Timestamp,
        metadata: &Metadata<'_>,
        fields: &Fields,
    ) -> fmt::Result {
        let level = level(*metadata.level());
        match self.shape {
            LogFormat::Text => self.text(out, now, level, fields),
            LogFormat::Json => self.json(out, now, level, metadata.target(), fields),
        }
    }

    /// Writes `2026-07-10 22:19:13.123 CEST [pid] LEVEL text`.
    fn text(
        &self,
        out: &mut dyn Write,
        now: Timestamp,
        level: &str,
        fields: &Fields,
    ) -> fmt::Result {
        let now = now.to_zoned(self.zone.clone());
        let time = now.strftime("%Y-%m-%d %H:%M:%S%.3f %Z");
        write!(out, "{time} [{}] {level} ", self.pid)?;
        escape(out, &fields.message)?;
        for (name, value) in &fields.others {
            write!(out, " {name}=")?;
            match value {
                Value::String(text) => escape(out, text)?,
                other => write!(out, "{other}")?,
            }
        }
        out.write_char('\n')
    }

    fn json(
        &self,
        out: &mut dyn Write,
        now: Timestamp,
        level: &str,
        target: &str,
        fields: &Fields,
    ) -> fmt::Result {
        let time = now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
        let message = Value::from(fields.message.as_str());
        write!(
            out,
            "{{\"time\":\"{time}\",\"level\":\"{level}\",\"pid\":{},\"target\":{},\"message\":{message}",
            self.pid,
            Value::from(target),
        )?;
        for (name, value) in &fields.others {
            write!(out, ",{}:{value}", Value::from(*name))?;
        }
        out.write_str("}\n")
    }
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.others.push((field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.add(field, Value::from(text));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.add(field, Value::from(value));
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::from(value));
    }
}

/// PgBouncer's words for levels. Weir never logs FATAL: before it ends the process it logs an ERROR, then exits with
/// a code.
fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "LOG",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "NOISE",
    }
}

/// Escapes control characters. A client chooses its own name and must not be able to forge log lines with it.
fn escape(out: &mut dyn Write, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            true => write!(out, "{}", c.escape_default())?,
            false => out.write_char(c)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use expect_test::{Expect, expect};
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Formats every event with the same timestamp.
    struct Capture(Format, Arc<Mutex<String>>);

    impl Layer<Registry> for Capture {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, Registry>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let now = "2026-07-10T20:19:13.123Z".parse().unwrap();
            let mut out = self.1.lock().unwrap();
            self.0
                .line(&mut *out, now, event.metadata(), &fields)
                .unwrap();
        }
    }

    fn check(shape: LogFormat, log: impl FnOnce(), expect: Expect) {
        let lines = Arc::default();
        let format = Format {
            shape,
            zone: TimeZone::get("Europe/Berlin").unwrap(),
            pid: 4711,
        };
        let capture = Capture(format, Arc::clone(&lines));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(capture), log);
        expect.assert_eq(&lines.lock().unwrap());
    }

    fn log_all() {
        tracing::error!(target: "weir_proxy", "a");
        tracing::warn!(target: "weir_proxy", "b");
        tracing::info!(target: "weir_proxy", "C-1: shop/alice@192.0.2.9:50000 login attempt: db={}", "shop");
        tracing::debug!(target: "weir_proxy", count = 3, name = "x y", "d");
        tracing::trace!(target: "weir_proxy", "{}", "two\nlines \u{1b}[31m \"é\"\u{2028}");
    }

    #[test]
    fn text_lines_are_pgbouncers() {
        check(
            LogFormat::Text,
            log_all,
            expect![[r#"
            2026-07-10 22:19:13.123 CEST [4711] ERROR a
            2026-07-10 22:19:13.123 CEST [4711] WARNING b
            2026-07-10 22:19:13.123 CEST [4711] LOG C-1: shop/alice@192.0.2.9:50000 login attempt: db=shop
            2026-07-10 22:19:13.123 CEST [4711] DEBUG d count=3 name=x y
            2026-07-10 22:19:13.123 CEST [4711] NOISE two\nlines \u{1b}[31m "é"\u{2028}
        "#]],
        );
    }

    #[test]
    fn json_lines_are_one_object_each() {
        check(
            LogFormat::Json,
            log_all,
            expect![[r#"
            {"time":"2026-07-10T20:19:13.123Z","level":"ERROR","pid":4711,"target":"weir_proxy","message":"a"}
            {"time":"2026-07-10T20:19:13.123Z","level":"WARNING","pid":4711,"target":"weir_proxy","message":"b"}
            {"time":"2026-07-10T20:19:13.123Z","level":"LOG","pid":4711,"target":"weir_proxy","message":"C-1: shop/alice@192.0.2.9:50000 login attempt: db=shop"}
            {"time":"2026-07-10T20:19:13.123Z","level":"DEBUG","pid":4711,"target":"weir_proxy","message":"d","count":3,"name":"x y"}
            {"time":"2026-07-10T20:19:13.123Z","level":"NOISE","pid":4711,"target":"weir_proxy","message":"two\nlines \u001b[31m \"é\" "}
        "#]],
        );
    }
}
