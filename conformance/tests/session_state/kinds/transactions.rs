//! Settings and transactions: a rollback undoes exactly the settings that it undoes in PostgreSQL
//! (COR-37).

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::world::check;

#[test]
fn cor_37_a_rollback_takes_settings_back() -> Result<()> {
    let scripts = [
        on_one_server(
            "rollback",
            "A: set work_mem to '5MB'
             A: begin
             A: set work_mem to '6MB'
             A: set datestyle to 'German'
             A: set my.var to 'x'
             A: show work_mem
             A: rollback
             A: show work_mem
             B: show work_mem
             B: show datestyle
             A: show datestyle
             A: select nullif(current_setting('my.var', true), '')",
        ),
        on_one_server(
            "commit",
            "A: begin
             A: set work_mem to '6MB'
             A: set datestyle to 'German'
             A: commit
             B: show work_mem
             B: show datestyle
             A: show work_mem
             A: show datestyle",
        ),
        on_one_server(
            "commit of a failed transaction",
            "A: begin
             A: set work_mem to '6MB'
             A: set timezone to 'Asia/Tokyo'
             A: select 1/0
             A: set work_mem to '7MB'
             A: commit
             A: show work_mem
             B: show timezone
             A: show timezone",
        ),
        on_one_server(
            "reset rolled back",
            "A: set work_mem to '6MB'
             A: begin
             A: reset work_mem
             A: show work_mem
             A: rollback
             B: show work_mem
             A: show work_mem
             A: begin
             A: reset all
             A: rollback
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "chain",
            "A: begin
             A: set work_mem to '5MB'
             A: commit and chain
             A: set work_mem to '6MB'
             A: rollback and chain
             A: show work_mem
             A: set work_mem to '7MB'
             A: rollback
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "two-phase",
            "A: begin
             A: set work_mem to '5MB'
             A: insert into t values (1)
             A: prepare transaction 'one'
             B: show work_mem
             A: show work_mem
             B: rollback prepared 'one'
             A: show work_mem",
        ),
    ];
    check("rollback", "create table t(a int)", &scripts)
}

#[test]
fn cor_37_a_rollback_to_a_savepoint_takes_settings_back() -> Result<()> {
    let scripts = [
        on_one_server(
            "rollback to",
            "A: begin
             A: set work_mem to '5MB'
             A: savepoint s
             A: set work_mem to '6MB'
             A: set datestyle to 'German'
             A: rollback to s
             A: show work_mem
             A: commit
             B: show work_mem
             B: show datestyle
             A: show work_mem
             A: show datestyle",
        ),
        on_one_server(
            "release",
            "A: begin
             A: savepoint s
             A: set work_mem to '6MB'
             A: savepoint t
             A: set work_mem to '7MB'
             A: release t
             A: release s
             A: commit
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "nested",
            "A: begin
             A: set work_mem to '5MB'
             A: savepoint s
             A: set work_mem to '6MB'
             A: savepoint s
             A: set work_mem to '7MB'
             A: select 1/0
             A: rollback to s
             A: show work_mem
             A: release s
             A: rollback to s
             A: show work_mem
             A: set local work_mem to '8MB'
             A: show work_mem
             A: commit
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "subtransaction of a block",
            "A: do $$ begin \
                begin set work_mem to '5MB'; perform 1/0; \
                exception when division_by_zero then null; end; \
                set datestyle to 'German'; end $$
             B: show work_mem
             B: show datestyle
             A: show work_mem
             A: show datestyle",
        ),
    ];
    check("savepoint", "", &scripts)
}

#[test]
fn set_local_ends_with_its_transaction() -> Result<()> {
    let scripts = [
        on_one_server(
            "set local",
            "A: begin
             A: set local work_mem to '5MB'
             A: set local datestyle to 'German'
             A: show datestyle
             A: commit
             B: show work_mem
             A: show work_mem
             A: show datestyle",
        ),
        on_one_server(
            "over a session's own",
            "A: set work_mem to '5MB'
             A: begin
             A: set local work_mem to '6MB'
             A: show work_mem
             A: commit
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "set and set local",
            "A: begin
             A: set work_mem to '5MB'
             A: set local work_mem to '6MB'
             A: show work_mem
             A: commit
             B: show work_mem
             A: show work_mem
             A: begin
             A: set local work_mem to '7MB'
             A: set work_mem to '8MB'
             A: commit
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "outside of a transaction",
            "A: set local work_mem to '5MB'
             A: show work_mem
             B: show work_mem
             A: set transaction isolation level serializable
             A: show transaction_isolation",
        ),
        on_one_server(
            "set transaction",
            "A: begin
             A: set transaction isolation level serializable, read only
             A: show transaction_isolation
             A: commit
             B: show transaction_isolation
             A: show transaction_isolation
             A: show transaction_read_only",
        ),
        on_one_server(
            "set constraints",
            "A: begin
             A: set constraints all deferred
             A: commit
             B: select 1
             A: select 1",
        ),
    ];
    check("set_local", "", &scripts)
}

/// Several statements in one message are one transaction, unless they contain transaction commands.
#[test]
fn cor_37_implicit_transactions_are_transactions() -> Result<()> {
    let scripts = [
        on_one_server(
            "several statements",
            "A simple: set work_mem to '5MB'; set datestyle to 'German'
             B simple: show work_mem
             A simple: show work_mem; show datestyle",
        ),
        on_one_server(
            "failed behind",
            "A simple: set work_mem to '5MB'; set datestyle to 'German'; select 1/0
             A simple: show work_mem; show datestyle
             B simple: show work_mem",
        ),
        on_one_server(
            "committed before the failure",
            "A simple: begin; set work_mem to '5MB'; commit; set work_mem to '6MB'; select 1/0
             A simple: show work_mem
             B simple: show work_mem
             A simple: set work_mem to '7MB'; rollback; set datestyle to 'German'
             A simple: show work_mem; show datestyle
             B simple: show work_mem; show datestyle",
        ),
        on_one_server(
            "left open",
            "A simple: set timezone to 'Asia/Tokyo'; begin; set work_mem to '5MB'
             A simple: show work_mem
             A simple: rollback
             B simple: show work_mem
             A simple: show work_mem; show timezone",
        ),
        on_one_server(
            "syntax error behind",
            "A simple: set work_mem to '5MB'; selec 1
             A simple: show work_mem
             B simple: show work_mem",
        ),
        on_one_server(
            "pipeline",
            "A parse -: set work_mem to '5MB'
             A bind - -
             A execute -
             A parse -: set datestyle to 'German'
             A bind - -
             A execute -
             A sync
             B simple: show work_mem
             A simple: show work_mem
             A simple: show datestyle",
        ),
        on_one_server(
            "pipeline that fails",
            "A parse -: set work_mem to '5MB'
             A bind - -
             A execute -
             A parse -: select 1/0
             A bind - -
             A execute -
             A parse -: set datestyle to 'German'
             A bind - -
             A execute -
             A sync
             A simple: show work_mem
             A simple: show datestyle
             B simple: show work_mem",
        ),
        on_one_server(
            "vanishing inside",
            "A: set work_mem to '5MB'
             A: begin
             A: set work_mem to '6MB'
             A vanishes
             B: show work_mem
             A: show work_mem",
        ),
    ];
    check("implicit", "", &scripts)
}
