//! Settings belong to a client: every server has the client's own, never another client's.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::psql::psql;
use weir_conformance::tools;

use crate::support::Server;
use crate::support::refusal;

const SHOWN: &str = "select current_setting('TimeZone'), current_setting('application_name'), \
    current_setting('DateStyle'), current_setting('IntervalStyle'), current_setting('client_encoding'), \
    current_setting('standard_conforming_strings')";
const PID: &str = "select pg_backend_pid()";

#[test]
fn what_one_client_sets_no_other_sees_and_it_keeps() -> Result<()> {
    let server = Server::new("op_set")?;
    // One worker, so that the next server is known: the last one used.
    let config = server.config().env("WEIR_WORKERS", "1");
    let weir = Weir::start(&config.set("default_pool_size", "2"))?;
    let mut blocker = weir.connect("op_set")?;
    let (mut ann, mut ben) = (weir.connect("op_set")?, weir.connect("op_set")?);
    let before = ben.query(SHOWN)?;
    ann.query(
        "set TimeZone = 'Asia/Tokyo'; set application_name = 'ann'; set DateStyle = 'SQL, DMY'; \
         set IntervalStyle = 'iso_8601'; set client_encoding = 'LATIN1'; set standard_conforming_strings = off",
    )?;
    let anns = ann.query(SHOWN)?;
    ensure!(anns != before);
    let first = ann.query_one(PID)?;
    for _ in 0..3 {
        ensure!(
            ben.query_one(PID)? == first,
            "the suite is wrong: another server"
        );
        ensure!(ben.query(SHOWN)? == before);
        ensure!(ann.query(SHOWN)? == anns);
    }
    // Both clients' settings on the other server, too.
    blocker.query("begin")?;
    ensure!(blocker.query_one(PID)? == first);
    ensure!(blocker.query(SHOWN)? == before);
    ensure!(
        ann.query_one(PID)? != first,
        "the suite is wrong: one server"
    );
    ensure!(ann.query(SHOWN)? == anns);
    ensure!(ben.query(SHOWN)? == before);
    ensure!(ann.query(SHOWN)? == anns);
    blocker.query("commit")?;
    ann.query("reset TimeZone; set DateStyle to default")?;
    ensure!(ann.query_one("show timezone")? == "UTC");
    ensure!(ben.query(SHOWN)? == before);
    Ok(())
}

#[test]
fn settings_do_not_mix_when_everybody_is_busy() -> Result<()> {
    let server = Server::new("op_set_busy")?;
    let mut weir = Weir::start(&server.config().set("default_pool_size", "3"))?;
    let zones = ["UTC", "Asia/Tokyo", "Europe/Rome", "America/Lima"];
    let until = clock::now() + Duration::from_secs(1);
    let one = &|number: usize| -> Result<()> {
        let zone = zones.get(number % zones.len()).copied().unwrap_or("UTC");
        let name = format!("client {number}");
        let mut raw = weir.connect("op_set_busy")?;
        raw.query(&format!("set TimeZone = '{zone}'"))?;
        let mut turn = 0;
        while clock::now() < until {
            turn += 1;
            let name = format!("{name}, {turn}");
            raw.query(&format!("set application_name = '{name}'"))?;
            let shown = raw
                .query("select current_setting('TimeZone'), current_setting('application_name')")?;
            let wanted = vec![vec![Some(zone.to_owned()), Some(name)]];
            ensure!(shown == wanted, "{shown:?}, not {wanted:?}");
        }
        Ok(())
    };
    thread::scope(|scope| -> Result<()> {
        let running: Vec<_> = (0..12).map(|n| scope.spawn(move || one(n))).collect();
        for client in running {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        Ok(())
    })?;
    weir.check_healthy()
}

#[test]
fn a_setting_that_is_rolled_back_does_not_follow() -> Result<()> {
    let server = Server::new("op_set_back")?;
    let weir = Weir::start(&server.config().set("default_pool_size", "1"))?;
    let (mut ann, mut ben) = (weir.connect("op_set_back")?, weir.connect("op_set_back")?);
    ann.query("set TimeZone = 'Asia/Tokyo'")?;
    for sql in [
        "begin; set TimeZone = 'Europe/Rome'; rollback",
        "begin; set local TimeZone = 'Europe/Rome'; commit",
    ] {
        ann.query(sql)?;
        ensure!(ben.query_one("show timezone")? == "UTC", "{sql}");
        ensure!(ann.query_one("show timezone")? == "Asia/Tokyo", "{sql}");
    }
    ann.query("begin; set TimeZone = 'Europe/Rome'; commit")?;
    ensure!(ben.query_one("show timezone")? == "UTC");
    ensure!(ann.query_one("show timezone")? == "Europe/Rome");
    Ok(())
}

#[test]
fn the_database_entry_sets_start_values_for_all() -> Result<()> {
    let server = Server::new("op_entry")?;
    let config = weir_conformance::Config::new().database(&format!(
        "op_entry = host=127.0.0.1 port={} timezone=Asia/Tokyo datestyle='SQL, DMY' application_name=entry \
         connect_query='set work_mem to ''7MB'''",
        server.postgres.port()
    ));
    let weir = Weir::start(&config)?;
    let mut raw = weir.connect("op_entry")?;
    let shown = raw.query(
        "select current_setting('TimeZone'), current_setting('DateStyle'), current_setting('application_name'), \
         current_setting('work_mem')",
    )?;
    let shown: Vec<String> = shown.into_iter().flatten().flatten().collect();
    ensure!(
        shown == ["Asia/Tokyo", "SQL, DMY", "entry", "7MB"],
        "{shown:?}"
    );
    Ok(())
}

/// Reads all settings that a client may bring along.
const BROUGHT: &str = "select name, setting from pg_settings where name in ('statement_timeout', 'search_path', \
    'TimeZone', 'DateStyle', 'application_name', 'work_mem', 'lock_timeout', 'extra_float_digits', 'client_encoding', \
    'IntervalStyle') order by name";

#[test]
fn startup_parameters_and_options_follow_the_client() -> Result<()> {
    let mut server = Server::new("op_options")?;
    let weir = Weir::start(&server.config().set("default_pool_size", "2"))?;
    let base = [("user", "postgres"), ("database", "op_options")];
    let brought: [&[(&str, &str)]; 6] = [
        &[(
            "options",
            "-c statement_timeout=1234 -c search_path=alpha,beta",
        )],
        &[(
            "options",
            "-csearch_path=\"Alpha\",public --lock_timeout=77",
        )],
        &[("options", "-c application_name=one\\ two -c work_mem=9MB")],
        &[("TimeZone", "Asia/Tokyo"), ("DateStyle", "German")],
        &[
            ("statement_timeout", "4321"),
            ("application_name", "fourth"),
        ],
        &[],
    ];
    let mut clients = Vec::new();
    for more in brought {
        let parameters: Vec<_> = base.iter().chain(more).copied().collect();
        let mut direct = Raw::connect_with(server.postgres.port(), &parameters)?;
        let wanted = direct.query(BROUGHT)?;
        direct.terminate();
        clients.push((Raw::connect_with(weir.port(), &parameters)?, wanted));
    }
    let mut blocker = weir.connect("op_options")?;
    for blocked in [false, true, false] {
        if blocked {
            blocker.query("begin")?;
        }
        for _ in 0..2 {
            for (client, wanted) in &mut clients {
                let shown = client.query(BROUGHT)?;
                ensure!(shown == *wanted, "{shown:?}\nwanted {wanted:?}");
            }
        }
        if blocked {
            blocker.query("rollback")?;
        }
    }
    weir_conformance::wait_until("two backends", crate::support::PATIENCE, || {
        Ok(server.count()? == 2)
    })
}

#[test]
fn libpqs_own_way_to_set_options_works() -> Result<()> {
    let server = Server::new("op_pgoptions")?;
    let weir = Weir::start(&server.config())?;
    let weirs = shown_by_psql(weir.port(), "op_pgoptions")?;
    let direct = shown_by_psql(server.postgres.port(), "op_pgoptions")?;
    ensure!(weirs == direct, "{weirs}\nwanted {direct}");
    ensure!(weirs.starts_with("2s\nalpha,beta\nAsia/Tokyo\n"), "{weirs}");
    Ok(())
}

fn shown_by_psql(port: u16, database: &str) -> Result<String> {
    let mut psql = psql(port, database)?;
    psql.env(
        "PGOPTIONS",
        "-c statement_timeout=2s -c search_path=alpha,beta",
    );
    psql.env("PGTZ", "Asia/Tokyo").env("PGAPPNAME", "libpq's");
    psql.env("PGDATESTYLE", "German");
    psql.args([
        "-At",
        "-c",
        "show statement_timeout",
        "-c",
        "show search_path",
    ]);
    psql.args(["-c", "show timezone", "-c", "show application_name"]);
    tools::run(psql.args(["-c", "show datestyle"]))
}

#[test]
fn an_invalid_startup_value_is_refused_in_postgresqls_words() -> Result<()> {
    let server = Server::new("op_invalid")?;
    let mut weir = Weir::start(&server.config().set("default_pool_size", "1"))?;
    for more in [
        ("TimeZone", "Nowhere/Land"),
        ("DateStyle", "Julian"),
        ("options", "-c statement_timeout=soon"),
        ("options", "-c work_mem=1"),
        ("options", "-c no_such_thing=1"),
        ("client_encoding", "EBCDIC"),
        ("no_such_thing", "1"),
    ] {
        let parameters = [("user", "postgres"), ("database", "op_invalid"), more];
        let ours = refusal(Raw::connect_with(weir.port(), &parameters));
        let theirs = refusal(Raw::connect_with(server.postgres.port(), &parameters));
        ensure!(!theirs.is_empty(), "the suite is wrong: {more:?} is valid");
        ensure!(ours == theirs, "{more:?}: {ours:?}, not {theirs:?}");
    }
    // The server still works as before.
    let mut raw = weir.connect("op_invalid")?;
    ensure!(raw.query_one("show timezone")? == "UTC");
    weir.check_healthy()
}

#[test]
fn ignore_startup_parameters_drops_what_it_names() -> Result<()> {
    let server = Server::new("op_ignore")?;
    let config = server.config();
    let weir = Weir::start(&config.set("ignore_startup_parameters", "no_such_thing, work_mem"))?;
    let mut raw = Raw::connect_with(
        weir.port(),
        &[
            ("user", "postgres"),
            ("database", "op_ignore"),
            ("no_such_thing", "1"),
            ("work_mem", "9MB"),
        ],
    )?;
    ensure!(raw.query_one("show work_mem")? == "4MB");
    Ok(())
}
