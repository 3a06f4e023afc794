//! What pgbench says of several scripts with weights.

/// How many transactions of each script pgbench's summary counts: ` - 1234 transactions (60.1% of total, ...)` behind
/// each `SQL script`; with one script only there is one number for all.
#[must_use]
pub fn script_counts(output: &str) -> Vec<u64> {
    let each: Vec<u64> = output
        .lines()
        .filter_map(|line| line.strip_prefix(" - ")?.split_once(" transactions ("))
        .filter_map(|(count, _)| count.parse().ok())
        .collect();
    if !each.is_empty() {
        return each;
    }
    let all = output
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    // With -t it is `400/400`.
    let count = all.and_then(|text| text.split('/').next()?.trim().parse().ok());
    count.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_has_its_own_count() {
        let output = "transaction type: multiple scripts\n\
            number of transactions actually processed: 200/200\n\
            tps = 100.0 (without initial connection time)\n\
            SQL script 1: /x/transfer.sql\n - weight: 60 (targets 60.0% of total)\n\
            \u{20}- 121 transactions (60.5% of total, tps = 60.5)\n - number of failed transactions: 0 (0.000%)\n\
            SQL script 2: /x/balance.sql\n - weight: 40 (targets 40.0% of total)\n\
            \u{20}- 79 transactions (39.5% of total, tps = 39.5)\n";
        assert_eq!(script_counts(output), [121, 79]);
    }

    #[test]
    fn a_single_script_has_all() {
        let output = "number of transactions actually processed: 57\ntps = 1.0\n";
        assert_eq!(script_counts(output), [57]);
        assert_eq!(script_counts("pgbench: error"), Vec::<u64>::new());
    }
}
