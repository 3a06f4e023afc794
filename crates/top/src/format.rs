//! Numbers as people read them: three digits and a unit.

/// Returns a duration in microseconds as us, ms or s, and from ten minutes on in larger units.
pub(crate) fn duration(micros: f64) -> String {
    match micros {
        0.0 => "0".to_owned(),
        us if us < 999.5 => format!("{us:.0}us"),
        us if us < 999_500.0 => digits(us / 1e3) + "ms",
        us if us < 600e6 => digits(us / 1e6) + "s",
        us => long(us / 1e6),
    }
}

fn long(seconds: f64) -> String {
    const UNITS: [(f64, &str, f64, &str); 3] = [
        (86_400.0, "d", 3600.0, "h"),
        (3600.0, "h", 60.0, "m"),
        (60.0, "m", 1.0, "s"),
    ];
    let unit = UNITS.iter().find(|(size, ..)| seconds >= *size);
    unit.map_or_else(
        || digits(seconds) + "s",
        |(size, name, part, part_name)| {
            let whole = (seconds / size).floor();
            let rest = ((seconds - whole * size) / part).floor();
            format!("{whole:.0}{name}{rest:02.0}{part_name}")
        },
    )
}

/// Returns a number of bytes as B, KiB, MiB, GiB or TiB.
pub(crate) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1023.5 {
        let unit = if bytes == 0.0 { "" } else { "B" };
        return format!("{bytes:.0}{unit}");
    }
    let mut value = bytes / 1024.0;
    let mut units = UNITS.iter().peekable();
    let mut unit = units.next();
    while value >= 1023.5 && units.peek().is_some() {
        value /= 1024.0;
        unit = units.next();
    }
    format!("{}{}", digits(value), unit.unwrap_or(&""))
}

/// Returns a count: exact up to six digits, then in thousands, millions and so on.
pub(crate) fn count(count: f64) -> String {
    if count < 999_999.5 {
        return format!("{count:.0}");
    }
    scaled(count)
}

/// Returns a rate in events per second.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0".to_owned(),
        rate if rate < 0.01 => "<0.01".to_owned(),
        rate if rate < 9999.5 => digits(rate),
        rate => scaled(rate),
    }
}

fn scaled(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(999.5e9, "T"), (999.5e6, "G"), (999.5e3, "M"), (0.0, "k")];
    const SIZES: [f64; 4] = [1e12, 1e9, 1e6, 1e3];
    let mut units = UNITS.iter().zip(SIZES);
    let unit = units.find(|((from, _), _)| value >= *from);
    unit.map_or_else(String::new, |((_, name), size)| digits(value / size) + name)
}

/// Writes a number with three digits, and with more if it is a thousand or larger.
fn digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (999.0, "999us"),
            (999.6, "1.00ms"),
            (1_234.0, "1.23ms"),
            (45_678.0, "45.7ms"),
            (999_499.0, "999ms"),
            (1_250_000.0, "1.25s"),
            (599_000_000.0, "599s"),
            (754_000_000.0, "12m34s"),
            (18_720_000_000.0, "5h12m"),
            (273_600_000_000.0, "3d04h"),
        ];
        for (micros, expect) in cases {
            assert_eq!(duration(micros), expect);
        }
    }

    #[test]
    fn sizes_counts_and_rates_are_short() {
        assert_eq!(bytes(0.0), "0");
        assert_eq!(bytes(512.0), "512B");
        assert_eq!(bytes(1536.0), "1.50KiB");
        assert_eq!(bytes(1_048_575.0), "1.00MiB");
        assert_eq!(bytes(5e15), "4547TiB");
        assert_eq!(count(0.0), "0");
        assert_eq!(count(999_999.0), "999999");
        assert_eq!(count(1_234_567.0), "1.23M");
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(0.001), "<0.01");
        assert_eq!(rate(3.456), "3.46");
        assert_eq!(rate(1234.0), "1234");
        assert_eq!(rate(12_345.0), "12.3k");
    }
}
