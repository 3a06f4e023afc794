//! Drivers that look for a primary or a standby judge an entry of Weir as the host that the entry stands for.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Raw, drivers, psql, tools};

use super::support::World;

/// Values of libpq's `target_session_attrs`.
const VALUES: [&str; 6] = [
    "any",
    "read-write",
    "read-only",
    "primary",
    "standby",
    "prefer-standby",
];

/// Outcomes by target and value.
type Outcomes = BTreeMap<(String, String), String>;

/// Run of a driver at these targets, with its output.
type Run = Box<dyn Fn(&[String]) -> Result<String>>;

/// A driver, which connects with each value to each target (`label=port/database`).
struct Driver {
    name: &'static str,
    run: Run,
}

fn program(name: &'static str, command: impl Fn() -> Command + 'static) -> Driver {
    let run = move |targets: &[String]| tools::run(command().args(targets));
    Driver {
        name,
        run: Box::new(run),
    }
}

/// Builds all drivers.
fn all() -> Result<Vec<Driver>> {
    let python = drivers::python()?;
    let with_python = |name: &'static str| {
        let python = python.clone();
        program(name, move || {
            let mut command = Command::new(python.join("venv/bin/python"));
            command.arg(python.join("with_targets.py")).arg(name);
            command
        })
    };
    let go = drivers::go()?;
    let classes = drivers::java()?;
    Ok(vec![
        Driver {
            name: "psql",
            run: Box::new(with_psql),
        },
        with_python("psycopg"),
        with_python("asyncpg"),
        program("pgx", move || {
            let mut command = Command::new(go.join("drivers"));
            command.arg("targets");
            command
        }),
        program("pgjdbc", move || {
            let mut command = Command::new("java");
            command.args(["-Xmx256m", "-cp", &classes, "Targets"]);
            command
        }),
    ])
}

fn with_psql(targets: &[String]) -> Result<String> {
    let mut output = String::new();
    for target in targets {
        let (label, address) = target.split_once('=').context("a label")?;
        let (port, database) = address.split_once('/').context("a database")?;
        for value in VALUES {
            let mut command = psql::psql(port.parse()?, database)?;
            command.env("PGTARGETSESSIONATTRS", value);
            let (said, is_in) = tools::run_any(command.args(["-Atc", "SELECT 7"]))?;
            let outcome = match (is_in, said.trim()) {
                (true, "7") => "accepted",
                (true, _) => "broken",
                (false, _) => "refused",
            };
            output.push_str(&format!("outcome {label} {value} {outcome}\n"));
        }
    }
    Ok(output)
}

/// Reads the lines `outcome LABEL VALUE OUTCOME`.
fn outcomes(output: &str) -> Outcomes {
    let lines = output
        .lines()
        .filter_map(|line| line.strip_prefix("outcome "));
    let words = lines.filter_map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        Some(((words.next()?, words.next()?), words.next()?))
    });
    words.collect()
}

/// Compares each entry of Weir with the host that it stands for.
fn compare(world: &World, driver: &Driver, replica: usize) -> Result<()> {
    let (weir, cluster) = (world.weir.port(), &world.cluster);
    let targets = [
        format!("primary={}/postgres", cluster.primary().port()),
        format!("replica={}/postgres", cluster.host(replica).port()),
        format!("shop={weir}/shop"),
        format!("shop_any={weir}/shop_any"),
        format!("shop_ro={weir}/shop_ro"),
        format!("shop_standby={weir}/shop_standby"),
        format!("shop_prefer={weir}/shop_prefer"),
    ];
    let output = (driver.run)(&targets).context(driver.name)?;
    let outcomes = outcomes(&output);
    ensure!(
        outcomes.values().any(|outcome| outcome == "refused"),
        "{output}"
    );
    for ((label, value), outcome) in &outcomes {
        let host = match label.as_str() {
            "shop" | "shop_any" => "primary",
            "shop_ro" | "shop_standby" | "shop_prefer" => "replica",
            _ => continue,
        };
        let wanted = outcomes.get(&(host.to_owned(), value.clone()));
        ensure!(
            wanted == Some(outcome),
            "{} at {label} with {value}: {outcome}, at the {host} {wanted:?}\n{output}",
            driver.name
        );
    }
    Ok(())
}

#[test]
fn rt_45_entries_are_judged_as_the_hosts_that_they_stand_for() -> Result<()> {
    let drivers = all()?;
    let entries = [
        ("shop", ""),
        ("shop_any", "target=any"),
        ("shop_ro", "target=read-only"),
        ("shop_standby", "target=standby"),
        ("shop_prefer", "target=prefer-standby"),
    ];
    let mut world = World::start_entries(1, &entries)?;
    for driver in &drivers {
        compare(&world, driver, 1).context("before the promotion")?;
    }
    world.cluster.promote(1)?;
    world.cluster.rejoin(0)?;
    world.until(1, "writes", "yes")?;
    world.until(0, "reads", "yes")?;
    for driver in &drivers {
        compare(&world, driver, 0).context("after the promotion")?;
    }
    Ok(())
}

#[test]
fn the_role_of_a_listener_decides_where_its_sessions_begin() -> Result<()> {
    let (primary, replica) = (tools::free_port()?, tools::free_port()?);
    let section = format!(
        "[listeners]\nwrites = listen_port={primary} role=primary\nreads = listen_port={replica} role=replica"
    );
    let mut world = World::start_with_section(1, &section)?;
    for (port, is_replica) in [(primary, "f"), (replica, "t")] {
        let mut client = Raw::connect(port, "shop")?;
        for _ in 0..5 {
            ensure!(
                client.query_one("select pg_is_in_recovery()")? == is_replica,
                "{port}"
            );
            client.query("begin")?;
            ensure!(
                client.query_one("select pg_is_in_recovery()")? == is_replica,
                "{port}"
            );
            client.query("commit")?;
        }
        // As after SET, the client may change its mind.
        client.query("set weir.role = 'primary'")?;
        ensure!(client.query_one("select pg_is_in_recovery()")? == "f");
    }
    let own = [
        ("user", "postgres"),
        ("database", "shop"),
        ("options", "-c weir.role=primary"),
    ];
    let mut client = Raw::connect_with(replica, &own)?;
    ensure!(client.query_one("select pg_is_in_recovery()")? == "f");
    world.weir.check_healthy()
}
