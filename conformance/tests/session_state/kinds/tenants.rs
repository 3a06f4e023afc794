//! Ways to select the rows that a session sees: the row-level security of most applications depends on a custom
//! setting.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::wait_until;

use crate::script::Script;
use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::world::ALWAYS_ASKED;
use crate::world::WAIT;
use crate::world::World;
use crate::world::check;
use crate::world::check_with;
use crate::world::is_direct;

const FIXTURE: &str = "
    create procedure nothing() language plpgsql as $$ begin end $$;
    create function app_login(text) returns text language plpgsql as
      $$ begin return set_config('app.tenant', $1, false); end $$;
    create function app_login_sql(text) returns text language sql as
      $$ select set_config('app.tenant', $1, false) $$;
    create function app_login_atomic(text) returns text language sql
      begin atomic select set_config('app.tenant', $1, false); end;
    create function app_login_set() returns void language plpgsql as
      $$ begin set app.tenant = 'A'; end $$;
    create function app_login_format(name text) returns void language plpgsql as
      $$ begin execute format('SET app.tenant = %L', name); end $$;
    create function app_login_concatenated(name text) returns void language plpgsql as
      $$ begin execute 'se' || 't app.tenant to ' || quote_literal(name); end $$;
    create function app_login_nested(text) returns text language plpgsql as
      $$ begin return (select app_login_sql($1)); end $$;
    create function app_login_default(name text default set_config('app.tenant', 'A', false)) returns text
      language sql as $$ select name $$;
    create procedure app_enter(name text) language plpgsql as
      $$ begin perform set_config('app.tenant', name, false); commit; end $$;
    create view app_entrance as select set_config('app.tenant', 'A', false) as tenant;
    create view app_entrance_called as select app_login('A') as tenant;
    create view app_hall as select * from app_entrance;
    create function by_trigger() returns trigger language plpgsql as
      $$ begin perform set_config('app.tenant', 'A', false); return new; end $$;
    create table watched(a int);
    create trigger watch before insert on watched for each row execute function by_trigger();
    create table parted(a int) partition by range (a);
    create table parted_1 partition of parted for values from (0) to (1000);
    create trigger watch before insert on parted_1 for each row execute function by_trigger();
    create table defaulted(a int, tenant text default set_config('app.tenant', 'A', false));
    create table checked(a text check (app_login(a) = a));
    create domain tenant_name as text check (app_login(value) = value);
    create table ruled(a int);
    create rule on_insert as on insert to ruled do also select app_login('A');
    create table guarded(a int);
    insert into guarded values (1);
    grant select on guarded to public;
    alter table guarded enable row level security;
    alter table guarded force row level security;
    create policy tenants on guarded using (app_login('A') is not null);
    do $$ begin create role tenant_reader; exception when others then null; end $$;
    create table parents(a int primary key);
    create table children(a int references parents on delete cascade);
    insert into parents values (1), (2);
    insert into children values (1), (2);
    create function by_delete() returns trigger language plpgsql as
      $$ begin perform set_config('app.tenant', 'A', false); return old; end $$;
    create trigger watch before delete on children for each row execute function by_delete();
    create function set_any(name text, value text) returns text language plpgsql as
      $$ begin return set_config(name, value, false); end $$;
    create function run(code text) returns void language plpgsql as $$ begin execute code; end $$;
    create function app_local(text) returns text language plpgsql as
      $$ begin return set_config('app.tenant', $1, true); end $$;
    create function app_undone(text) returns text language plpgsql set app.tenant = 'x' as
      $$ begin return set_config('app.tenant', $1, false); end $$";

/// Reads the tenant of a session, or an empty text.
const SEEN: &str = "select coalesce(current_setting('app.tenant', true), '')";

/// Settings with a visible name, and the client's statements. The state follows its client.
const FOLLOWS: &[(&str, &str)] = &[
    ("set", "A: set app.tenant = 'A'"),
    ("set_config", "A: select set_config('app.tenant', 'A', false)"),
    ("reset all", "A simple: reset all; set app.tenant = 'A'"),
    ("deallocate all", "A simple: deallocate all; set app.tenant = 'A'"),
    ("behind a block", "A simple: do $$ begin end $$; set app.tenant = 'A'"),
    ("before a block", "A simple: set app.tenant = 'A'; do $$ begin end $$"),
    ("behind a procedure", "A simple: call nothing(); set app.tenant = 'A'"),
    ("before a procedure", "A simple: set app.tenant = 'A'; call nothing()"),
    (
        "a reset of a driver",
        "A simple: select pg_advisory_unlock_all(); close all; unlisten *; reset all; set app.tenant = 'A'",
    ),
    (
        "from pg_settings",
        "A: select set_config('app.tenant', 'A', false) from pg_settings where name = 'work_mem'",
    ),
    (
        "transactions in a text",
        "A simple: begin; set app.tenant = 'x'; commit; reset all; set app.tenant = 'A'",
    ),
    (
        "backslashes",
        "A: set standard_conforming_strings = off
         A simple: select 'it\\'s'; set app.tenant = 'A'",
    ),
    ("a block", "A: do $$ begin perform set_config('app.tenant', 'A', false); end $$"),
    ("a block that sets", "A: do $$ begin set app.tenant = 'A'; end $$"),
    ("a block that concatenates", "A: do $$ begin execute 'se' || 't app.tenant to ''A'''; end $$"),
    ("a block that calls", "A: do $$ begin perform app_login('A'); end $$"),
    ("a function", "A: select app_login('A')"),
    ("a function by its schema", "A: select \"public\".\"app_login\"('A')"),
    ("a function in a transaction", "A: begin\nA: select app_login('A')\nA: commit"),
    ("a function in FROM", "A: select * from app_login('A')"),
    ("an SQL function", "A: select app_login_sql('A')"),
    ("an SQL function with a parsed body", "A: select app_login_atomic('A')"),
    ("a function with SET", "A: select app_login_set()"),
    ("a function with a format", "A: select app_login_format('A')"),
    ("a function that concatenates", "A: select app_login_concatenated('A')"),
    ("a function that calls one", "A: select app_login_nested('A')"),
    ("a default of an argument", "A: select app_login_default()"),
    ("a procedure", "A: call app_enter('A')"),
    ("a view", "A: select * from app_entrance"),
    ("a view that calls", "A: select * from app_entrance_called"),
    ("a view of a view", "A: select * from app_hall"),
    ("a trigger", "A: insert into watched values (1)"),
    ("a trigger of a partition", "A: insert into parted values (1)"),
    ("a default", "A: insert into defaulted(a) values (1)"),
    ("a check", "A: insert into checked values ('A')"),
    ("a domain", "A: select 'A'::tenant_name"),
    ("a rule", "A simple: insert into ruled values (1)"),
    (
        "a cascade",
        "A simple: insert into parents values (1) on conflict do nothing; insert into children values (1)
         A: delete from parents where a = 1",
    ),
    (
        "a policy",
        "A: begin
         A: set local role tenant_reader
         A: select count(*) from guarded
         A: commit",
    ),
    ("a prepared call", "A parse s: select app_login('A')\nA bind - s\nA execute -\nA sync"),
    (
        "a cursor",
        "A: begin
         A: declare c cursor for select app_login('A')
         A: fetch c
         A: commit",
    ),
    (
        "a function of the same text",
        "A simple: create function app_late() returns text language sql as \
         $$ select set_config('app.tenant', 'A', false) $$; select app_late()
         B simple: drop function app_late()",
    ),
    (
        "a function of a moment ago",
        "A: create or replace function app_later() returns text language sql as \
         $$ select set_config('app.tenant', 'A', false) $$
         A: select app_later()",
    ),
    (
        "a view of a moment ago",
        "A: create or replace view app_view_later as select app_login('A') as tenant
         A: select * from app_view_later",
    ),
    (
        "a function that was harmless",
        "A: create or replace function app_turns() returns text language sql as $$ select 'x' $$
         A: select app_turns()
         A: create or replace function app_turns() returns text language sql as \
         $$ select set_config('app.tenant', 'A', false) $$
         A: select app_turns()",
    ),
    ("a function that sets locally", "A: select app_local('A')"),
    ("a function that takes it back", "A: select app_undone('A')"),
    ("an error", "A simple: select app_login('A'); select 1/0"),
    ("a rollback", "A simple: begin; select app_login('A'); rollback"),
];

/// The name is unknown before the statement runs: the client keeps its server.
const PINS: &[(&str, &str)] = &[
    (
        "a name as an argument",
        "A: select set_any('app.tenant', 'A')",
    ),
    (
        "a text as an argument",
        "A: select run('set app.tenant to ''A''')",
    ),
    (
        "a text for xml",
        "A: select query_to_xml('select set_config(''app.ten' || 'ant'', ''A'', false)', false, false, '') is null",
    ),
    (
        "a block that makes a name",
        "A: do $$ declare n text := 'app.tenant'; begin perform set_config(n, 'A', false); end $$",
    ),
];

fn scripts(make: fn(&str, &str) -> Script, ways: &[(&str, &str)]) -> Vec<Script> {
    let script = |(name, way): &(&str, &str)| {
        let text = format!(
            "B: {SEEN}
             C: {SEEN}
             {way}
             B: {SEEN}
             C: {SEEN}
             A: {SEEN}
             B: {SEEN}
             A: {SEEN}"
        );
        make(name, &text)
    };
    ways.iter().map(script).collect()
}

#[test]
fn a_tenant_follows_whatever_sets_it() -> Result<()> {
    check("tenants", FIXTURE, &scripts(on_one_server, FOLLOWS))
}

#[test]
fn a_tenant_of_an_unknown_name_keeps_its_server() -> Result<()> {
    check("tenants_pinned", FIXTURE, &scripts(on_two_servers, PINS))
}

#[test]
fn a_tenant_is_found_by_asking_always() -> Result<()> {
    let all = [
        scripts(on_one_server, FOLLOWS),
        scripts(on_two_servers, PINS),
    ]
    .concat();
    check_with("tenants_asked", FIXTURE, ALWAYS_ASKED, &all)
}

/// `RESET ALL` and `DISCARD ALL` reset all settings, whatever their names.
#[test]
fn a_setting_of_an_unknown_name_can_be_given_up() -> Result<()> {
    let scripts = ["reset all", "discard all"].map(|reset| {
        let text = format!(
            "A: select set_any('app.tenant', 'A')
             A pinned: setting of an unknown name
             B: {SEEN}
             A: {SEEN}
             A: {reset}
             A free
             B: {SEEN}
             C: {SEEN}
             A: {SEEN}"
        );
        on_two_servers(reset, &text)
    });
    check("tenants_given_up", FIXTURE, &scripts)
}

/// A function defined by another session is found when the catalogue is read again (`catalogue_refresh`).
#[test]
fn a_function_made_elsewhere_is_found_by_looking() -> Result<()> {
    if is_direct()? {
        return Ok(());
    }
    let scripts = [on_one_server("elsewhere", "A: select 1")];
    let settings = [("catalogue_refresh", "1")];
    let world = World::start("tenants_elsewhere", FIXTURE, &scripts, &settings)?;
    let (port, database) = world.target("s0_simple");
    let mut owner = Raw::connect(port, database)?;
    let mut other = Raw::connect(port, database)?;
    ensure!(other.query_one(SEEN)?.is_empty());
    let mut direct = Raw::connect(world.oracle().0, "tenants_elsewhere_subject")?;
    direct.query(
        "create function app_elsewhere() returns text language sql as \
         $$ select set_config('app.tenant', 'A', false) $$",
    )?;
    wait_until("the look", WAIT, || {
        owner.query_one("select app_elsewhere()")?;
        Ok(other.query_one(SEEN)?.is_empty())
    })?;
    ensure!(owner.query_one(SEEN)? == "A");
    Ok(())
}

/// If a server refuses Weir's query, it is repeated with the same names.
#[test]
fn a_name_stays_in_the_question_until_it_is_answered() -> Result<()> {
    let fixture = "
        do $$ begin create role tenant_limited; exception when others then null; end $$;
        revoke execute on function current_setting(text, boolean) from public";
    let text = format!(
        "B: {SEEN}
         C: {SEEN}
         A: set role tenant_limited
         A: set app.tenant = 'A'
         A pinned: unknown
         B: {SEEN}
         A: select 1
         A pinned: unknown
         A: reset role
         A free
         B: {SEEN}
         C: {SEEN}
         A: {SEEN}
         B: {SEEN}"
    );
    let scripts = [on_two_servers("refused", &text)];
    check("tenants_refused", fixture, &scripts)
}
