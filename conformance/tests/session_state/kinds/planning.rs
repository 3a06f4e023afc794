//! Statements whose meaning depends on settings: equal texts may be different statements (COR-15, COR-16).

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::script::waiting_for_one_server;
use crate::world::check;

const FIXTURE: &str = "
    create schema one; create schema two;
    create table one.place(name text); create table two.place(name text, more int);
    insert into one.place values ('one'); insert into two.place values ('two', 2);
    create function one.f() returns text language sql as $$ select 'one'::text $$;
    create function two.f() returns int language sql as $$ select 2 $$;
    do $$ begin create role viewer; exception when duplicate_object or unique_violation then null; end $$;
    create table guarded(owner text); insert into guarded values ('viewer'), ('postgres');
    alter table guarded enable row level security;
    create policy own on guarded using (owner = current_user);
    grant select on guarded to viewer;
    create table changing(a int); insert into changing values (1)";

#[test]
fn cor_15_a_statement_belongs_to_its_search_path() -> Result<()> {
    let scripts = [
        on_one_server(
            "two paths",
            "A: set search_path to one
             B: set search_path to two
             A: select * from place
             B: select * from place
             A: select f()
             B: select f()
             A: select * from place
             B: select * from place",
        ),
        on_one_server(
            "path changed behind Parse",
            "A simple: set search_path to one
             A parse s: select * from place
             A sync
             A bind - s
             A execute -
             A sync
             B simple: set search_path to two
             B parse s: select * from place
             B bind - s
             B execute -
             B sync
             A bind - s
             A execute -
             A sync
             A simple: set search_path to two
             A bind - s
             A execute -
             A sync
             A simple: set search_path to one
             A bind - s
             A execute -
             A sync",
        ),
        on_one_server(
            "path set in the transaction",
            "A simple: begin
             A simple: set local search_path to one
             A parse s: select * from place
             A bind - s
             A execute -
             A sync
             A simple: commit
             B simple: set search_path to two
             B parse s: select * from place
             B bind - s
             B execute -
             B sync
             A simple: set search_path to one
             A bind - s
             A execute -
             A sync",
        ),
        on_one_server(
            "unnamed",
            "A simple: set search_path to one
             A parse -: select * from place
             A sync
             B simple: set search_path to two
             B parse -: select * from place
             B sync
             A bind - -
             A describe P -
             A execute -
             A sync
             B bind - -
             B describe P -
             B execute -
             B sync",
        ),
        on_one_server(
            "known to one path only",
            "A simple: set search_path to one
             A parse s: select name from place
             A sync
             B parse s: select name from place
             B sync
             B bind - s
             B execute -
             B sync
             A bind - s
             A execute -
             A sync",
        ),
    ];
    check("paths", FIXTURE, &scripts)
}

#[test]
fn cor_15_a_statement_belongs_to_its_role() -> Result<()> {
    let scripts = [
        on_one_server(
            "rows of a role",
            "A: set role viewer
             A: select owner from guarded order by owner
             B: select owner from guarded order by owner
             A: select owner from guarded order by owner
             A: reset role
             A: select owner from guarded order by owner
             B: set role viewer
             B: select owner from guarded order by owner",
        ),
        on_one_server(
            "rights of a role",
            "A: set role viewer
             A: select name from one.place
             B: select name from one.place
             A: select name from one.place
             A: select current_user
             B: select current_user",
        ),
    ];
    check("planned_for_role", FIXTURE, &scripts)
}

/// A literal is interpreted at the Parse, with the settings of that moment.
#[test]
fn cor_15_a_statement_belongs_to_the_settings_it_was_parsed_under() -> Result<()> {
    let two = |name: &str, ours: &str, theirs: &str, probe: &str| {
        on_one_server(
            name,
            &format!(
                "A: {ours}
                 B: {theirs}
                 A: {probe}
                 B: {probe}
                 A: {probe}
                 B: {probe}"
            ),
        )
    };
    let scripts = [
        two(
            "datestyle",
            "set datestyle to 'ISO, DMY'",
            "set datestyle to 'ISO, MDY'",
            "select '03/02/2001'::date",
        ),
        two(
            "timezone",
            "set timezone to 'Asia/Tokyo'",
            "set timezone to 'America/New_York'",
            "select extract(epoch from '2001-02-03 04:05:06'::timestamptz)",
        ),
        two(
            "intervalstyle",
            "set intervalstyle to 'sql_standard'",
            "set intervalstyle to 'postgres'",
            "select extract(epoch from '-1 1:00:00'::interval)",
        ),
        two(
            "standard_conforming_strings",
            "set standard_conforming_strings to off",
            "set standard_conforming_strings to on",
            r"select 'a\\b', '\101'",
        ),
        two(
            "xmloption",
            "set xmloption to document",
            "set xmloption to content",
            "select xml '<a/><b/>'",
        ),
        two(
            "transform_null_equals",
            "set transform_null_equals to on",
            "set transform_null_equals to off",
            "select 1 where null = null",
        ),
        two(
            "lc_monetary",
            "set lc_monetary to 'C'",
            "set lc_monetary to 'POSIX'",
            "select '1.5'::money",
        ),
        two(
            "text search",
            "set default_text_search_config to 'english'",
            "set default_text_search_config to 'simple'",
            "select to_tsvector('horses')",
        ),
        two(
            "extra_float_digits",
            "set extra_float_digits to -5",
            "set extra_float_digits to 1",
            "select 1.0::float8 / 3",
        ),
    ];
    check("parsed_under", FIXTURE, &scripts)
}

#[test]
fn cor_15_a_statement_keeps_what_it_was_parsed_under() -> Result<()> {
    let scripts = [on_one_server(
        "datestyle changed behind Parse",
        "A simple: set datestyle to 'ISO, DMY'
         A parse s: select '03/02/2001'::date
         A sync
         A bind - s
         A execute -
         A sync
         A simple: set datestyle to 'ISO, MDY'
         B simple: select 1
         A bind - s
         A execute -
         A sync",
    )];
    check("keeps", FIXTURE, &scripts)
}

#[test]
fn cor_16_a_changed_table_is_noticed_once_per_client_as_in_postgresql() -> Result<()> {
    let scripts = [
        on_one_server(
            "column added",
            "A parse s: select * from changing
             A bind - s
             A execute -
             A sync
             B parse s: select * from changing
             B bind - s
             B execute -
             B sync
             B simple: alter table changing add column b int
             A may 0A000: select 1
             A close S s
             A parse s: select * from changing
             A bind - s
             A describe P -
             A execute -
             A sync
             B close S s
             B parse s: select * from changing
             B bind - s
             B describe P -
             B execute -
             B sync
             A simple: alter table changing drop column b",
        ),
        waiting_for_one_server(
            "used after the change",
            "A parse s: select * from changing
             A bind - s
             A execute -
             A sync
             B simple: alter table changing add column b int
             A bind - s
             A execute -
             A sync
             A close S s
             A parse s: select * from changing
             A bind - s
             A execute -
             A sync
             B parse t: select * from changing
             B bind - t
             B execute -
             B sync
             B simple: alter table changing drop column b",
        ),
    ];
    check("changed", FIXTURE, &scripts)
}
