//! Roles that are dropped and created again, and `ALTER ROLE/DATABASE … SET`, while a pool has servers. A client that
//! logs in through Weir must get the state of a new connection.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Server;

/// Drops the role with all its privileges, and creates it again with rights on the table.
const AGAIN: &str = "drop owned by {role}; drop role {role}; create role {role} login; \
    create policy p on secrets to {role} using (true); grant select on secrets to {role}";

struct Roles {
    server: Server,
    /// Connection to the database as its owner.
    owner: Raw,
    role: &'static str,
}

impl Roles {
    /// Creates a table that only this role may read, by row-level security.
    fn new(database: &'static str, role: &'static str) -> Result<Self> {
        let server = Server::new(database)?;
        let mut owner = Raw::connect(server.postgres.port(), database)?;
        if owner.query_one(&format!(
            "select count(*) from pg_roles where rolname = '{role}'"
        ))? == "1"
        {
            owner.query(&format!("drop owned by {role}; drop role {role}"))?;
        }
        owner.query(&format!(
            "create table secrets (id int); insert into secrets values (7); \
             alter table secrets enable row level security; create role {role} login; \
             create policy p on secrets to {role} using (true); grant select on secrets to {role}"
        ))?;
        Ok(Self {
            server,
            owner,
            role,
        })
    }

    fn weir(&self, delay: &str) -> Result<Weir> {
        let users = format!("\"postgres\" \"\"\n\"{}\" \"\"\n", self.role);
        let config = self.server.config().set("role_check_delay", delay);
        Weir::start(&config.set("default_pool_size", "1").userlist(&users))
    }

    fn again(&mut self) -> Result<()> {
        self.owner.query(&AGAIN.replace("{role}", self.role))?;
        Ok(())
    }

    fn client(&self, weir: &Weir) -> Result<Raw> {
        let database = self.server.database;
        Raw::connect_with(weir.port(), &[("user", self.role), ("database", database)])
    }
}

/// Checks that a client sees its role and the rows of that role.
fn is_whole(client: &mut Raw, role: &str) -> Result<()> {
    let seen = client.query_one("select current_user || ' ' || (select sum(id) from secrets)")?;
    ensure!(seen == format!("{role} 7"), "{seen}");
    Ok(())
}

#[test]
fn a_new_client_is_of_the_new_role() -> Result<()> {
    let mut roles = Roles::new("op_role_new", "role_new")?;
    let weir = roles.weir("0.001")?;
    let mut before = roles.client(&weir)?;
    is_whole(&mut before, roles.role)?;
    roles.again()?;
    // Row-level security shows no rows to a dropped role, without an error.
    let mut after = roles.client(&weir)?;
    is_whole(&mut after, roles.role)?;
    // The earlier client is served by the same servers.
    is_whole(&mut before, roles.role)?;
    Ok(())
}

#[test]
fn a_role_that_is_gone_shows_by_its_first_error() -> Result<()> {
    for sign in [
        "select current_user",
        "set session authorization role_sign",
        "create temporary table x (i int)",
        "select 1 from other",
    ] {
        let mut roles = Roles::new("op_role_sign", "role_sign")?;
        // Here servers are checked once a day for new clients, so only the error counts.
        let weir = roles.weir("86400")?;
        let mut client = roles.client(&weir)?;
        is_whole(&mut client, roles.role)?;
        roles.owner.query("create table other (i int)")?;
        roles.again()?;
        roles.owner.query("grant select on other to role_sign")?;
        let error = client
            .query(sign)
            .err()
            .map_or_else(String::new, |e| e.to_string());
        ensure!(
            error.contains("42704") || error.contains("42501"),
            "{sign}: {error:?}"
        );
        is_whole(&mut client, roles.role).with_context(|| format!("{sign}\n{}", weir.log()))?;
        client.query("select 1 from other")?;
        is_whole(&mut roles.client(&weir)?, roles.role)?;
    }
    Ok(())
}

#[test]
fn an_error_that_is_no_sign_costs_no_server() -> Result<()> {
    let mut roles = Roles::new("op_role_kept", "role_kept")?;
    let weir = roles.weir("86400")?;
    let mut client = roles.client(&weir)?;
    let first = client.query_one("select pg_backend_pid()")?;
    roles.owner.query("create table other (i int)")?;
    for _ in 0..3 {
        let error = client.query("select 1 from other").err();
        ensure!(error.is_some_and(|e| e.to_string().contains("42501")));
        ensure!(client.query_one("select pg_backend_pid()")? == first);
    }
    Ok(())
}

#[test]
fn new_clients_get_the_defaults_of_today() -> Result<()> {
    let mut roles = Roles::new("op_role_defaults", "role_defaults")?;
    let weir = roles.weir("0.001")?;
    let mut before = roles.client(&weir)?;
    ensure!(before.query_one("show work_mem")? == "4MB");
    let changes = [
        ("alter role role_defaults set work_mem = '5MB'", "5MB"),
        (
            "alter role role_defaults in database op_role_defaults set work_mem = '6MB'",
            "6MB",
        ),
        (
            "alter role role_defaults in database op_role_defaults reset all",
            "5MB",
        ),
        ("alter role role_defaults reset work_mem", "4MB"),
        (
            "alter database op_role_defaults set work_mem = '7MB'",
            "7MB",
        ),
        ("alter database op_role_defaults reset work_mem", "4MB"),
    ];
    for (sql, expected) in changes {
        roles.owner.query(sql)?;
        let direct = Raw::connect_with(
            roles.server.postgres.port(),
            &[("user", roles.role), ("database", roles.server.database)],
        )?
        .query_one("show work_mem")?;
        ensure!(direct == expected, "{sql}: {direct}");
        let mut after = roles.client(&weir)?;
        let seen = after.query_one("show work_mem")?;
        ensure!(seen == expected, "{sql}: {seen}");
    }
    Ok(())
}

#[test]
fn a_reported_default_is_told_with_the_first_answer() -> Result<()> {
    let mut roles = Roles::new("op_role_zone", "role_zone")?;
    let weir = roles.weir("0.001")?;
    ensure!(roles.client(&weir)?.query_one("show timezone")? == "UTC");
    roles
        .owner
        .query("alter role role_zone set timezone = 'Asia/Tokyo'")?;
    let mut client = roles.client(&weir)?;
    let messages = client.ask(&frontend::query("show timezone"))?;
    let told = messages
        .iter()
        .position(|it| it.tag == b'S' && it.body.starts_with(b"TimeZone\0Asia/Tokyo"));
    let row = messages.iter().position(|it| it.tag == b'D');
    ensure!(told.is_some() && told < row, "{messages:?}");
    ensure!(client.query_one("show timezone")? == "Asia/Tokyo");
    Ok(())
}

#[test]
fn a_change_through_weir_counts_for_the_next_client() -> Result<()> {
    let roles = Roles::new("op_role_through", "role_through")?;
    let weir = roles.weir("86400")?;
    let mut owner = weir.connect("op_role_through")?;
    let mut client = roles.client(&weir)?;
    ensure!(client.query_one("show work_mem")? == "4MB");
    owner.query("alter role role_through set work_mem = '5MB'")?;
    ensure!(roles.client(&weir)?.query_one("show work_mem")? == "5MB");
    owner.query("begin; alter role role_through set work_mem = '6MB'")?;
    ensure!(roles.client(&weir)?.query_one("show work_mem")? == "5MB");
    owner.query("commit")?;
    ensure!(roles.client(&weir)?.query_one("show work_mem")? == "6MB");
    owner.query(&AGAIN.replace("{role}", roles.role))?;
    is_whole(&mut roles.client(&weir)?, roles.role)?;
    Ok(())
}

#[test]
fn a_role_that_is_dropped_serves_nobody_new() -> Result<()> {
    let mut roles = Roles::new("op_role_gone", "role_gone")?;
    let weir = roles.weir("0.001")?;
    let mut before = roles.client(&weir)?;
    is_whole(&mut before, roles.role)?;
    roles
        .owner
        .query("drop owned by role_gone; drop role role_gone")?;
    // A cached welcome needs no server; the first query does.
    let refused = roles
        .client(&weir)
        .and_then(|mut new| new.query_one("select 1"));
    let error = refused.err().map_or_else(String::new, |e| e.to_string());
    ensure!(
        error.contains("28000") && error.contains("role_gone"),
        "{error:?}"
    );
    wait_until("the end of its servers", PATIENCE, || {
        let sql = "select count(*) from pg_stat_activity where datname = 'op_role_gone' and usename is null";
        Ok(roles.server.direct.query_one(sql)? == "0")
    })
}
