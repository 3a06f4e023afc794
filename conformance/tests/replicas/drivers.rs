//! Drivers in their default modes: no error, no old row, and the share of their reads that replicas serve.

#![allow(
    clippy::print_stdout,
    reason = "the shares are for whoever runs the tests"
)]

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use weir_conformance::drivers;

use super::support::{NOTICED, World, marked};

/// Share of reads that replicas must serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// Each read begins a transaction that might write.
    None,
    Some,
}

/// Runs a driver's program with both ways to begin a transaction, and checks each of its modes. Its steps are
/// `ok MODE READS`, and its statements have the mode as a mark.
fn drive(program: &mut Command, modes: &[(&str, Share)]) -> Result<()> {
    let entries = [
        ("shop", ""),
        ("shop_until_write", "split_begin=until-write"),
    ];
    let world = World::start_entries(2, &entries)?;
    world.prepare("CREATE TABLE t (id serial PRIMARY KEY, name text)")?;
    check(&world, program, "shop", modes)?;
    // Blocks begin on a replica as soon as the isolation of the roles is known.
    let mut client = world.weir.connect("shop_until_write")?;
    weir_conformance::wait_until("a block on a replica", NOTICED, || {
        for text in ["BEGIN", &marked("SELECT 1", "begun"), "COMMIT"] {
            client.query(text)?;
        }
        Ok(world.on_replicas("begun").iter().sum::<usize>() > 0)
    })?;
    let modes = modes.iter().map(|(mode, share)| match share {
        Share::None => (*mode, Share::Some),
        share => (*mode, *share),
    });
    let modes: Vec<_> = modes.collect();
    check(&world, program, "shop_until_write", &modes)
}

/// Number of runs of a program. All its reads fall into less than a second, in which replicas on a busy machine may show none of
/// its commits.
const RUNS: usize = 5;

/// Runs a driver's program against one entry, again if replicas have served none of the reads of a mode.
fn check(
    world: &World,
    program: &mut Command,
    database: &str,
    modes: &[(&str, Share)],
) -> Result<()> {
    for _ in 1..RUNS {
        if runs(world, program, database, modes)?.is_none() {
            return Ok(());
        }
    }
    if let Some(mode) = runs(world, program, database, modes)? {
        let routes = world.weir.connect("pgbouncer")?.query("SHOW ROUTES")?;
        bail!("{mode}: no read on replicas in {RUNS} runs: {routes:#?}");
    }
    Ok(())
}

/// Runs a driver's program against one entry. Returns the first mode of which replicas should have served reads and have not.
fn runs<'m>(
    world: &World,
    program: &mut Command,
    database: &str,
    modes: &[(&'m str, Share)],
) -> Result<Option<&'m str>> {
    let served = |mode: &str| world.on_replicas(mode).iter().sum::<usize>();
    let count = |(mode, _): &(&str, Share)| (served(mode), world.on_primary(mode));
    let before: Vec<_> = modes.iter().map(count).collect();
    let output = drivers::run(program, world.weir.port(), database)?;
    let mut without = None;
    for ((mode, share), before) in modes.iter().zip(before) {
        let line = output
            .lines()
            .find_map(|line| line.strip_prefix(&format!("ok {mode} ")));
        let reads: usize = line.with_context(|| output.clone())?.parse()?;
        let served = served(mode) - before.0;
        let on_primary = world.on_primary(mode) - before.1;
        println!("{database}, {mode}: {served} of {reads} reads on replicas");
        ensure!(
            served + on_primary >= reads,
            "{mode}: {served} {on_primary}"
        );
        match share {
            Share::None => ensure!(served == 0, "{mode}: {served} of {reads} reads on replicas"),
            Share::Some if served == 0 => without = without.or(Some(*mode)),
            Share::Some => {}
        }
    }
    Ok(without)
}

fn python(modes: &[(&str, Share)], name: &str) -> Result<()> {
    let built = drivers::python()?;
    let mut program = Command::new(built.join("venv/bin/python"));
    drive(program.arg(built.join("reads.py")).arg(name), modes)
}

#[test]
fn rt_14_psycopg() -> Result<()> {
    let modes = [
        ("psycopg", Share::None),
        ("psycopg-autocommit", Share::Some),
        ("psycopg-read-only", Share::Some),
    ];
    python(&modes, "psycopg")
}

#[test]
fn rt_14_psycopg2() -> Result<()> {
    let modes = [
        ("psycopg2", Share::None),
        ("psycopg2-autocommit", Share::Some),
    ];
    python(&modes, "psycopg2")
}

#[test]
fn rt_14_asyncpg() -> Result<()> {
    let modes = [("asyncpg", Share::Some), ("asyncpg-read-only", Share::Some)];
    python(&modes, "asyncpg")
}

#[test]
fn rt_14_sqlalchemy() -> Result<()> {
    let modes = [
        ("sqlalchemy", Share::None),
        ("sqlalchemy-autocommit", Share::Some),
        ("sqlalchemy-read-only", Share::Some),
    ];
    python(&modes, "sqlalchemy")
}

#[test]
fn rt_14_django() -> Result<()> {
    let modes = [("django", Share::Some), ("django-atomic", Share::None)];
    python(&modes, "django")
}

#[test]
fn rt_14_pgx() -> Result<()> {
    let modes = [
        ("pgx", Share::Some),
        ("pgx-exec", Share::Some),
        ("pgx-simple_protocol", Share::Some),
        ("pgx-read-only", Share::Some),
    ];
    let mut program = Command::new(drivers::go()?.join("drivers"));
    drive(program.arg("reads"), &modes)
}

#[test]
fn rt_14_node_postgres() -> Result<()> {
    let modes = [("node", Share::Some), ("node-named", Share::Some)];
    let mut program = Command::new("node");
    drive(program.arg(drivers::node()?.join("reads.js")), &modes)
}

#[test]
fn rt_14_pgjdbc() -> Result<()> {
    let modes = [
        ("pgjdbc", Share::Some),
        ("pgjdbc-transaction", Share::None),
        ("pgjdbc-read-only", Share::Some),
    ];
    let classes = drivers::java()?;
    let mut program = Command::new("java");
    drive(program.args(["-Xmx256m", "-cp", &classes, "Reads"]), &modes)
}

#[test]
fn rt_14_rails() -> Result<()> {
    let modes = [("rails", Share::Some), ("rails-transaction", Share::None)];
    let mut program = Command::new("ruby");
    drive(program.arg(drivers::ruby()?.join("reads.rb")), &modes)
}
