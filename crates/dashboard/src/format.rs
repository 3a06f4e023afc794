//! Values as people read them: durations with three digits and a unit, bytes in binary units, `-` for nothing.

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    /// Whole number or rate without a unit.
    Count,
    Micros,
    Percent,
    Seconds,
}

impl Unit {
    /// Returns the unit of a column, by the console's habits of naming.
    pub(crate) fn of(column: &str) -> Self {
        const PERCENTILES: [&str; 3] = ["wait_p", "xact_p", "query_p"];
        match column {
            "age" | "pin_age" | "lasts" | "maxwait" | "seconds" | "wait" => Self::Seconds,
            "bytes" | "memory" | "bytes_per_second" => Self::Bytes,
            "cpu" | "percent" => Self::Percent,
            _ if column.ends_with("_us") => Self::Micros,
            _ if PERCENTILES.iter().any(|start| column.starts_with(start)) => Self::Micros,
            _ if column.ends_with("_bytes") => Self::Bytes,
            _ if column.ends_with("_seconds") => Self::Seconds,
            _ => Self::Count,
        }
    }

    /// Name of the unit for the page's script, which labels axes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Micros => "micros",
            Self::Percent => "percent",
            Self::Seconds => "seconds",
        }
    }

    /// Returns a value with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Bytes => bytes(value),
            Self::Count if value.fract() == 0.0 => format!("{value:.0}"),
            Self::Count => digits(value),
            Self::Micros => seconds(value / 1e6),
            Self::Percent => format!("{} %", digits(value)),
            Self::Seconds => seconds(value),
        }
    }
}

/// Returns a number with three digits that count.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..10.0 => trimmed(format!("{value:.2}")),
        10.0..100.0 => trimmed(format!("{value:.1}")),
        _ => format!("{value:.0}"),
    }
}

fn trimmed(text: String) -> String {
    let cut = text.trim_end_matches('0').trim_end_matches('.');
    if cut.is_empty() { text } else { cut.to_owned() }
}

fn seconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.001 => format!("{} us", digits(value * 1e6)),
        ..1.0 => format!("{} ms", digits(value * 1e3)),
        ..120.0 => format!("{} s", digits(value)),
        ..7200.0 => format!("{:.0} min", (value / 60.0).floor()),
        ..172_800.0 => format!("{:.0} h", (value / 3600.0).floor()),
        _ => format!("{:.0} d", (value / 86_400.0).floor()),
    }
}

fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut rest = value;
    for unit in UNITS {
        if rest.abs() < 1024.0 {
            return format!("{} {unit}", digits(rest));
        }
        rest /= 1024.0;
    }
    format!("{rest:.0} PiB")
}

/// Returns seconds of the day in UTC, as `03:04:05 UTC`.
pub(crate) fn clock(unix: i64) -> String {
    let day = unix.rem_euclid(86_400);
    let (hour, minute, second) = (day / 3600, day / 60 % 60, day % 60);
    format!("{hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let check = |column: &str, value: f64, expect: &str| {
            assert_eq!(Unit::of(column).show(value), expect, "{column} {value}");
        };
        check("wait_us", 0.0, "0");
        check("wait_us", 12.0, "12 us");
        check("wait_p99", 1_234.0, "1.23 ms");
        check("maxwait_us", 48_000_000.0, "48 s");
        check("age", 119.0, "119 s");
        check("age", 3_599.0, "59 min");
        check("since_seconds", 90_000.0, "25 h");
        check("seconds", 172_800.0, "2 d");
        check("bytes", 0.0, "0 B");
        check("lag_bytes", 1_536.0, "1.5 KiB");
        check("percent", 98.0, "98 %");
        check("cl_waiting", 1_234.0, "1234");
        check("tps", 12.345, "12.3");
        check("tps", 0.004, "0");
    }

    #[test]
    fn the_clock_is_utc() {
        assert_eq!(clock(1_700_000_000), "22:13:20 UTC");
        assert_eq!(clock(-1), "23:59:59 UTC");
    }
}
