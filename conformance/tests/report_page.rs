//! The report of `weir bench` as a reader sees it: opened in Chromium without a network, in light and dark, on a wide
//! and a narrow screen. `crates/lab/src/report` tests the content; this test checks that a browser displays it.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use serde_json::Value;
use weir_conformance::TempDir;
use weir_conformance::browser::Browser;
use weir_conformance::browser::Page;
use weir_conformance::browser::Picture;
use weir_conformance::tools;
use weir_conformance::weir_bin;

/// Properties of the page as JSON: sizes, and the visibility of each element.
const LOOK: &str = r#"(() => {
    const shown = (element) => {
        const box = element.getBoundingClientRect();
        return box.width > 0 && box.height > 0;
    };
    const all = (selector) => [...document.querySelectorAll(selector)];
    const folded = (element) => element.closest("details") !== null;
    // Text that leaves its picture, or a tile that is narrower than its text.
    const out = [];
    for (const text of all("figure svg text")) {
        const box = text.getBoundingClientRect(), frame = text.closest("figure").getBoundingClientRect();
        if (box.left < frame.left || box.right > frame.right) { out.push(text.textContent); }
    }
    for (const cell of all("table.heat td")) {
        if (cell.scrollWidth > cell.clientWidth + 1) { out.push(cell.textContent); }
    }
    const style = (element) => getComputedStyle(element);
    return {
        width: innerWidth,
        scrolled: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
        left: out,
        headings: all("h2").map((heading) => heading.textContent),
        charts: all("figure").map((figure) => ({
            title: figure.querySelector("figcaption").textContent,
            shown: [...figure.querySelectorAll("svg")].filter(shown).length,
            marks: [...figure.querySelectorAll(".mark, .block")].filter(shown).length,
            hollow: figure.querySelectorAll(".hollow").length,
        })),
        maps: all("table.heat").filter(shown).length,
        hatched: all("table.heat td.flagged").filter((cell) => shown(cell) && style(cell).backgroundImage !== "none").length,
        hidden: all("main *").filter((element) =>
            !folded(element) && element.textContent.trim() !== "" && !(element instanceof SVGElement)
            && !shown(element)).length,
        fetched: performance.getEntriesByType("resource").map((entry) => entry.name),
        page: style(document.body).backgroundColor,
        ink: style(document.body).color,
    };
})()"#;

const SCHEMES: [&str; 2] = ["light", "dark"];
const WIDTHS: [u32; 2] = [1280, 400];

/// Makes the report of stored results with the real command.
fn report() -> Result<TempDir> {
    let directory = TempDir::new()?;
    let kept = tools::workspace().join("crates/lab/testdata/page");
    for name in ["run.json", "cells.jsonl"] {
        fs::copy(kept.join(name), directory.path().join(name))?;
    }
    let mut weir = Command::new(weir_bin()?);
    tools::run(weir.args(["bench", "report"]).arg(directory.path()))?;
    Ok(directory)
}

#[test]
fn the_report_can_be_read_in_a_browser_without_a_network() -> Result<()> {
    let directory = report()?;
    let url = format!("file://{}", directory.path().join("report.html").display());
    let mut browser = Browser::start()?;
    let mut page = browser.page()?;
    let mut pictures = Vec::new();
    for width in WIDTHS {
        for scheme in SCHEMES {
            let seen = page.open(&url, width, scheme, LOOK)?;
            let words = format!("{scheme}, {width} wide: {seen:#}");
            check(&seen, width).with_context(|| words)?;
            if width == WIDTHS[0] {
                pictures.push(page.picture(&seen["page"])?);
            }
        }
    }
    nothing_but(&page, &url)?;
    look_different(&pictures[0], &pictures[1])?;
    drop(page);
    browser.stop()
}

fn check(seen: &Value, width: u32) -> Result<()> {
    ensure!(seen["width"] == width, "the page made the screen wider");
    let scrolled = seen["scrolled"].as_u64().context("no width")?;
    ensure!(scrolled <= u64::from(width), "the page scrolls sideways");
    ensure!(
        seen["left"] == Value::Array(Vec::new()),
        "text leaves its place"
    );
    ensure!(seen["hidden"] == 0, "something that is said is not shown");
    ensure!(
        seen["fetched"] == Value::Array(Vec::new()),
        "it loads something"
    );
    let charts = seen["charts"].as_array().context("no charts")?;
    for chart in charts {
        ensure!(
            chart["shown"] == 1 && chart["marks"].as_u64() > Some(1),
            "empty: {chart}"
        );
    }
    let title = |chart: &Value| chart["title"].as_str().unwrap_or_default().to_owned();
    let titles: BTreeSet<String> = charts.iter().map(title).collect();
    for kind in [
        "Throughput",
        "Latency p50",
        "Latency p99",
        "Pooler CPU per transaction",
        "Pooler CPU per MB",
        "Pooler memory",
        "Pooler memory per client",
        "Bandwidth",
    ] {
        let found = titles
            .iter()
            .any(|title| title.starts_with(&format!("{kind},")));
        ensure!(found, "no chart of {kind}");
    }
    ensure!(
        charts
            .iter()
            .any(|chart| chart["hollow"].as_u64() > Some(0)),
        "no hollow mark"
    );
    ensure!(seen["maps"].as_u64() > Some(5), "no maps");
    ensure!(seen["hatched"].as_u64() > Some(3), "no hatched tile");
    let headings = seen["headings"].as_array().context("no headings")?;
    for heading in [
        "Which pooler",
        "Verdict",
        "Where Weir loses",
        "Threats to validity",
        "Run it again",
    ] {
        ensure!(
            headings.iter().any(|found| found == heading),
            "no {heading}"
        );
    }
    Ok(())
}

/// Checks that only the page itself was requested, and that there were no errors.
fn nothing_but(page: &Page<'_>, url: &str) -> Result<()> {
    let asked: Vec<&str> = page.requests().collect();
    ensure!(
        asked.len() == WIDTHS.len() * SCHEMES.len() && asked.iter().all(|asked| *asked == url),
        "asked for {asked:?}"
    );
    let complaints: Vec<String> = page.complaints().collect();
    ensure!(complaints.is_empty(), "{complaints:#?}");
    Ok(())
}

/// Checks that both pictures have many colours, and that only one is bright.
fn look_different(light: &Picture, dark: &Picture) -> Result<()> {
    for picture in [light, dark] {
        ensure!(picture.colours > 50, "too few colours: {picture:?}");
        ensure!(
            (0.02..0.6).contains(&picture.drawn),
            "blank or crowded: {picture:?}"
        );
    }
    ensure!(
        light.brightness > 0.8 && dark.brightness < 0.25,
        "{light:?} {dark:?}"
    );
    Ok(())
}
