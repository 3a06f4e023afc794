//! Cursors: the ones that outlive their transaction pin.

use anyhow::Result;

use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::script::waiting_for_one_server;
use crate::world::check;

#[test]
fn held_cursors_pin() -> Result<()> {
    let scripts = [
        on_two_servers(
            "with hold",
            "A: declare c cursor with hold for select generate_series(1, 5)
             A pinned: cursor with hold
             B: fetch 1 from c
             A: fetch 2 from c
             B: declare c cursor with hold for select 'of b'
             A: fetch 2 from c
             B: fetch all from c
             A: close c
             A free
             A: fetch 1 from c
             B: fetch backward all from c
             B: close c",
        ),
        on_two_servers(
            "in a transaction",
            "A: begin
             A: declare c scroll cursor with hold for select generate_series(1, 5)
             A: fetch 1 from c
             A: commit
             B: fetch 1 from c
             A: fetch 2 from c
             A: select name, is_holdable from pg_cursors where is_holdable
             B: select count(*) from pg_cursors where is_holdable
             A: close all
             A: fetch 1 from c",
        ),
        on_two_servers(
            "close rolled back",
            "A: declare c cursor with hold for select generate_series(1, 5)
             A: begin
             A: close c
             A: rollback
             A: fetch 1 from c
             B: fetch 1 from c
             A: discard all
             A: fetch 1 from c",
        ),
        on_two_servers(
            "left behind",
            "A: declare c cursor with hold for select generate_series(1, 5)
             A leaves
             B: fetch 1 from c
             C: fetch 1 from c
             A: fetch 1 from c",
        ),
        on_two_servers(
            "by a block",
            "A: do $$ begin execute 'declare c cursor with hold for select 7'; end $$
             B: fetch 1 from c
             A: fetch 1 from c
             A: close c",
        ),
    ];
    check("held", "", &scripts)
}

#[test]
fn cursors_of_a_transaction_do_not_pin() -> Result<()> {
    let scripts = [
        on_one_server(
            "without hold",
            "A: begin
             A: declare c cursor for select generate_series(1, 5)
             A: fetch 2 from c
             A: move 1 from c
             A: fetch 1 from c
             A: commit
             B: fetch 1 from c
             A: fetch 1 from c",
        ),
        on_one_server(
            "with hold, rolled back",
            "A: begin
             A: declare c cursor with hold for select generate_series(1, 5)
             A: rollback
             B: fetch 1 from c
             A: fetch 1 from c",
        ),
        on_one_server(
            "with hold, closed",
            "A: begin
             A: declare c cursor with hold for select generate_series(1, 5)
             A: close c
             A: commit
             B: fetch 1 from c
             A: fetch 1 from c
             A: declare c cursor for select 1
             B: select 1",
        ),
        waiting_for_one_server(
            "closed later",
            "A: declare c cursor with hold for select 1
             B sends: select 'waited'
             A: fetch 1 from c
             A: close c
             B receives",
        ),
        on_one_server(
            "large objects",
            "A: begin
             A: select lo_create(4711)
             A: select lo_open(4711, 131072)
             A: select lowrite(0, 'abc')
             A: commit
             A: select lo_close(0)
             B: select lo_close(0)
             B: select lo_get(4711)
             B: select lo_unlink(4711)",
        ),
    ];
    check("not_held", "", &scripts)
}
