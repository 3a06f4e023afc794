//! The settings fence: if a session's state cannot be restored on a server, none of its statements run there.
//!
//! A direct session keeps its settings, whatever is revoked or dropped meanwhile. Through a pool the settings must be
//! applied again on another server. If PostgreSQL refuses that, the client receives an error and its statement is not
//! executed.

use anyhow::{Result, ensure};
use weir_conformance::frontend::{bind, execute, parse, query, sync};
use weir_conformance::{Config, Postgres, Raw, Weir};

/// A setting that a session has and cannot get again.
struct Case {
    name: &'static str,
    /// Preparation by the administrator, once.
    before: &'static str,
    /// Privileges that the session needs.
    grant: &'static str,
    /// Statements of the session.
    set: &'static str,
    /// Later change by the administrator.
    spoil: &'static str,
    /// SQLSTATE that the client receives.
    code: &'static str,
}

const CASES: [Case; 5] = [
    Case {
        name: "revoked",
        before: "CREATE ROLE tenant_revoked; GRANT INSERT ON kept TO tenant_revoked",
        grant: "GRANT tenant_revoked TO app_revoked",
        set: "SET ROLE tenant_revoked",
        spoil: "REVOKE tenant_revoked FROM app_revoked",
        code: "42501",
    },
    Case {
        name: "dropped",
        before: "",
        grant: "CREATE ROLE tenant_dropped; GRANT tenant_dropped TO app_dropped",
        set: "SET ROLE tenant_dropped",
        spoil: "DROP ROLE tenant_dropped",
        code: "22023",
    },
    Case {
        name: "parameter",
        before: "",
        grant: "GRANT SET ON PARAMETER log_min_messages TO app_parameter",
        set: "SET log_min_messages = 'error'",
        spoil: "REVOKE SET ON PARAMETER log_min_messages FROM app_parameter",
        code: "42501",
    },
    Case {
        name: "invalid",
        before: "",
        grant: "CREATE TEXT SEARCH CONFIGURATION public.own (COPY = simple)",
        set: "SET default_text_search_config = 'public.own'",
        spoil: "DROP TEXT SEARCH CONFIGURATION public.own",
        code: "22023",
    },
    Case {
        name: "several",
        before: "CREATE ROLE tenant_several; GRANT INSERT ON kept TO tenant_several",
        grant: "GRANT tenant_several TO app_several",
        set: "SET app.tenant = 'A'; SET search_path = public; SET ROLE tenant_several",
        spoil: "REVOKE tenant_several FROM app_several",
        code: "42501",
    },
];

const INSERT: &str = "INSERT INTO kept VALUES (current_user, current_setting('app.tenant', true))";

fn requests() -> [(&'static str, Vec<u8>); 4] {
    let run = [bind("", "", &[]), execute("", 0), sync()].concat();
    [
        ("simple", query(INSERT)),
        ("extended", [parse("", INSERT, &[]), run.clone()].concat()),
        (
            "named",
            [
                parse("s", INSERT, &[]),
                bind("", "s", &[]),
                execute("", 0),
                sync(),
            ]
            .concat(),
        ),
        (
            "pipelined",
            [
                parse("", "SELECT 1", &[]),
                run.clone(),
                parse("", INSERT, &[]),
                run,
            ]
            .concat(),
        ),
    ]
}

#[test]
fn what_cannot_be_restored_lets_nothing_run_and_is_told() -> Result<()> {
    let postgres = Postgres::shared()?;
    for case in &CASES {
        let (database, user) = (format!("fence_{}", case.name), format!("app_{}", case.name));
        postgres.create_database(&database)?;
        let mut admin = Raw::connect(postgres.port(), &database)?;
        admin.query("CREATE TABLE kept (who text, tenant text)")?;
        admin.query(&format!(
            "CREATE ROLE {user} LOGIN; GRANT INSERT ON kept TO {user}"
        ))?;
        admin.query("GRANT ALL ON SCHEMA public TO PUBLIC")?;
        admin.query(case.before)?;
        let config = Config::to(postgres.port())
            .set("default_pool_size", "1")
            .userlist(&format!("\"{user}\" \"\"\n"));
        let weir = Weir::start(&config)?;
        for (protocol, request) in requests() {
            admin.query(case.grant)?;
            let mut client = weir.connect_as(&user, &database)?;
            let mut other = weir.connect_as(&user, &database)?;
            client.query(case.set)?;
            // The pool's only server loses the client's settings.
            other.query("SELECT 1")?;
            admin.query(case.spoil)?;
            client.send(&request)?;
            let told = String::from_utf8_lossy(&client.read_to_close()?).into_owned();
            let at = format!("{}, {protocol}: {told:?}", case.name);
            ensure!(told.contains("FATAL") && told.contains(case.code), "{at}");
            let rows = admin.query_one("SELECT count(*) FROM kept")?;
            ensure!(rows == "0", "{at}: {rows} rows");
            // The pool still works.
            ensure!(other.query_one("SELECT current_user")? == user, "{at}");
        }
    }
    Ok(())
}

#[test]
fn a_statement_under_a_timeout_of_a_millisecond_has_its_settings_or_an_error() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("fence_timeout")?;
    let mut admin = Raw::connect(postgres.port(), "fence_timeout")?;
    admin.query("CREATE TABLE kept (tenant text)")?;
    let config = Config::to(postgres.port()).set("default_pool_size", "1");
    let weir = Weir::start(&config)?;
    let mut clients = Vec::new();
    for name in ["A", "B"] {
        let mut client = weir.connect("fence_timeout")?;
        client.query(&format!(
            "SET app.tenant = '{name}'; SET statement_timeout = 1"
        ))?;
        clients.push((client, name));
    }
    for _ in 0..200 {
        for (client, name) in &mut clients {
            let text = format!("INSERT INTO kept SELECT '{name}' || current_setting('app.tenant')");
            for message in client.ask(&query(&text))? {
                let error = message.tag == b'E';
                ensure!(!error || message.field(b'C').as_deref() == Some("57014"));
            }
        }
    }
    let wrong = "SELECT count(*) FROM kept WHERE tenant NOT IN ('AA', 'BB')";
    ensure!(admin.query_one(wrong)? == "0");
    ensure!(admin.query_one("SELECT count(*) > 0 FROM kept")? == "t");
    Ok(())
}
