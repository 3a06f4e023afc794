//! Words for figures: durations, bytes, counts, times of day.

use std::collections::BTreeMap;

/// Returns a duration in the largest two units, such as `48 s`, `5 min 12 s` or `3 h 2 min`.
pub(crate) fn seconds(seconds: u64) -> String {
    let two = |first, unit, second, rest| match second {
        0 => format!("{first} {unit}"),
        second => format!("{first} {unit} {second} {rest}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Returns a duration of microseconds: in ms below 1 second, with one decimal below 10 seconds, else as [`seconds`].
pub(crate) fn micros(us: u64) -> String {
    match us {
        0..1_000_000 => format!("{} ms", us / 1000),
        1_000_000..10_000_000 => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        _ => seconds(us / 1_000_000),
    }
}

/// Returns a number of bytes in binary units, such as `1.5 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut shift = 0;
    let mut unit = 0;
    while unit + 1 < units.len() && bytes >> shift >= 1024 {
        shift += 10;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    match shift {
        0 => format!("{bytes} B"),
        _ => {
            let tenths = (bytes >> (shift - 10)) % 1024 * 10 / 1024;
            format!("{}.{tenths} {name}", bytes >> shift)
        }
    }
}

/// Returns a number with its noun, such as `1 client` or `3 clients`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Returns a number with its noun and a verb, such as `1 client waits` or `3 clients wait`.
pub(crate) fn count_verb(number: u64, noun: &str, one: &str, many: &str) -> String {
    let verb = if number == 1 { one } else { many };
    format!("{} {verb}", count(number, noun))
}

/// Returns a rate with its noun, such as `2.5 logins/s` or `31 logins/s`.
pub(crate) fn rate(rate: f64, nouns: &str) -> String {
    if rate < 10.0 {
        format!("{rate:.1} {nouns}/s")
    } else {
        format!("{rate:.0} {nouns}/s")
    }
}

/// Returns a part of a whole in per cent, rounded down.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

/// Returns a whole number of events; windows hold whole numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float beyond the range becomes its end"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

/// Returns the sum of several numbers; a sum beyond the range becomes its end.
pub(crate) fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Returns a float for a ratio.
#[expect(clippy::cast_precision_loss, reason = "a ratio needs no more")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

/// Returns a Unix time as a time of day, such as `02:14 UTC`.
pub(crate) fn time(unix: i64) -> String {
    let minutes = unix.rem_euclid(86_400) / 60;
    format!("{:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Returns the date of a Unix time, such as `2026-11-27`.
pub(crate) fn date(unix: i64) -> String {
    // Days since 0000-03-01 in years that begin in March, so that a leap day is the last day of its year.
    let days = unix.div_euclid(86_400).saturating_add(719_468);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the seconds between two Unix times; 0 if the clock was set back between them.
pub(crate) fn elapsed(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

/// Returns the most frequent of several names, and its count.
pub(crate) fn most<'a>(names: impl Iterator<Item = &'a str>) -> Option<(&'a str, u64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count)
}

/// Returns a name from outside, which may be empty.
pub(crate) fn named(name: &str) -> &str {
    if name.is_empty() { "(no name)" } else { name }
}

/// Returns a name as the console reads it: a word, or in double quotes.
pub(crate) fn quoted(name: &str) -> String {
    if is_word(name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Returns the command that shows the statements of a pool; those of all pools if its names are no words.
pub(crate) fn digests_of((database, user): &(String, String)) -> String {
    if is_word(database) && is_word(user) {
        format!("SHOW DIGESTS FOR {database}/{user} LIMIT 10")
    } else {
        "SHOW DIGESTS LIMIT 10".to_owned()
    }
}

fn is_word(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_plain)
}

/// Cuts a text to a number of bytes, at a character.
pub(crate) fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let mut end = bytes_max;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        let all = [0, 48, 60, 312, 3600, 10_920, 86_400, 180_000].map(seconds);
        let words = [
            "0 s",
            "48 s",
            "1 min",
            "5 min 12 s",
            "1 h",
            "3 h 2 min",
            "1 d",
            "2 d 2 h",
        ];
        assert_eq!(all, words);
        let all = [0, 250_000, 1_550_000, 48_000_000].map(micros);
        assert_eq!(all, ["0 ms", "250 ms", "1.5 s", "48 s"]);
    }

    #[test]
    fn sizes_have_binary_units() {
        let all = [0, 1023, 1024, 1_572_864, u64::MAX].map(bytes);
        assert_eq!(
            all,
            ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "16777215.9 TiB"]
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_795_737_600), "2026-11-27");
        assert_eq!(date(-1), "1969-12-31");
        assert_eq!(time(1_795_737_600 + 8040), "02:14 UTC");
        // A time far outside of the calendar is no panic.
        date(i64::MIN);
        date(i64::MAX);
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        let mut text = "aéé".to_owned();
        cut(&mut text, 4);
        assert_eq!(text, "aé");
    }
}
