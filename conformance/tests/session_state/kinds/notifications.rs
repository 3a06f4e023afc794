//! LISTEN and NOTIFY: each client receives the notifications of its channels once, in order, and no
//! other client does (COR-17).

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_two_servers;
use crate::world::check;

#[test]
fn cor_17_a_notification_reaches_who_listens() -> Result<()> {
    let scripts = [
        on_two_servers(
            "to another",
            "A: listen news
             B: notify news, 'first'
             A hears
             B: select pg_notify('news', 'second')
             A hears
             B heard
             A: unlisten news
             B: notify news, 'third'
             A: select 1
             A heard",
        ),
        on_two_servers(
            "to oneself",
            "A: listen news
             A: notify news, 'own'
             A hears
             A: select pg_notify('news', 'own again')
             A hears
             A: begin
             A: notify news, 'in a transaction'
             A heard
             A: select 1
             A heard
             A: commit
             A hears
             A: unlisten *
             A: notify news
             A: select 1
             A heard",
        ),
        on_two_servers(
            "to oneself at once",
            "A: listen news
             A: notify news, 'own'
             A heard
             A: begin
             A: notify news, 'in a transaction'
             A: commit
             A heard
             A: unlisten *",
        ),
        on_two_servers(
            "own is own",
            "A: listen news
             A: notify news, 'own'
             A heard whose
             A: unlisten *",
        ),
        on_two_servers(
            "to all",
            "A: listen news
             B: listen news
             C: notify news, 'for all'
             A hears
             B hears
             C heard
             A: unlisten news
             B: notify news, 'for b'
             B hears
             A: select 1
             A heard
             B: unlisten news",
        ),
        on_two_servers(
            "channels",
            "A: listen one
             A: listen \"Two\"
             B: listen three
             C: notify one
             C: notify \"Two\", 'x'
             C: notify three
             A hears
             A hears
             B hears
             A: unlisten *
             B: unlisten *",
        ),
        on_two_servers(
            "channels are listed",
            "A: listen one
             A: listen \"Two\"
             B: listen three
             A: select * from pg_listening_channels() order by 1
             B: select * from pg_listening_channels() order by 1
             C: select * from pg_listening_channels() order by 1
             A: unlisten *
             B: unlisten *
             A: select * from pg_listening_channels() order by 1",
        ),
        on_two_servers(
            "unlisten behind a long constant",
            &format!(
                "A: listen one
                 A: listen two
                 A: select length('{long}'); unlisten one
                 A: select * from pg_listening_channels() order by 1
                 B: notify one
                 B: notify two
                 A hears
                 A heard
                 A: begin
                 A: select length('{long}'); unlisten *
                 A: commit
                 A: select * from pg_listening_channels() order by 1
                 B: notify two
                 A: select 1
                 A heard",
                long = "x".repeat(300_000)
            ),
        ),
    ];
    check("notify", "", &scripts)
}

#[test]
fn cor_17_listen_and_notify_are_transactional() -> Result<()> {
    let scripts = [
        on_two_servers(
            "listen rolled back",
            "A: begin
             A: listen news
             A: rollback
             B: notify news, 'not heard'
             A: select 1
             A heard
             A: begin
             A: listen news
             A: commit
             B: notify news, 'heard'
             A hears
             A: begin
             A: unlisten news
             A: rollback
             B: notify news, 'still'
             A hears
             A: unlisten news",
        ),
        on_two_servers(
            "notify rolled back",
            "A: listen news
             B: begin
             B: notify news, 'not sent'
             B: rollback
             B: notify news, 'sent'
             A hears
             B: begin
             B: notify news, 'a'
             B: savepoint s
             B: notify news, 'b'
             B: rollback to s
             B: notify news, 'c'
             B: notify news, 'a'
             B: commit
             A hears
             A hears
             A: select 1
             A heard
             A: unlisten news",
        ),
        on_two_servers(
            "held back inside a transaction",
            "A: listen news
             A: begin
             B: notify news, 'meanwhile'
             A: select 1
             A heard
             A: commit
             A hears
             A: discard all
             B: notify news, 'too late'
             A: select 1
             A heard",
        ),
        on_two_servers(
            "left",
            "A: listen news
             A leaves
             B: notify news, 'nobody'
             B: select 1
             C: select 1
             B heard
             C heard
             A: select 1
             A heard",
        ),
        on_two_servers(
            "hidden in a block",
            "A: do $$ begin execute 'listen news'; end $$
             B: notify news, 'heard'
             A hears
             C: select 1
             C heard
             A: unlisten news",
        ),
        on_two_servers(
            "state follows a listener",
            "A: set datestyle to 'German'
             A: listen news
             B: show datestyle
             A: show datestyle
             A: select '2001-02-03'::date
             A: set work_mem to '5MB'
             B: show work_mem
             A: show work_mem
             A: unlisten news
             B: show work_mem
             A: show work_mem",
        ),
    ];
    check("transactional", "", &scripts)
}
