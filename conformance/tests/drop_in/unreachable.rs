//! A PostgreSQL that cannot be reached.

use std::thread;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::postgres::Options;
use weir_conformance::tools;

use crate::support::both;
use crate::support::refusal;

#[test]
fn clients_wait_for_a_postgresql_that_has_never_answered() -> Result<()> {
    let mut postgres = Postgres::start(&Options::default())?;
    let config = Config::to(postgres.port()).set("server_login_retry", "1");
    let mut pooler = weir_conformance::Weir::start_pgbouncer(&config)?;
    for is_weir in [false, true] {
        let mut answer = None;
        postgres.restart_around(|| {
            if is_weir {
                pooler = weir_conformance::Weir::start(&config)?;
            }
            let port = pooler.port();
            let client = thread::spawn(move || -> Result<String> {
                Raw::connect(port, "postgres")?.query_one("select 1")
            });
            pooler.wait_log("login attempt")?;
            ensure!(!client.is_finished(), "the client does not wait");
            answer = Some(client);
            Ok(())
        })?;
        let answer = answer.context("no client")?.join();
        let answer = answer.ok().context("a client panicked")??;
        ensure!(answer == "1", "{answer}");
    }
    Ok(())
}

#[test]
fn a_wait_for_a_postgresql_that_never_answers_ends() -> Result<()> {
    let port = tools::free_port()?;
    let config = Config::to(port)
        .set("server_login_retry", "1")
        .set("query_wait_timeout", "3");
    both(&config, |pooler| {
        let begun = weir_conformance::clock::now();
        let text = refusal(pooler.connect("postgres"));
        ensure!(text.contains("query_wait_timeout"), "{text}");
        ensure!(begun.elapsed().as_secs() >= 2, "{:?}", begun.elapsed());
        Ok(())
    })
}
