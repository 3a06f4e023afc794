//! A pin is shown with its reason, delays other clients no longer than `query_wait_timeout`, and
//! ends.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::raw::Message;
use weir_conformance::wait_until;

use crate::script::Script;
use crate::script::on_one_server;
use crate::session::Session;
use crate::world;
use crate::world::World;

/// Each reason as it is shown, the statement that causes it, and the statement that ends it.
const REASONS: [(&str, &str, &str); 10] = [
    (
        "temporary object",
        "create temp table t(a int)",
        "drop table t",
    ),
    (
        "cursor with hold",
        "declare c cursor with hold for select 1",
        "close c",
    ),
    (
        "advisory lock",
        "select pg_advisory_lock(1)",
        "select pg_advisory_unlock(1)",
    ),
    ("prepare", "prepare p as select 1", "deallocate p"),
    ("listen", "begin; listen news; commit", "unlisten news"),
    ("seed", "select setseed(0.5)", "discard all"),
    ("load", "load 'auto_explain'", "discard all"),
    ("sequence", "select lastval()", "discard all"),
    ("function", "select keeps()", "discard all"),
    ("temporary object", "create temp sequence s", "discard temp"),
];

/// A pool of one server for each reason.
struct Pins {
    world: World,
    pinned: Vec<Session>,
}

impl Pins {
    /// Starts with each pool's server kept by one client.
    fn new() -> Result<Self> {
        let pools: Vec<Script> = REASONS
            .iter()
            .map(|(reason, ..)| on_one_server(reason, "A simple: select 1"))
            .collect();
        let settings = [
            ("query_wait_timeout", "2"),
            ("session_state_functions", "keeps"),
        ];
        let fixture = "create function keeps() returns int language sql as 'select 1'";
        let world = World::start("pins", fixture, &pools, &settings)?;
        let mut pinned = Vec::new();
        for (number, (_, pins, _)) in REASONS.iter().enumerate() {
            let pool = pool(number);
            let (port, database) = world.target(&pool);
            let mut session = Session::connect(port, database, &[])?;
            session.simple(pins)?;
            pinned.push(session);
        }
        Ok(Self { world, pinned })
    }

    fn console(&self) -> Result<Raw> {
        Raw::connect(self.world.target("").0, "pgbouncer")
    }

    /// Waits for the reasons of all pins, by the client's port.
    fn wait_reasons(&self, wanted: impl Fn(usize) -> Option<&'static str>) -> Result<()> {
        let mut console = self.console()?;
        let mut last = Vec::new();
        let all = wait_until("the pins", world::WAIT, || {
            last = console.query_named("show pins")?;
            for (number, session) in self.pinned.iter().enumerate() {
                let port = session.port()?.to_string();
                let mut own = last.iter().filter(|pin| pin.get("port") == Some(&port));
                let reason = own.next().and_then(|pin| pin.get("reason"));
                if reason.map(String::as_str) != wanted(number) {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        all.with_context(|| format!("{last:?}"))
    }
}

#[test]
fn a_pin_is_shown_makes_others_wait_and_ends() -> Result<()> {
    if world::is_direct()? {
        return Ok(());
    }
    let mut pins = Pins::new()?;
    pins.wait_reasons(|number| REASONS.get(number).map(|(reason, ..)| *reason))?;

    // All of them wait at the same time.
    let mut waiting = Vec::new();
    for number in 0..REASONS.len() {
        let pool = pool(number);
        let (port, database) = pins.world.target(&pool);
        let mut session = Session::connect(port, database, &[])?;
        // The pin is on the primary.
        session.send("begin")?;
        waiting.push(session);
    }
    for (session, (reason, ..)) in waiting.into_iter().zip(REASONS) {
        let told = session.into_raw().read_until_ready()?;
        let error = told.iter().find(|message| message.tag == b'E');
        let error = error.map(Message::error).unwrap_or_default();
        ensure!(
            error == "FATAL 53300 query_wait_timeout",
            "{reason}: {error:?}"
        );
    }

    for (session, (reason, _, ends)) in pins.pinned.iter_mut().zip(REASONS) {
        let lines = session.simple(ends)?;
        let failed = lines.iter().any(|line| line.starts_with("E "));
        ensure!(!failed, "{reason}: {ends}: {lines:?}");
    }
    pins.wait_reasons(|_| None)?;
    for (number, (reason, ..)) in REASONS.iter().enumerate() {
        let pool = pool(number);
        let (port, database) = pins.world.target(&pool);
        let mut session = Session::connect(port, database, &[])?;
        let rows = session.rows("select 'served'");
        ensure!(
            rows.with_context(|| reason.to_string())? == ["[served]"],
            "{reason}"
        );
    }
    Ok(())
}

/// The suite can find such faults: with `off` Weir behaves as other poolers do.
#[test]
fn without_tracking_the_scripts_find_leaks_and_losses() -> Result<()> {
    if world::is_direct()? {
        return Ok(());
    }
    let scripts = [
        on_one_server("leak", "A: set work_mem to '5MB'\nB: show work_mem"),
        on_one_server(
            "loss",
            "A: set work_mem to '5MB'\nB: set work_mem to '6MB'\nA: show work_mem",
        ),
        on_one_server("table", "A: create temp table t()\nB: select from t"),
        on_one_server(
            "lock",
            "A: select pg_advisory_lock(1)\nB: select pg_try_advisory_lock(1)",
        ),
    ];
    let off = [("session_state", "off")];
    let outcome = world::check_with("untracked", "", &off, &scripts);
    let text = outcome
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    for script in &scripts {
        let found = format!("== untracked/{} ", script.name);
        ensure!(
            text.contains(&found),
            "{} was not found in\n{text}",
            script.name
        );
    }
    Ok(())
}

fn pool(number: usize) -> String {
    format!("s{number}_simple")
}
