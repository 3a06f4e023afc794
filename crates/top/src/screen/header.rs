//! The first four lines: who is asked, the verdict, clients and servers, rates.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Sparkline, Widget};

use super::{Tone, write};
use crate::format;
use crate::state::State;
use crate::summary::{Summary, Verdict, version};
use crate::text;

/// Time for which a restart is told.
const RESTART_TOLD: Duration = Duration::from_secs(60);
/// Samples in a sparkline.
const SPARKS: u16 = 12;

type Parts = Vec<(String, Tone)>;

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    for (line, parts) in lines(state, width).into_iter().enumerate() {
        let Ok(line) = u16::try_from(line) else { break };
        let row = Rect {
            y: area.y + line,
            height: 1,
            ..area
        };
        write(parts, state, row, buffer);
    }
    // The rates' line leaves room for two pictures.
    let rates = &state.feed.rates;
    if restarted(state).is_some() {
        return;
    }
    let pictures = [
        (rates.transactions(), TRANSACTIONS_AT),
        (rates.waiting(), WAITING_AT + WAITING.len()),
    ];
    for (history, at) in pictures {
        let Ok(at) = u16::try_from(at) else { continue };
        if at + SPARKS <= area.width {
            let place = Rect {
                x: area.x + at,
                y: area.y + 3,
                width: SPARKS,
                height: 1,
            };
            draw_sparks(history, place, buffer);
        }
    }
}

fn draw_sparks(history: &VecDeque<u64>, area: Rect, buffer: &mut Buffer) {
    let from = history.len().saturating_sub(usize::from(SPARKS));
    let shown: Vec<u64> = history.iter().skip(from).copied().collect();
    Sparkline::default().data(&shown).render(area, buffer);
}

/// Column at which the picture of transactions begins.
const TRANSACTIONS_AT: usize = 20;
/// Column at which the text about waiting clients begins, behind transactions and queries.
const WAITING_AT: usize = 52;
const WAITING: &str = "waiting ";

fn lines(state: &State, width: usize) -> [Parts; 4] {
    [
        first(state, width),
        verdict(state),
        connections(state),
        rates(state),
    ]
}

/// Lines of the header about the pooler as plain texts, for a saved view.
pub(crate) fn summary_texts(state: &State) -> Vec<String> {
    let version = version(state.feed.data());
    let parts = [verdict(state), connections(state), rates(state)];
    let joined = parts.into_iter().map(|parts| {
        let texts: String = parts.into_iter().map(|(text, _)| text).collect();
        let words: Vec<_> = texts.split_whitespace().collect();
        words.join(" ")
    });
    version.into_iter().chain(joined).collect()
}

fn first(state: &State, width: usize) -> Parts {
    let address = text::clean(&state.settings.address);
    let version = version(state.feed.data());
    let version = version.unwrap_or_else(|| "-".to_owned());
    let interval = state.interval.as_secs_f64();
    let age = state.age().map(age_text);
    let (freshness, tone) = match (state.away(), age) {
        (Some(reason), Some(age)) => (
            format!("no data for {age}: {}", text::clean(reason)),
            Tone::Bad,
        ),
        (Some(reason), None) => (format!("no data: {}", text::clean(reason)), Tone::Bad),
        (None, Some(age)) if state.feed.is_paused() => {
            (format!("PAUSED, data {age} old"), Tone::Warn)
        }
        (None, Some(age)) => (format!("data {age} old"), Tone::Plain),
        (None, None) => ("connecting …".to_owned(), Tone::Plain),
    };
    // What is wrong has the room that the address can spare.
    let room = width
        .saturating_sub(text::width(&freshness) + text::width(&version) + 8)
        .max(16);
    let mut parts = vec![
        (text::shortened(&address, room), Tone::Strong),
        ("  ".to_owned(), Tone::Plain),
    ];
    if state.away().is_none() {
        parts.push((format!("{version}  every {interval}s  "), Tone::Plain));
    }
    parts.push((freshness, tone));
    parts
}

/// Age in steps that do not flicker.
fn age_text(age: Duration) -> String {
    let seconds = age.as_secs_f64();
    match seconds {
        seconds if seconds < 10.0 => format!("{:.1} s", (seconds * 10.0).floor() / 10.0),
        seconds if seconds < 600.0 => format!("{:.0} s", seconds.floor()),
        seconds => format::duration(seconds * 1e6),
    }
}

fn verdict(state: &State) -> Parts {
    let plain = |text: &str| vec![(text.to_owned(), Tone::Plain)];
    match Verdict::of(state.feed.data()) {
        Verdict::Awaited => plain("verdict -"),
        Verdict::Good => vec![("no conditions".to_owned(), Tone::Good)],
        Verdict::Missing => plain("no verdict: this pooler has no SHOW DIAGNOSIS"),
        Verdict::Conditions(count, worst) => {
            let worst = text::clean(&worst);
            let tone = Tone::of_severity(&worst);
            let noun = if count == 1 {
                "condition"
            } else {
                "conditions"
            };
            vec![
                (worst.to_uppercase(), tone),
                (format!("  {count} {noun}, see view 1"), Tone::Plain),
            ]
        }
    }
}

fn connections(state: &State) -> Parts {
    let Some(sum) = Summary::of(state.feed.data()) else {
        return vec![("clients -  servers -".to_owned(), Tone::Plain)];
    };
    let count = format::count;
    let mut parts = vec![(
        format!("clients {} active, ", count(sum.active)),
        Tone::Plain,
    )];
    if sum.waiting > 0.0 {
        let wait = format::duration(sum.oldest_wait);
        let text = format!("{} waiting (oldest {wait})", count(sum.waiting));
        parts.push((text, Tone::Warn));
    } else {
        parts.push(("0 waiting".to_owned(), Tone::Plain));
    }
    if let Some(pinned) = sum.pinned {
        parts.push((format!(", {} pinned", count(pinned)), Tone::Plain));
    }
    let servers = format!(
        "  servers {} busy, {} idle",
        count(sum.busy),
        count(sum.idle)
    );
    parts.push((servers, Tone::Plain));
    if sum.login > 0.0 {
        parts.push((format!(", {} in login", count(sum.login)), Tone::Plain));
    }
    parts
}

fn rates(state: &State) -> Parts {
    let rates = &state.feed.rates;
    let now = rates.now();
    let rate = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format::rate);
    let transactions = rate(now.map(|now| now.transactions));
    let queries = rate(now.map(|now| now.queries));
    let left = text::fitted(
        &format!("transactions {transactions}/s"),
        TRANSACTIONS_AT,
        text::Side::Left,
    );
    let queries = format!("  queries {queries}/s");
    let room = usize::from(SPARKS);
    let middle = text::fitted(
        &queries,
        WAITING_AT - TRANSACTIONS_AT - room,
        text::Side::Left,
    );
    let mut parts = vec![
        (left + &" ".repeat(room) + &middle, Tone::Plain),
        (WAITING.to_owned() + &" ".repeat(room), Tone::Plain),
    ];
    if let Some(ago) = restarted(state) {
        let ago = age_text(ago);
        parts = vec![
            (
                format!("transactions {transactions}/s{queries}  "),
                Tone::Plain,
            ),
            (format!("counters fell {ago} ago: restarted"), Tone::Warn),
        ];
    }
    parts
}

/// Time since counters fell, while that is news.
fn restarted(state: &State) -> Option<Duration> {
    let at = state.feed.rates.fell_at()?;
    let ago = state.now.since.saturating_sub(at);
    (ago < RESTART_TOLD).then_some(ago)
}
