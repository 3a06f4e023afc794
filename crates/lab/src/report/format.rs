//! Numbers for display. Nothing in here ever prints NaN or an infinity: a non-finite value becomes
//! a dash.

/// Text for an absent value.
pub(crate) const NONE: &str = "–";

/// Format of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Bytes with a binary unit.
    Bytes,
    /// Bytes per second with a decimal unit.
    BytesPerSecond,
    /// Integer with thousands separated.
    Count,
    /// Number with two decimals: widths, deviations.
    Decimal,
    /// Ratio close to 1, with three decimals.
    Fine,
    /// Microseconds, as µs, ms or s.
    Micros,
    /// A probability.
    Probability,
    /// A share, as percent.
    Percent,
    /// Transactions per second.
    Rate,
    /// A ratio to the base.
    Ratio,
    /// Seconds.
    Seconds,
}

impl Style {
    /// Formats a figure.
    pub(crate) fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return NONE.to_owned();
        }
        match self {
            Self::Bytes => {
                let units = [
                    ("GiB", 1_073_741_824.0),
                    ("MiB", 1_048_576.0),
                    ("KiB", 1024.0),
                ];
                scaled(value, &units, "B")
            }
            Self::BytesPerSecond => {
                let units = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
                scaled(value, &units, "B/s")
            }
            Self::Count => grouped(value),
            Self::Decimal | Self::Ratio => no_minus_zero(format!("{value:.2}")),
            Self::Fine => format!("{value:.3}"),
            Self::Micros => scaled(value, &[("s", 1e6), ("ms", 1e3)], "µs"),
            Self::Probability if value < 0.000_5 => "<0.001".to_owned(),
            Self::Probability => format!("{value:.3}"),
            Self::Percent if value.abs() < 0.1 => {
                format!("{} %", no_minus_zero(format!("{:.1}", value * 100.0)))
            }
            Self::Percent => format!("{:.0} %", value * 100.0),
            Self::Rate if value.abs() < 100.0 => significant(value),
            Self::Rate => grouped(value),
            Self::Seconds => {
                let text = format!("{value:.2}");
                format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }

    /// Formats a figure, or a dash if there is none.
    pub(crate) fn maybe(self, value: Option<f64>) -> String {
        value.map_or_else(|| NONE.to_owned(), |value| self.show(value))
    }
}

/// Formats a difference with its sign: `+6.2%`, as benchstat writes it.
pub(crate) fn change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return NONE.to_owned();
    }
    format!("{:+.1}%", (ratio - 1.0) * 100.0).replace("-0.0%", "+0.0%")
}

/// Chooses the singular or the plural: `1 cell`, `2 cells`.
pub(crate) fn plural(count: usize, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

/// Formats with three significant digits, without exponent.
pub(crate) fn significant(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let text = match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.001 || size == 0.0 => format!("{value:.2}"),
        _ => "0.00".to_owned(),
    };
    no_minus_zero(text)
}

/// Formats seconds since 1970 as day and minute in UTC.
pub(crate) fn moment(unix_s: u64) -> String {
    i64::try_from(unix_s)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
        .map_or_else(
            || NONE.to_owned(),
            |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        )
}

/// Formats hours, minutes and seconds, from the largest unit that is not zero.
pub(crate) fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Quotes a command line so that a shell splits it into the same words.
pub(crate) fn shell(command: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    let quoted = command.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Formats `value` in the largest unit that it reaches, else in `least`.
fn scaled(value: f64, units: &[(&str, f64)], least: &str) -> String {
    // A value that rounds up to the next unit is written in that unit.
    let fits = |(_, size): &&(&str, f64)| value.abs() >= size * 0.999_5;
    let (unit, size) = units.iter().find(fits).copied().unwrap_or((least, 1.0));
    format!("{} {unit}", significant(value / size))
}

/// Formats as an integer with a comma between thousands.
fn grouped(value: f64) -> String {
    let plain = no_minus_zero(format!("{value:.0}"));
    let (sign, digits) = plain
        .strip_prefix('-')
        .map_or(("", plain.as_str()), |rest| ("-", rest));
    let mut text = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn no_minus_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(style: Style, value: f64, expected: &str) {
        assert_eq!(style.show(value), expected);
    }

    #[test]
    fn numbers_read_well() {
        check(Style::Rate, 33_951.4, "33,951");
        check(Style::Rate, 1_234_567.0, "1,234,567");
        check(Style::Rate, 12.34, "12.3");
        check(Style::Count, 999.0, "999");
        check(Style::Count, -1000.0, "-1,000");
        check(Style::Micros, 412.3, "412 µs");
        check(Style::Micros, 1_853.0, "1.85 ms");
        check(Style::Micros, 999.9, "1.00 ms");
        check(Style::Micros, 2_500_000.0, "2.50 s");
        check(Style::Bytes, 1536.0, "1.50 KiB");
        check(Style::Bytes, 87.0 * 1_048_576.0, "87.0 MiB");
        check(Style::Bytes, 0.0, "0.00 B");
        check(Style::BytesPerSecond, 812e6, "812 MB/s");
        check(Style::Percent, 0.0312, "3.1 %");
        check(Style::Percent, 0.42, "42 %");
        check(Style::Percent, -0.000_1, "0.0 %");
        check(Style::Ratio, 1.0049, "1.00");
        check(Style::Probability, 0.0286, "0.029");
        check(Style::Probability, 0.000_01, "<0.001");
        check(Style::Seconds, 60.0, "60 s");
        check(Style::Seconds, 2.5, "2.5 s");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        for style in [
            Style::Bytes,
            Style::Count,
            Style::Micros,
            Style::Rate,
            Style::Ratio,
        ] {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                check(style, value, NONE);
            }
        }
        assert_eq!(change(f64::NAN), NONE);
        assert_eq!(Style::Rate.maybe(None), NONE);
        assert_eq!(significant(f64::NAN), NONE);
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(change(1.062), "+6.2%");
        assert_eq!(change(0.5), "-50.0%");
        assert_eq!(change(0.999_99), "+0.0%");
    }

    #[test]
    fn times_are_for_people() {
        assert_eq!(moment(1_763_676_000), "2025-11-20 22:00 UTC");
        assert_eq!(moment(u64::MAX), NONE);
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(3 * 60 + 4), "3 min 4 s");
        assert_eq!(duration(5400), "1 h 30 min");
    }

    #[test]
    fn a_shell_takes_the_command_apart_again() {
        let command = ["pgbench", "-c", "5", "SELECT 'x'", ""].map(str::to_owned);
        assert_eq!(shell(&command), r"pgbench -c 5 'SELECT '\''x'\''' ''");
    }
}
