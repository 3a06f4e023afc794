//! A switchover of a real Patroni cluster under load. All drills: `cargo xtask drill`.
//!
//! Not a part of `make test`, because it takes half a minute and needs Patroni and etcd:
//! `cargo test -p weir-conformance --features drill --test failover`.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::drill::DRILLS;
use weir_conformance::drill::Options;
use weir_conformance::drill::Subject;
use weir_conformance::drill::run;

#[test]
fn rt_32_a_switchover_costs_only_what_was_in_flight() -> Result<()> {
    let mut drills = DRILLS.iter();
    let drill = drills.find(|drill| drill.name == "switchover");
    let options = Options {
        subject: Subject::Weir,
        rounds: 1,
        time: Duration::from_secs(2),
        clients: 20,
        seed: 1,
        settings: Vec::new(),
        is_timed: true,
    };
    let outcome = run(drill.context("no drill of this name")?, &options)?;
    ensure!(outcome.passed(), "{outcome}");
    Ok(())
}
