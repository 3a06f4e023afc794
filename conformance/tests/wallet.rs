//! The lab's e-wallet on a real PostgreSQL: the published sizes to the kilobyte, and books that balance after a
//! load, or name the violation.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::process::Command;
use std::time::Duration;

use weir_conformance::TempDir;
use weir_lab::collector::database::{Database, NewCell, NewRun};
use weir_lab::collector::psql::{Address, Psql};
use weir_lab::collector::{Collector, INTERVAL, Settings as What};
use weir_lab::environment::Environment;
use weir_lab::postgres::{Cluster, Programs, Settings, USER};
use weir_lab::wallet::{Mode, PUBLISHED_SIZES, Profile, Store, Violation, Wallet, write_scripts};

fn address(cluster: &Cluster) -> Address {
    Address {
        host: cluster.address().ip().to_string(),
        port: cluster.address().port(),
        user: Some(USER.to_owned()),
        database: "postgres".to_owned(),
        ..Address::default()
    }
}

fn cluster() -> Cluster {
    Cluster::start(&Programs::find().unwrap(), Settings::new(20)).unwrap()
}

/// Runs `each` transactions of the mix with each of four clients; returns the number of transfers.
fn load(cluster: &Cluster, wallet: &Wallet, mode: Mode, address: &Address, each: u32) -> u64 {
    let directory = TempDir::new().unwrap();
    let scripts = wallet.scripts(mode).unwrap();
    let mut command = Command::new(cluster.programs().path("pgbench").unwrap());
    command.args(["-n", "-M", "prepared", "-c", "4", "-t", &each.to_string()]);
    for (path, weight) in write_scripts(&scripts, directory.path()).unwrap() {
        command
            .arg("-f")
            .arg(format!("{}@{weight}", path.display()));
    }
    address.apply(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    weir_lab::tune::load::script_counts(&String::from_utf8_lossy(&output.stdout))[0]
}

#[test]
fn all_twelve_published_sizes_match_to_the_kilobyte() {
    let cluster = cluster();
    let wallet = Wallet::default();
    let mut store = Store::create(&address(&cluster), &wallet).unwrap();
    let mut psql = Psql::connect(&store.restore().unwrap()).unwrap();
    let sizes = wallet.sizes(&mut psql).unwrap();
    let found: Vec<_> = sizes
        .iter()
        .map(|size| {
            (
                size.table.as_str(),
                size.rows_kb,
                size.indexes_kb,
                size.total_kb,
            )
        })
        .collect();
    assert_eq!(found, PUBLISHED_SIZES);
}

#[test]
fn books_balance_after_either_load_and_tell_what_is_wrong() {
    let cluster = cluster();
    let wallet = Wallet {
        profile: Profile::Realistic { scale: 1 },
        zipf: Some(1.1),
        ..Wallet::default()
    };
    let mut store = Store::create(&address(&cluster), &wallet).unwrap();
    for mode in [Mode::Chatty, Mode::Pipelined] {
        // Each mode begins with the same data.
        let address = store.restore().unwrap();
        let mut psql = Psql::connect(&address).unwrap();
        assert_eq!(wallet.books(&mut psql).unwrap().violations(Some(0)), []);
        let transfers = load(&cluster, &wallet, mode, &address, 50);
        assert!(transfers > 0);
        let books = wallet.books(&mut psql).unwrap();
        assert_eq!(books.violations(Some(transfers)), [], "{mode:?}");
        assert_eq!(
            books.violations(Some(transfers + 1)),
            [Violation::Transfers {
                expected: i64::try_from(transfers).unwrap() + 1,
                found: i64::try_from(transfers).unwrap(),
            }]
        );
        // A commit that was partly lost.
        psql.execute("UPDATE wallets SET balance = balance + 1 WHERE id = 1")
            .unwrap();
        let told = wallet.books(&mut psql).unwrap().violations(Some(transfers));
        assert_eq!(told.len(), 2, "{told:?}");
    }
    store.remove().unwrap();
}

#[test]
fn a_database_that_somebody_else_made_is_never_dropped() {
    let cluster = cluster();
    let address = address(&cluster);
    let mut psql = Psql::connect(&address).unwrap();
    psql.execute("CREATE DATABASE weir_tune_template").unwrap();
    let error = Store::create(&address, &Wallet::default()).unwrap_err();
    assert!(
        error.to_string().contains("not made by weir tune"),
        "{error}"
    );
    assert!(Psql::connect(&address.with_database("weir_tune_template")).is_ok());
}

#[test]
fn a_real_server_is_sampled_into_the_file_and_says_what_is_missing() {
    let cluster = cluster();
    let directory = TempDir::new().unwrap();
    let what = What {
        address: address(&cluster),
        database: None,
        interval: INTERVAL,
        console: None,
        seed: 1,
    };
    let sight = Collector::look(&what).unwrap();
    assert_eq!(sight.postmaster, Some(cluster.pid()));
    let file = directory.path().join("tune.sqlite");
    let database = Database::create(&file).unwrap();
    let run = NewRun {
        kind: "run",
        command: String::new(),
        server: what.address.shown(),
        server_version: sight.version,
        seed: 1,
        settings: "{}".to_owned(),
    };
    let run = database
        .begin_run(&run, &Environment::new(), &sight.missing)
        .unwrap();
    let cell = NewCell {
        workload: "watch",
        connections: 1,
        clients: 1,
        repetition: 0,
        place: 0,
    };
    let cell = database.begin_cell(run, &cell).unwrap();
    let collector = Collector::start(&what, &file, run, cell).unwrap();
    // Long enough for two samples of the counters, which are taken twice a second.
    let mut sleeper = Psql::connect(&address(&cluster)).unwrap();
    sleeper.execute("SELECT pg_sleep(1.5)").unwrap();
    assert!(collector.stop().unwrap() > 5);
    assert!(database.watched(cell).unwrap() > Duration::from_secs(1));
    assert!(
        database
            .growth(cell, "pg_stat_database", "xact_commit")
            .unwrap()
            > Some(0.0)
    );
    assert!(database.processor(cell).unwrap().unwrap().cpus >= 1.0);
}
