//! Report of the results, as Markdown.

use std::fmt::Write as _;

use weir_lab::statistics::Ratio;
use weir_lab::table::{Table, thousands};

use super::Record;
use super::judge::{self, Judgement, Noise, Reached};
use super::mix::Mix;
use super::pair;
use super::plan::{Plan, SIZE_MAX, WARM_UP};
use super::run::{Pins, Size};

/// Facts about the runs as a whole.
pub(super) struct Facts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) environment: &'a str,
    pub(super) pins: Option<&'a Pins>,
    pub(super) clients: u32,
    pub(super) goal: &'a str,
    pub(super) seed: u64,
}

/// A cell without a number.
const NONE: &str = "–";

/// Renders the page.
pub(super) fn render(facts: &Facts<'_>, records: &[Record]) -> String {
    let plan = facts.plan;
    let mut text = "# A pool that finds its size, beside the best fixed size\n\n".to_owned();
    for &mix in &plan.mixes {
        let found = judge::judge(plan, records, mix);
        let noise = noise(judge::noise(records, mix));
        let _ = writeln!(text, "- **{}**: {}{noise}", mix.name(), verdict(&found));
    }
    text.push('\n');
    text.push_str(&adaptive(plan, records));
    text.push_str(&explain(facts, records));
    text.push_str("\n## Fixed sizes\n\nTransactions per second, geometric mean of the blocks.\n\n");
    text.push_str(&sweep(plan, records));
    text.push_str("\n## Pairs\n\n");
    text.push_str(&pairs(plan, records));
    text.push_str("\n## What the pools decided\n");
    for &mix in &plan.mixes {
        text.push_str(&decisions(records, mix));
    }
    text
}

fn verdict(found: &Judgement) -> String {
    let missed: Vec<&str> = [
        (found.is_fast(), "throughput"),
        (found.is_even(), "p99"),
        (found.is_soon(), "time to reach it"),
    ]
    .into_iter()
    .filter(|(is_met, _)| !is_met)
    .map(|(_, what)| what)
    .collect();
    let words = match missed.as_slice() {
        [] => "met".to_owned(),
        missed => format!("**missed**: {}", missed.join(", ")),
    };
    let even = found.even.as_ref().map_or_else(String::new, |[rate, p99]| {
        format!(
            " with the machine's speed allowed for, which explains {:.2} of how pairs differ, {}, p99 {}x; as it is",
            rate.explained,
            ratio(Some(&rate.ratio)),
            ratio(Some(&p99.ratio))
        )
    });
    format!(
        "{words};{even} {} of the best fixed size, p99 {}x",
        ratio(found.ratio.as_ref()),
        ratio(found.p99.as_ref())
    )
}

/// Describes how far the figures can be trusted.
fn noise(noise: Option<Noise>) -> String {
    let Some(noise) = noise else {
        return String::new();
    };
    let warning = match noise.is_too_much() {
        true => ": **too noisy to judge, the machine was busy otherwise**",
        false => "",
    };
    let even = noise.even.map_or_else(String::new, |even| {
        format!(", by {:.1} % with its speed allowed for", even * 100.0)
    });
    format!(
        "; runs of one fixed size differ by {:.1} %{even}{warning}",
        noise.plain * 100.0
    )
}

fn adaptive(plan: &Plan, records: &[Record]) -> String {
    let [ten, double] = plan.usual;
    let over = |size| format!("over fixed {size}");
    let mut table = Table::new(&[
        "mix",
        "from",
        "TPS",
        "best fixed",
        "of best fixed (95 %)",
        "p99, x (95 %)",
        "reached, s",
        "after transactions",
        "held",
        &over(ten),
        &over(double),
    ]);
    for &mix in &plan.mixes {
        for &start in &plan.starts {
            let found = judge::judge_starts(plan, records, mix, &[start]);
            table.row(row(mix, &start.to_string(), &found));
        }
        table.row(row(mix, "all", &judge::judge(plan, records, mix)));
    }
    table.markdown()
}

/// Table of all pairs, which shows the pair that decides an interval.
fn pairs(plan: &Plan, records: &[Record]) -> String {
    let mut table = Table::new(&[
        "mix",
        "block",
        "from",
        "TPS",
        "best fixed",
        "its TPS",
        "ratio",
        "p99, ms",
        "its p99, ms",
        "reached, s",
        "fixed alike, s",
        "processors slower by",
    ]);
    for &mix in &plan.mixes {
        let all_times = judge::judge(plan, records, mix).reached;
        for (pair, reached) in pair::pairs(records, mix).into_iter().zip(all_times) {
            let (adaptive, fixed) = (pair.adaptive, pair.fixed);
            let alike = judge::reached(&fixed.series, fixed.per_second);
            let slower = pair.slower().into_iter();
            let slower: Vec<_> = slower
                .map(|log| format!("{:.1}", log.exp_m1() * 100.0))
                .collect();
            table.row(vec![
                mix.name().to_owned(),
                pair.block.to_string(),
                pair.start.to_string(),
                thousands(adaptive.per_second),
                pair.size.to_string(),
                thousands(fixed.per_second),
                format!("{:.3}", adaptive.per_second / fixed.per_second),
                format!("{:.1}", milliseconds(adaptive.p99_us)),
                format!("{:.1}", milliseconds(fixed.p99_us)),
                times_of(&[reached]).0,
                times_of(&[alike]).0,
                match slower.is_empty() {
                    true => NONE.to_owned(),
                    false => format!("{} %", slower.join(", ")),
                },
            ]);
        }
    }
    table.markdown()
}

fn row(mix: Mix, from: &str, found: &Judgement) -> Vec<String> {
    let rate = judge::geometric_mean(&found.rates);
    let rate = rate.map_or_else(|| NONE.to_owned(), thousands);
    let [ten, double] = &found.usual;
    let (seconds, transactions) = times_of(&found.reached);
    vec![
        mix.name().to_owned(),
        from.to_owned(),
        rate,
        range(&found.fixed),
        ratio(found.ratio.as_ref()),
        ratio(found.p99.as_ref()),
        seconds,
        transactions,
        range(&found.held),
        ratio(ten.as_ref()),
        ratio(double.as_ref()),
    ]
}

fn ratio(ratio: Option<&Ratio>) -> String {
    let Some(ratio) = ratio else {
        return NONE.to_owned();
    };
    match ratio.interval {
        Some(interval) => format!(
            "{:.3} ({:.3}–{:.3})",
            ratio.mean, interval.low, interval.high
        ),
        None => format!("{:.3}", ratio.mean),
    }
}

/// Latest time of the runs, in seconds and in transactions.
fn times_of(reached: &[Option<Reached>]) -> (String, String) {
    let all: Option<Vec<Reached>> = reached.iter().copied().collect();
    match all {
        Some(all) if !all.is_empty() => {
            let seconds = all.iter().map(|one| one.seconds).max().unwrap_or_default();
            let transactions = all.iter().map(|one| one.transactions).fold(0.0, f64::max);
            (seconds.to_string(), thousands(transactions))
        }
        Some(_) => (NONE.to_owned(), NONE.to_owned()),
        None => ("never".to_owned(), NONE.to_owned()),
    }
}

fn range(values: &[u32]) -> String {
    match (values.iter().min(), values.iter().max()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low}–{high}"),
        _ => NONE.to_owned(),
    }
}

fn sweep(plan: &Plan, records: &[Record]) -> String {
    let sizes: Vec<String> = plan.sizes.iter().map(u32::to_string).collect();
    let heading = std::iter::once("mix").chain(sizes.iter().map(String::as_str));
    let mut table = Table::new(&heading.collect::<Vec<_>>());
    for &mix in &plan.mixes {
        let best = judge::best(records, mix);
        let rates = plan.sizes.iter().map(|&size| {
            let rate = judge::rate(records, mix, size).map_or_else(|| NONE.to_owned(), thousands);
            match best == Some(size) {
                true => format!("**{rate}**"),
                false => rate,
            }
        });
        table.row(
            std::iter::once(mix.name().to_owned())
                .chain(rates)
                .collect(),
        );
    }
    table.markdown()
}

/// Number of blocks that the ratios are based on. In combined runs it may differ between mixes.
fn blocks(plan: &Plan, records: &[Record]) -> String {
    let of = |mix: Mix| {
        let of_mix = records.iter().filter(|record| record.mix == mix);
        of_mix.map(|record| record.block).max().unwrap_or_default()
    };
    let counts: Vec<u32> = plan.mixes.iter().map(|mix| of(*mix)).collect();
    match counts.split_first() {
        Some((first, others)) if others.iter().any(|count| count != first) => {
            let names = plan.mixes.iter().zip(&counts);
            let each: Vec<String> = names
                .map(|(mix, count)| format!("{} {count}", mix.name()))
                .collect();
            format!("blocks ({})", each.join(", "))
        }
        first => format!("{} blocks", first.map_or(0, |(count, _)| *count)),
    }
}

fn explain(facts: &Facts<'_>, records: &[Record]) -> String {
    let plan = facts.plan;
    let pins = facts.pins.map_or_else(
        || "Everybody runs on all processors.".to_owned(),
        |pins| {
            format!(
                "PostgreSQL has the processors {}, Weir and pgbench {}.",
                pins.server, pins.others
            )
        },
    );
    let mixes: Vec<String> = plan
        .mixes
        .iter()
        .map(|mix| format!("{}: {}", mix.name(), mix.about()))
        .collect();
    format!(
        "\nEach adaptive run is compared with a run of the best fixed size so far beside it; ratios are geometric means \
         of {}, intervals by Student's t on the logarithms. Both take {} s, of which the last {} count; runs of the \
         sweep {} s after {} s of warm-up, the {} best sizes of a block three times. {} clients, pool_size_goal {}, pool_size_max {}. Reached: \
         the beginning of the first {} % for five seconds, counted from the first transaction on; the latest of the \
         runs. The pool tries nothing in its first five seconds. Fixed alike: the same of the fixed run, which has nothing to \
         find, against what it did itself in the seconds that count: what the machine takes. Wanted: the lower end at least {}, the upper end of \
         p99 at most {}, reached within {} s or {} transactions. How fast the machine was is measured in every run, by a small \
         fixed piece of work on each processor; with 8 pairs and more ratios are judged as they would be had both runs \
         met the same (analysis of covariance), what is to be reached is what the fixed size would do on the machine \
         that the adaptive run met, and the plain ratios stand beside them. {pins} Order by seed {}.\n\nMixes: {}.\n\n{}\n",
        blocks(plan, records),
        plan.seconds,
        plan.measured,
        plan.fixed_seconds,
        WARM_UP,
        judge::FINALISTS,
        facts.clients,
        facts.goal,
        SIZE_MAX,
        judge::RATIO_MIN * 100.0,
        judge::RATIO_MIN,
        judge::P99_MAX,
        judge::SECONDS_MAX,
        thousands(judge::TRANSACTIONS_MAX),
        facts.seed,
        mixes.join("; "),
        facts.environment,
    )
}

fn is_newest(record: &Record, records: &[Record]) -> bool {
    !records.iter().any(|other| {
        (other.mix, other.size) == (record.mix, record.size)
            && other.outcome.is_ok()
            && other.block > record.block
    })
}

/// Decisions of the pool in the newest run of each start, which explain its size; also the
/// failures.
fn decisions(records: &[Record], mix: Mix) -> String {
    let mut text = String::new();
    for record in records.iter().filter(|record| record.mix == mix) {
        match (&record.outcome, record.size) {
            (Err(error), size) => {
                let _ = writeln!(
                    text,
                    "\n{}, {size}, block {}: {error}",
                    mix.name(),
                    record.block
                );
            }
            // Interrupted runs are included.
            (Ok(seen), Size::From(start)) if is_newest(record, records) => {
                let _ = writeln!(text, "\n{} from {start}:\n\n```", mix.name());
                for line in &seen.decisions {
                    let _ = writeln!(text, "{line}");
                }
                text.push_str("```\n");
            }
            _ => {}
        }
    }
    text
}

/// Converts microseconds for display.
#[expect(clippy::cast_precision_loss, reason = "latencies stay far below 2^52")]
pub(super) fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{plan, records};
    use super::*;

    fn page(records: &[Record]) -> String {
        let plan = plan();
        let facts = Facts {
            plan: &plan,
            environment: "some machine",
            pins: None,
            clients: 100,
            goal: "balanced",
            seed: 1,
        };
        render(&facts, records)
    }

    #[test]
    fn a_page_says_what_was_met_and_why() {
        let text = page(&records(0.99));
        assert!(
            text.contains("- **chatty**: met; 0.990 (0.990–0.990)"),
            "{text}"
        );
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        let all: Vec<&str> = line("| chatty |  all").split('|').map(str::trim).collect();
        for (column, cell) in [(3, "1,400"), (4, "8"), (7, "3"), (8, "2,970"), (9, "7")] {
            assert_eq!(all.get(column), Some(&cell), "{all:?}");
        }
        assert!(all[10].starts_with("1.238 (") && all[11].starts_with("2.475 ("));
        assert!(text.contains("**1,414**"), "{text}");
        let pair = text.lines().find(|line| line.contains("2,000")).unwrap();
        let pair: Vec<&str> = pair.split('|').map(str::trim).collect();
        for (column, cell) in [(7, "0.990"), (10, "3"), (11, "3")] {
            assert_eq!(pair.get(column), Some(&cell), "{pair:?}");
        }
        assert!(text.contains("03:00:00.000 4 -> 7"), "{text}");
    }

    #[test]
    fn a_page_says_how_many_blocks_each_mix_has() {
        let mut both = plan();
        both.mixes.push(Mix::Pipelined);
        let mut records = records(0.99);
        assert_eq!(blocks(&plan(), &records), "2 blocks");
        let mut other = records[0].clone();
        (other.mix, other.block) = (Mix::Pipelined, 5);
        records.push(other);
        assert_eq!(blocks(&both, &records), "blocks (chatty 2, pipelined 5)");
    }

    #[test]
    fn a_page_of_an_interrupted_run_says_why_too() {
        let first: Vec<Record> = records(0.99)
            .into_iter()
            .filter(|record| record.block == 1)
            .collect();
        let text = page(&first);
        assert!(
            plan().blocks > 1 && text.contains("03:00:00.000 4 -> 7"),
            "{text}"
        );
        let once = |text: &str| text.matches("chatty from 20:").count();
        assert_eq!((once(&text), once(&page(&records(0.99)))), (1, 1));
    }

    #[test]
    fn a_page_says_what_was_missed() {
        let text = page(&records(0.9));
        assert!(
            text.contains("**missed**: throughput, time to reach it;"),
            "{text}"
        );
        assert!(text.contains("differ by 0.0 %\n"), "{text}");
        let pair = text.lines().find(|line| line.contains("2,000")).unwrap();
        let times: Vec<&str> = pair.split('|').map(str::trim).skip(10).take(2).collect();
        assert_eq!(times, ["never", "3"], "{pair}");
        let noisy = |even| noise(Some(Noise { plain: 0.09, even }));
        assert!(
            noisy(None).ends_with(
                "differ by 9.0 %: **too noisy to judge, the machine was busy otherwise**"
            )
        );
        assert!(
            noisy(Some(0.03)).ends_with("differ by 9.0 %, by 3.0 % with its speed allowed for")
        );
        let mut failed = records(0.99);
        failed
            .iter_mut()
            .for_each(|record| record.outcome = Err("no server".to_owned()));
        let text = page(&failed);
        assert!(
            text.contains("chatty, auto from 20, block 2: no server"),
            "{text}"
        );
        assert!(text.contains("**missed**"), "{text}");
    }
}
