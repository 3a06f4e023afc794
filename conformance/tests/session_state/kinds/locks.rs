//! Advisory locks: session locks pin, and are counted as PostgreSQL counts them.

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::script::waiting_for_one_server;
use crate::world::ALWAYS_ASKED;
use crate::world::check;
use crate::world::check_with;

const MINE: &str = "select objid, mode from pg_locks where locktype = 'advisory' and \
    pid = pg_backend_pid() order by 1, 2";

#[test]
fn session_locks_pin() -> Result<()> {
    let scripts = [
        on_two_servers(
            "counted",
            &format!(
                "A: select pg_advisory_lock(1)
                 A pinned: advisory lock
                 A: select pg_advisory_lock(1)
                 B: select pg_try_advisory_lock(1)
                 A: select pg_advisory_unlock(1)
                 B: select pg_try_advisory_lock(1)
                 A: {MINE}
                 B: {MINE}
                 A: select pg_advisory_unlock(1)
                 B: select pg_try_advisory_lock(1)
                 A: select pg_advisory_unlock(1)
                 A free
                 B pinned: advisory lock
                 B: {MINE}
                 A: {MINE}
                 B: select pg_advisory_unlock(1)
                 B free
                 B: {MINE}"
            ),
        ),
        on_two_servers(
            "try",
            &format!(
                "A: select pg_try_advisory_lock(1, 2)
                 B: select pg_try_advisory_lock(1, 2)
                 B: {MINE}
                 C: select pg_try_advisory_lock(1, 2)
                 A: {MINE}
                 A pinned: advisory lock
                 B free
                 A: select pg_advisory_unlock(1, 2)
                 A free
                 C: select pg_try_advisory_lock(1, 2)
                 A: select pg_try_advisory_lock(1, 2)
                 C: select pg_advisory_unlock_all()
                 A: select pg_try_advisory_lock(1, 2)
                 A: select pg_advisory_unlock(1, 2)"
            ),
        ),
        on_two_servers(
            "shared",
            &format!(
                "A: select pg_advisory_lock_shared(7)
                 B: select pg_try_advisory_lock_shared(7)
                 A: {MINE}
                 B: {MINE}
                 A: select pg_advisory_unlock(7)
                 A: select pg_advisory_unlock_shared(7)
                 A: select pg_try_advisory_lock(7)
                 B: select pg_advisory_unlock_shared(7)
                 A: select pg_try_advisory_lock(7)
                 B: select pg_try_advisory_lock_shared(7)
                 A: select pg_advisory_unlock(7)"
            ),
        ),
        on_two_servers(
            "unlock all",
            &format!(
                "A: select pg_advisory_lock(1), pg_advisory_lock(2), pg_advisory_lock_shared(3)
                 B: select pg_try_advisory_lock(2)
                 A: {MINE}
                 A: select pg_advisory_unlock_all()
                 A free
                 A: {MINE}
                 B: select pg_try_advisory_lock(2)
                 B: select pg_advisory_unlock(2)"
            ),
        ),
        on_two_servers(
            "waits",
            "A: select pg_advisory_lock(9)
             B sends: select pg_advisory_lock(9)
             A: select pg_advisory_unlock(9)
             B receives
             A: select pg_try_advisory_lock(9)
             B: select pg_advisory_unlock(9)",
        ),
    ];
    check("locks", "", &scripts)
}

#[test]
fn session_locks_outlive_what_postgresql_says_they_outlive() -> Result<()> {
    let scripts = [
        on_two_servers(
            "rollback",
            &format!(
                "A: begin
                 A: select pg_advisory_lock(1)
                 A: rollback
                 B: select pg_try_advisory_lock(1)
                 A: {MINE}
                 A: begin
                 A: select pg_advisory_unlock(1)
                 A: rollback
                 A: {MINE}
                 B: select pg_try_advisory_lock(1)
                 B: select pg_advisory_unlock(1)"
            ),
        ),
        on_two_servers(
            "savepoint",
            &format!(
                "A: begin
                 A: savepoint s
                 A: select pg_advisory_lock(1)
                 A: rollback to s
                 A: commit
                 B: select pg_try_advisory_lock(1)
                 A: {MINE}
                 A: discard all
                 A: {MINE}
                 B: select pg_try_advisory_lock(1)
                 B: discard all"
            ),
        ),
        on_two_servers(
            "failure behind",
            &format!(
                "A: select pg_advisory_lock(1), 1/0
                 A: {MINE}
                 A: select pg_advisory_lock(2), 1/(random() * 0)::int
                 B: select pg_try_advisory_lock(2)
                 A: {MINE}
                 A: select pg_advisory_unlock_all()
                 B: select pg_advisory_unlock_all()"
            ),
        ),
        on_two_servers(
            "hidden in a function",
            &format!(
                "A: select locks(5)
                 B: select pg_try_advisory_lock(5)
                 A: {MINE}
                 A: select pg_advisory_unlock(5)
                 B: select pg_try_advisory_lock(5)
                 B: select pg_advisory_unlock(5)"
            ),
        ),
        on_two_servers(
            "in a WITH and a block",
            &format!(
                "A: with l as materialized (select pg_advisory_lock(5)) select count(*) from l where l is not null
                 B: {MINE}
                 A: {MINE}
                 A: do $$ begin perform pg_advisory_lock(6); end $$
                 B: {MINE}
                 A: {MINE}
                 A: select pg_advisory_unlock_all()"
            ),
        ),
    ];
    let fixture = "create function locks(bigint) returns void language plpgsql as
        $$ begin perform pg_advisory_lock($1); end $$";
    check_with("outlive", fixture, ALWAYS_ASKED, &scripts)
}

#[test]
fn transaction_locks_do_not_pin() -> Result<()> {
    let scripts = [
        on_one_server(
            "xact",
            &format!(
                "A: begin
                 A: select pg_advisory_xact_lock(1)
                 A: select pg_try_advisory_xact_lock_shared(2)
                 A: {MINE}
                 A: commit
                 B: select pg_try_advisory_xact_lock(1)
                 B: {MINE}
                 A: {MINE}
                 A: select pg_advisory_unlock(1)"
            ),
        ),
        on_one_server(
            "not got",
            &format!(
                "A: select pg_advisory_unlock(77)
                 B: {MINE}
                 A: select pg_advisory_unlock_all()
                 B: select 1"
            ),
        ),
        on_one_server(
            "got and given back",
            "A: select pg_advisory_lock(1), pg_advisory_unlock(1)
             B: select pg_try_advisory_lock(1), pg_advisory_unlock(1)
             A: begin
             A: select pg_advisory_lock(1)
             A: select pg_advisory_unlock(1)
             A: commit
             B: select pg_try_advisory_lock(1), pg_advisory_unlock(1)",
        ),
        waiting_for_one_server(
            "given back later",
            "A: select pg_advisory_lock(1)
             B sends: select 'waited'
             A: select pg_advisory_unlock(1)
             A free
             B receives",
        ),
    ];
    check("xact_locks", "", &scripts)
}
