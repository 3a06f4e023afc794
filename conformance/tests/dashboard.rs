//! `dashboard_listen`: the dashboard of a running Weir in Chromium, and without a browser where a browser would not do what
//! an attacker does.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

#[path = "dashboard/fake.rs"]
mod fake;
#[path = "dashboard/support.rs"]
mod support;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process;
use weir_conformance::Weir;
use weir_conformance::browser::Browser;
use weir_conformance::browser::Page;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::fake::HOSTILE;
use crate::fake::Made;
use crate::support::Dashed;
use crate::support::admit;
use crate::support::axe;
use crate::support::basic;
use crate::support::live;
use crate::support::picture;
use crate::support::quiet;
use crate::support::send;
use crate::support::sign_in;

const PAGES: [&str; 10] = [
    "",
    "pools",
    "clients",
    "servers",
    "applications",
    "statements",
    "routes",
    "events",
    "limits",
    "config",
];

const SCHEMES: [&str; 2] = ["light", "dark"];

#[test]
fn dashboard_pages_load_under_their_policy_with_few_requests() -> Result<()> {
    let dashed = Dashed::start(|config| config.set("digests", "1"))?;
    let mut client = dashed.client("billing")?;
    client.query("select 1")?;
    let mut browser = Browser::start()?;
    let mut page = browser.page()?;
    page.dress("light", 1280, 720)?;
    admit(&mut page, dashed.address, "ann")?;
    for path in PAGES {
        let before = page.requests().count();
        page.go(&format!("http://{}/{path}", dashed.address))?;
        live(&mut page)?;
        let asked: Vec<&str> = page.requests().skip(before).collect();
        let origin = format!("http://{}/", dashed.address);
        let is_own = |url: &&str| url.starts_with(&origin) || url.starts_with("data:");
        ensure!(asked.iter().all(is_own), "{asked:?}");
        let loaded = asked.iter().filter(|url| !url.starts_with("data:"));
        ensure!(loaded.count() <= 4, "{asked:?}");
        quiet(&page).with_context(|| path.to_owned())?;
    }
    page.go(&format!("http://{}/", dashed.address))?;
    live(&mut page)?;
    page.until("document.querySelector('#t-extended-pools tbody tr')")?;
    page.save_picture(&picture("overview-real")?)?;
    drop(page);
    browser.stop()
}

#[test]
fn the_page_is_whole_without_a_script() -> Result<()> {
    let dashed = Dashed::start(|config| config)?;
    let _client = dashed.client("billing")?;
    let cookie = format!("Cookie: weir={}", sign_in(dashed.address, "bob")?);
    let page = send(dashed.address, "GET /clients", &[&cookie], "")?;
    ensure!(
        page.status == 200 && page.body.contains(">billing<"),
        "{page:?}"
    );
    ensure!(!page.body.contains("kill_client"), "Bob reads only");
    let table = send(
        dashed.address,
        "GET /api/tables/clients",
        &[&basic("bob")],
        "",
    )?;
    let table: serde_json::Value = serde_json::from_str(&table.body)?;
    ensure!(table["columns"][0]["name"] == "type", "{table}");
    let size = page.body.len();
    let files = page.body.split("/assets/").skip(1);
    let files = files.filter_map(|rest| rest.split('"').next());
    let mut total = size;
    for file in files {
        let line = format!("GET /assets/{file}");
        let asset = send(dashed.address, &line, &["Accept-Encoding: gzip"], "")?;
        ensure!(
            asset.head.contains("content-encoding: gzip"),
            "{}",
            asset.head
        );
        let length = asset
            .head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        total += length.context("no length")?.parse::<usize>()?;
    }
    ensure!(total < 60 * 1024, "{total} bytes");
    Ok(())
}

#[test]
fn three_tabs_stay_live() -> Result<()> {
    let dashed = Dashed::start(|config| config)?;
    let mut browser = Browser::start()?;
    let mut tabs = Vec::new();
    for path in ["", "clients", "pools"] {
        let mut page = browser.page()?;
        admit(&mut page, dashed.address, "ann")?;
        page.go(&format!("http://{}/{path}", dashed.address))?;
        tabs.push(page.session());
    }
    let mut before = Vec::new();
    for tab in &tabs {
        before.push(live(&mut browser.tab(tab))?);
    }
    for (tab, before) in tabs.iter().zip(before) {
        let mut page = browser.tab(tab);
        page.until(&format!(
            "Number(document.documentElement.dataset.live) > {}",
            before + 1
        ))?;
        quiet(&page)?;
    }
    browser.stop()
}

#[test]
fn a_silent_weir_makes_its_page_old_and_a_speaking_one_fresh() -> Result<()> {
    let dashed = Dashed::start(|config| config)?;
    let mut browser = Browser::start()?;
    let mut page = browser.page()?;
    admit(&mut page, dashed.address, "ann")?;
    page.go(&format!("http://{}/", dashed.address))?;
    live(&mut page)?;
    let age = "document.getElementById('age').textContent";
    let halted = Halted::new(&dashed.weir)?;
    let said = page.until(&format!("/^no data for/.test({age}) && {age}"))?;
    let said = said.as_str().context("no text")?.to_owned();
    let seconds: u32 = said
        .trim_start_matches("no data for ")
        .trim_end_matches(" s")
        .parse()
        .with_context(|| said.clone())?;
    ensure!(seconds <= 5, "{said}");
    ensure!(page.evaluate("document.getElementById('main').className")? == "stale");
    page.save_picture(&picture("stale")?)?;
    drop(halted);
    page.until(&format!("/^as of/.test({age})"))?;
    quiet(&page)?;
    drop(page);
    browser.stop()
}

/// A process that does not run until this is dropped.
struct Halted(Pid);

impl Halted {
    fn new(weir: &Weir) -> Result<Self> {
        let pid = Pid::from_raw(i32::try_from(weir.pid())?).context("no process")?;
        kill_process(pid, Signal::STOP)?;
        Ok(Self(pid))
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn a_foreign_host_and_a_get_on_an_action_are_refused() -> Result<()> {
    let dashed = Dashed::start(|config| config.set("dashboard_hosts", "weir.example"))?;
    let ask = |line: &str, headers: &[&str]| send(dashed.address, line, headers, "");
    for line in ["GET /", "GET /stream?page=pools", "POST /act"] {
        ensure!(ask(line, &["Host: evil.example"])?.status == 421, "{line}");
    }
    ensure!(ask("GET /login", &["Host: weir.example:8080"])?.status == 200);
    ensure!(ask("GET /act?action=reload", &[&basic("ann")])?.status == 405);
    ensure!(ask("GET /pools", &[])?.status == 303);
    ensure!(ask("GET /api/tables/pools", &[&basic("eve")])?.status == 401);
    Ok(())
}

#[test]
fn hostile_names_appear_as_text() -> Result<()> {
    let dashed = Dashed::start(|config| config)?;
    let mut client = dashed.client(HOSTILE)?;
    client.query("select 1")?;
    let mut browser = Browser::start()?;
    let mut page = browser.page()?;
    admit(&mut page, dashed.address, "ann")?;
    page.go(&format!("http://{}/clients", dashed.address))?;
    live(&mut page)?;
    page.until(&format!(
        "document.querySelector('#t-clients').innerText.includes('{HOSTILE}')"
    ))?;
    ensure!(page.evaluate("document.querySelectorAll('main img').length")? == 0);
    quiet(&page)?;
    drop(page);
    browser.stop()
}

/// Presses a key and waits for a condition.
fn key(page: &mut Page<'_>, name: &str, condition: &str) -> Result<()> {
    page.press(name)?;
    page.until(condition)
        .with_context(|| format!("after {name}"))?;
    Ok(())
}

#[test]
fn every_function_can_be_reached_by_the_keyboard() -> Result<()> {
    let dashed = Dashed::start(|config| config)?;
    let _client = dashed.client("billing")?;
    let mut browser = Browser::start()?;
    let mut page = browser.page()?;
    page.go(&format!("http://{}/pools", dashed.address))?;
    // The field of the user has the focus at first.
    page.until("document.activeElement.id === 'user'")?;
    page.type_text("ann")?;
    key(&mut page, "Tab", "document.activeElement.id === 'password'")?;
    page.type_text("ann!")?;
    page.loading(|page| page.press("Enter"))?;
    live(&mut page)?;
    ensure!(page.evaluate("location.pathname")? == "/pools");
    key(
        &mut page,
        "Tab",
        "document.activeElement.className === 'skip'",
    )?;
    key(&mut page, "Enter", "location.hash === '#main'")?;
    page.press("g")?;
    page.loading(|page| page.press("c"))?;
    live(&mut page)?;
    ensure!(page.evaluate("location.pathname")? == "/clients");
    key(&mut page, "/", "document.activeElement.id === 'q'")?;
    page.type_text("nobody")?;
    page.until("location.search === '?q=nobody'")?;
    page.until(
        "document.querySelector('#t-clients .empty').textContent.includes('fits the filter')",
    )?;
    let nowhere = "document.activeElement === document.body";
    key(&mut page, "Escape", nowhere)?;
    // The key that leads to the field selects its text.
    key(&mut page, "/", "document.activeElement.id === 'q'")?;
    page.type_text("billing")?;
    page.until("location.search === '?q=billing'")?;
    page.until("document.querySelector('#t-clients tbody tr')")?;
    key(&mut page, "Escape", nowhere)?;
    key(&mut page, "?", "!document.getElementById('help').hidden")?;
    key(
        &mut page,
        "Escape",
        "document.getElementById('help').hidden",
    )?;
    page.evaluate("document.activeElement.blur()")?;
    let age = "document.getElementById('age').textContent";
    key(&mut page, " ", &format!("/^PAUSED/.test({age})"))?;
    key(&mut page, " ", &format!("/^as of/.test({age})"))?;
    page.evaluate("document.querySelector('#t-clients thead a').focus()")?;
    page.loading(|page| page.press("Enter"))?;
    page.until("document.querySelector('#t-clients th[aria-sort]').textContent === 'id'")?;
    quiet(&page)?;
    drop(page);
    browser.stop()
}

#[test]
fn two_hundred_pools_charts_and_both_themes_are_shown() -> Result<()> {
    let made = Made::start(200)?;
    let mut browser = Browser::start()?;
    let mut page = browser.page()?;
    admit(&mut page, made.address, "ann")?;
    for scheme in SCHEMES {
        page.dress(scheme, 1280, 900)?;
        for (name, path, charts) in [
            ("overview", "", 3),
            ("pool", "pool?database=shop_007&user=app", 7),
            ("clients", "clients", 0),
            ("routes", "routes", 0),
        ] {
            page.go(&format!("http://{}/{path}", made.address))?;
            live(&mut page)?;
            page.until(&format!(
                "document.querySelectorAll('.plot canvas').length === {charts}"
            ))?;
            let scrolled = page.evaluate("document.documentElement.scrollWidth <= innerWidth")?;
            ensure!(scrolled == true, "{name} scrolls sideways");
            page.save_picture(&picture(&format!("{name}-{scheme}"))?)?;
            if charts > 0 {
                page.evaluate("document.getElementById('charts').scrollIntoView()")?;
                page.save_picture(&picture(&format!("{name}-charts-{scheme}"))?)?;
            }
        }
        page.go(&format!("http://{}/", made.address))?;
        live(&mut page)?;
        let rows =
            page.evaluate("document.querySelectorAll('#t-extended-pools tbody tr').length")?;
        ensure!(rows == 200, "{rows}");
        let verdict = page.evaluate("document.getElementById('verdict').textContent")?;
        ensure!(verdict == "1 condition critical, 1 warning", "{verdict}");
        let colour = page.evaluate("getComputedStyle(document.body).backgroundColor")?;
        let expect = if scheme == "light" {
            "rgb(255, 255, 255)"
        } else {
            "rgb(16, 22, 28)"
        };
        ensure!(colour == expect, "{scheme}: {colour}");
    }
    quiet(&page)?;
    drop(page);
    browser.stop()
}

#[test]
fn axe_finds_no_violation() -> Result<()> {
    let rules = axe()?;
    let made = Made::start(10)?;
    let mut browser = Browser::start()?;
    let mut page = browser.page()?;
    page.go(&format!("http://{}/login", made.address))?;
    accessible(&mut page, &rules, "login")?;
    admit(&mut page, made.address, "ann")?;
    let others = [
        "pool?database=shop_007&user=app",
        "confirm?action=pause&target=shop",
    ];
    for scheme in SCHEMES {
        page.dress(scheme, 1280, 900)?;
        for path in PAGES.iter().chain(&others) {
            page.go(&format!("http://{}/{path}", made.address))?;
            if !path.starts_with("confirm") {
                live(&mut page)?;
            }
            accessible(&mut page, &rules, &format!("{path} {scheme}"))?;
        }
    }
    quiet(&page)?;
    drop(page);
    browser.stop()
}

/// Checks a page by all rules of axe-core.
fn accessible(page: &mut Page<'_>, rules: &str, name: &str) -> Result<()> {
    page.evaluate(&format!("{rules}; 0"))?;
    let found = page.evaluate(
        "axe.run().then((found) => found.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html + ' ' + \
         node.failureSummary)]))",
    )?;
    ensure!(found == serde_json::json!([]), "{name}: {found:#}");
    Ok(())
}

#[test]
fn an_administrator_ends_a_client_and_the_log_tells_who() -> Result<()> {
    let dashed = Dashed::start(|config| config.set("dashboard_actions", "1"))?;
    let mut client = dashed.client("billing")?;
    client.query("select 1")?;
    let mut browser = Browser::start()?;
    let mut page = browser.page()?;
    admit(&mut page, dashed.address, "ann")?;
    page.go(&format!("http://{}/clients?q=billing", dashed.address))?;
    live(&mut page)?;
    page.until("document.querySelector('#t-clients a[href^=\"/confirm\"]')")?;
    let click = "document.querySelector('#t-clients a[href^=\"/confirm\"]').click()";
    page.loading(|page| page.evaluate(click).map(drop))?;
    page.until("document.activeElement.id === 'typed'")?;
    let target = page.evaluate("document.querySelector('input[name=target]').value")?;
    let target = target.as_str().context("no target")?.to_owned();
    page.save_picture(&picture("confirm")?)?;
    page.type_text(&target)?;
    page.loading(|page| page.press("Enter"))?;
    let said = page.evaluate("document.querySelector('main').innerText")?;
    ensure!(
        said.as_str()
            .is_some_and(|said| said.contains("disconnected")),
        "{said}"
    );
    client.read_to_close()?;
    dashed
        .weir
        .wait_log("dashboard: user \"ann\" from 127.0.0.1: \"KILL_CLIENT")?;
    drop(page);
    browser.stop()
}

#[test]
fn scripts_pause_resume_and_reload_and_readers_do_not() -> Result<()> {
    let dashed = Dashed::start(|config| config.set("dashboard_actions", "1"))?;
    let act = |user: &str, headers: &[&str], body: &str| {
        let password = basic(user);
        let headers = [&[&*password], headers].concat();
        send(dashed.address, "POST /act", &headers, body)
    };
    let script = "X-Weir: 1";
    let state = || -> Result<bool> {
        let mut console = dashed.weir.connect("pgbouncer")?;
        let rows = console.query_named("SHOW DATABASES")?;
        let found = rows.iter().find(|row| row["name"] == "postgres");
        Ok(found.is_some_and(|row| row["paused"] == "1"))
    };
    dashed.client("billing")?.query("select 1")?;
    let pause = "action=pause&target=postgres";
    for (user, headers, status) in [("bob", vec![script], 403), ("ann", vec![], 403)] {
        ensure!(act(user, &headers, pause)?.status == status, "{user}");
    }
    ensure!(!state()?);
    ensure!(act("ann", &[script], pause)?.status == 200);
    ensure!(state()?);
    ensure!(act("ann", &[script], "action=resume&target=postgres")?.status == 200);
    ensure!(!state()?);
    ensure!(act("ann", &[script], "action=kill_client&target=999999")?.status == 409);
    ensure!(act("ann", &[script], "action=rule_off&target=absent")?.status == 409);
    let reloaded = act("ann", &[script], "action=reload")?;
    ensure!(reloaded.status == 200, "{reloaded:?}");
    dashed.weir.wait_log("reload done")?;
    Ok(())
}

#[test]
fn failed_logins_are_throttled_with_those_of_clients() -> Result<()> {
    let dashed = Dashed::start(|config| {
        config
            .set("auth_failures_per_minute", "2")
            .set("auth_failure_delay", "0")
    })?;
    let body = "user=ann&password=wrong";
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(send(dashed.address, "POST /login", &[], body)?.status);
    }
    ensure!(statuses[0] == 401 && statuses[3] == 429, "{statuses:?}");
    let right = send(
        dashed.address,
        "POST /login",
        &[],
        "user=ann&password=ann%21",
    )?;
    ensure!(right.status == 429, "{right:?}");
    Ok(())
}

#[test]
fn an_exposed_address_without_tls_or_passwords_is_refused() -> Result<()> {
    let port = tools::free_port()?;
    let text = |more: &str| {
        format!("[databases]\n[pgbouncer]\nlisten_port = {port}\nauth_type = trust\n{more}")
    };
    let mut weir = Weir::spawn_text("a.ini", &text("dashboard_listen = *:9128\n"))?;
    ensure!(weir.wait_exit(std::time::Duration::from_secs(30))?.code() != Some(0));
    let log = weir.log();
    for part in [
        "a.ini:5",
        "is not loopback, so it needs TLS",
        "ssh -L",
        "needs logins",
    ] {
        ensure!(log.contains(part), "{log}");
    }
    Ok(())
}

#[test]
fn without_the_option_there_is_no_thread() -> Result<()> {
    let threads = |weir: &Weir| -> Result<Vec<String>> {
        let mut names = Vec::new();
        for task in std::fs::read_dir(format!("/proc/{}/task", weir.pid()))? {
            names.push(std::fs::read_to_string(task?.path().join("comm"))?);
        }
        Ok(names)
    };
    let on = Dashed::start(|config| config)?;
    let is_ours = |name: &String| name.starts_with("weir-dash");
    ensure!(threads(&on.weir)?.iter().any(is_ours));
    let off = Dashed::start(|config| config.set("dashboard_listen", ""))?;
    ensure!(!threads(&off.weir)?.iter().any(is_ours));
    wait_until(
        "a dashboard that is off",
        std::time::Duration::from_secs(5),
        || Ok(std::net::TcpStream::connect(off.address).is_err()),
    )
}
