//! Units of panels, which follow from the names of their metrics.

use super::promql;

/// Unit of the values of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Bytes,
    BytesPerSecond,
    /// Time in milliseconds, shown as date.
    Date,
    Days,
    Number,
    PerSecond,
    Seconds,
    /// Part of a whole; 1 is 100 %.
    Share,
}

impl Unit {
    /// Grafana's name of the unit.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "Bps",
            Self::Date => "dateTimeAsIso",
            Self::Days => "d",
            Self::Number => "short",
            Self::PerSecond => "ops",
            Self::Seconds => "s",
            Self::Share => "percentunit",
        }
    }

    /// Returns the unit of an expression: that of its first metric, whose name ends with it, unless a function changes it.
    pub(super) fn of(expression: &str) -> Self {
        let name = promql::names(expression).next().unwrap_or_default();
        let is_rate = expression.contains("rate(");
        let name = name.trim_end_matches("_bucket").trim_end_matches("_total");
        let is_of = |unit: &str| name.ends_with(unit);
        if expression.contains(" / ") {
            Self::Share
        } else if is_of("_bytes") && is_rate {
            Self::BytesPerSecond
        } else if is_of("_bytes") {
            Self::Bytes
        } else if is_of("_seconds") && is_rate && !expression.contains("histogram_quantile") {
            // Seconds in a second.
            Self::Share
        } else if is_of("_seconds") {
            Self::Seconds
        } else if is_of("_days_left") {
            Self::Days
        } else if is_rate {
            Self::PerSecond
        } else {
            Self::Number
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_from_names_and_functions() {
        for (expression, unit) in [
            (
                "rate(weir_pool_client_sent_bytes_total[5m])",
                Unit::BytesPerSecond,
            ),
            ("process_resident_memory_bytes", Unit::Bytes),
            ("rate(weir_worker_cpu_seconds_total[5m])", Unit::Share),
            (
                "histogram_quantile(0.5, sum by (le) (rate(weir_pool_wait_seconds_bucket[5m])))",
                Unit::Seconds,
            ),
            ("weir_host_lag_seconds", Unit::Seconds),
            ("weir_limit_used / weir_limit_max", Unit::Share),
            ("rate(weir_pool_errors_total[5m])", Unit::PerSecond),
            ("increase(weir_pool_errors_total[5m])", Unit::Number),
            ("min(weir_tls_certificate_days_left)", Unit::Days),
            ("weir_pool_size", Unit::Number),
        ] {
            assert_eq!(Unit::of(expression), unit, "{expression}");
        }
    }
}
