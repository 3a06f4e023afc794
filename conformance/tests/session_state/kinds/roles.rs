//! Roles and session users.

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::world::check;

const FIXTURE: &str = "
    do $$ begin create role reader; exception when duplicate_object or unique_violation then null; end $$;
    do $$ begin create role writer; exception when duplicate_object or unique_violation then null; end $$;
    do $$ begin create role owner login; exception when duplicate_object or unique_violation then null; end $$;
    do $$ begin grant reader, writer to owner; exception when others then null; end $$;
    create schema authorization owner;
    create table of_reader(a int); grant select on of_reader to reader;
    create table of_writer(a int); grant select on of_writer to writer";

#[test]
fn a_role_follows() -> Result<()> {
    let who = "select current_user, session_user, current_setting('is_superuser')";
    let scripts = [
        on_one_server(
            "set role",
            &format!(
                "A: set role reader
                 B: {who}
                 A: {who}
                 A: select from of_reader
                 A: select from of_writer
                 B: set role writer
                 B: select from of_reader
                 B: select from of_writer
                 A: select from of_writer
                 A: show role
                 A: reset role
                 A: {who}
                 B: {who}
                 B: set role none
                 A: {who}
                 B: {who}"
            ),
        ),
        on_one_server(
            "a login that is no superuser",
            &format!(
                "A connects: user=owner
                 B connects: user=owner
                 A: set role reader
                 B: select from of_reader
                 B: set role writer
                 A: select from of_writer
                 A: {who}
                 B: {who}
                 A: set role postgres
                 A: {who}
                 A: reset role
                 B: {who}
                 A: {who}"
            ),
        ),
        on_one_server(
            "in transactions",
            &format!(
                "A: begin
                 A: set role reader
                 A: rollback
                 A: {who}
                 B: {who}
                 A: set role writer
                 A: begin
                 A: set local role reader
                 A: {who}
                 A: commit
                 B: {who}
                 A: {who}
                 A: begin
                 A: savepoint s
                 A: reset role
                 A: rollback to s
                 A: commit
                 B: {who}
                 A: {who}"
            ),
        ),
        on_one_server(
            "set_config and options",
            &format!(
                "A: select set_config('role', 'reader', false)
                 B: {who}
                 A: {who}
                 B connects: options=-c role=writer
                 B: {who}
                 A: {who}"
            ),
        ),
        on_one_server(
            "reset all keeps it",
            &format!(
                "A: set role reader
                 A: reset all
                 A: {who}
                 B: {who}
                 A: discard all
                 A: {who}
                 B: {who}"
            ),
        ),
        on_one_server(
            "what a role owns",
            "A: set role owner
             A: create table owned(a int)
             B: create table not_owned(a int)
             A: select tableowner from pg_tables where tablename in ('owned', 'not_owned') order by tablename
             A: drop table owned
             A: drop table not_owned
             B: drop table not_owned",
        ),
    ];
    check("role", FIXTURE, &scripts)
}

#[test]
fn a_session_authorization_follows() -> Result<()> {
    let who = "select current_user, session_user, current_setting('is_superuser')";
    let scripts = [
        on_one_server(
            "set",
            &format!(
                "A: set session authorization reader
                 B: {who}
                 A: {who}
                 A: select from of_writer
                 B: set session authorization 'writer'
                 A: {who}
                 B: select from of_reader
                 B: {who}
                 A: reset session authorization
                 B: {who}
                 A: {who}
                 B: set session authorization default
                 A: {who}
                 B: {who}"
            ),
        ),
        on_one_server(
            "with a role",
            &format!(
                "A: set session authorization owner
                 A: set role writer
                 B: {who}
                 A: {who}
                 A: set role postgres
                 A: reset role
                 B: {who}
                 A: {who}
                 A: set role reader
                 A: reset session authorization
                 B: {who}
                 A: {who}"
            ),
        ),
        on_one_server(
            "settings of a superuser",
            "A: set session_replication_role to replica
             A: set log_min_messages to error
             A: set session authorization owner
             A: set work_mem to '5MB'
             B: show log_min_messages
             B: show session_replication_role
             A: show log_min_messages
             A: show session_replication_role
             A: show work_mem
             A: set log_min_messages to info
             A: set session_replication_role to origin
             B: show work_mem",
        ),
        on_one_server(
            "in transactions",
            &format!(
                "A: begin
                 A: set session authorization reader
                 A: rollback
                 B: {who}
                 A: {who}
                 A: begin
                 A: set local session authorization reader
                 A: {who}
                 A: commit
                 B: {who}
                 A: {who}"
            ),
        ),
    ];
    check("authorization", FIXTURE, &scripts)
}
