//! `sequence_values`: results of `lastval()` and `currval()` in a later transaction, and the servers they cost.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;

use crate::support::Server;
use crate::support::answer;
use crate::support::clients;

const TABLE: &str = "create table made (id serial, client int)";
const READ: &str = "select lastval()";

/// Starts a Weir with pools of `size` servers, and creates the table.
fn start(server: &Server, values: &str, size: usize) -> Result<Weir> {
    Raw::connect(server.postgres.port(), server.database)?.query(TABLE)?;
    let config = server.config().set("sequence_values", values);
    Weir::start(&config.set("default_pool_size", &size.to_string()))
}

fn insert(client: &mut Raw, number: usize) -> Result<()> {
    let sql = format!("insert into made (client) values ({number})");
    client.query(&sql).map(drop)
}

/// Returns the value, or the error.
fn read(client: &mut Raw, bytes: &[u8]) -> Result<String> {
    let messages = client.ask(bytes)?;
    let error = messages.iter().find(|message| message.tag == b'E');
    let row = messages.iter().find(|message| message.tag == b'D');
    Ok(match (error, row) {
        (Some(error), _) => error.error(),
        (None, Some(row)) => row.row()?.into_iter().flatten().collect(),
        (None, None) => String::new(),
    })
}

fn pins(weir: &Weir) -> Result<usize> {
    Ok(weir.connect("pgbouncer")?.query("show pins")?.len())
}

/// Batches of the extended protocol, unprepared and with a statement that is prepared first.
fn batches(sql: &str) -> [Vec<u8>; 3] {
    let extended = |name: &str| {
        let mut bytes = frontend::parse(name, sql, &[]);
        bytes.extend(frontend::bind("", name, &[]));
        bytes.extend(frontend::execute("", 0));
        bytes.extend(frontend::sync());
        bytes
    };
    [frontend::query(sql), extended(""), extended("reads")]
}

#[test]
fn sequence_values_learn_may_lose_the_first_read_of_an_application_and_no_other() -> Result<()> {
    let server = Server::new("op_learn")?;
    let mut weir = start(&server, "learn", 1)?;
    let mut both = clients(&weir, "op_learn", 2)?;
    let (ann, ben) = both.split_at_mut(1);
    let (ann, ben) = (&mut ann[0], &mut ben[0]);
    insert(ann, 1)?;
    // Ben gets the server at the end of Ann's trial, which no later read of Ann can undo.
    ben.query("select 1")?;
    let lost = read(ann, &frontend::query(READ))?;
    ensure!(lost.contains("55000"), "{lost}");
    for value in ["2", "3"] {
        insert(ann, 1)?;
        ensure!(read(ann, &frontend::query(READ))? == value);
        ensure!(pins(&weir)? == 1);
    }
    ann.query("discard sequences")?;
    // Ben's first read is no longer the application's first.
    insert(ben, 2)?;
    ensure!(pins(&weir)? == 1);
    ensure!(read(ben, &frontend::query(READ))? == "4");
    weir.check_healthy()
}

#[test]
fn sequence_values_pin_loses_no_value() -> Result<()> {
    let server = Server::new("op_pin")?;
    let mut weir = start(&server, "pin", 2)?;
    let mut all = clients(&weir, "op_pin", 3)?;
    let (holders, third) = all.split_at_mut(2);
    let third = &mut third[0];
    // Other clients use both servers before and in between.
    third.query("select 1")?;
    insert(&mut holders[0], 0)?;
    for client in [&mut *third, &mut holders[1]] {
        client.query("select 1")?;
    }
    insert(&mut holders[1], 1)?;
    ensure!(pins(&weir)? == 2);
    third.send(&frontend::query("select 1"))?;
    weir.wait_pool("op_pin", "cl_waiting", 1)?;
    for (number, holder) in holders.iter_mut().enumerate() {
        let own = format!("select max(id) from made where client = {number}");
        for bytes in batches(READ) {
            holder.query("select 1")?;
            let wanted = holder.query_one(&own)?;
            let found = read(holder, &bytes)?;
            ensure!(found == wanted, "client {number}: {found}, not {wanted}");
            insert(holder, number)?;
            holder.query("deallocate all")?;
        }
    }
    holders[0].query("discard sequences")?;
    answer(third)?;
    ensure!(pins(&weir)? == 1);
    weir.check_healthy()
}

#[test]
fn sequence_values_refuse_says_so_at_once_and_keeps_no_server() -> Result<()> {
    let server = Server::new("op_refuse")?;
    let mut weir = start(&server, "refuse", 1)?;
    let mut both = clients(&weir, "op_refuse", 2)?;
    let (ann, ben) = both.split_at_mut(1);
    let (ann, ben) = (&mut ann[0], &mut ben[0]);
    let text = "ERROR 0A000 lastval() and currval() are refused (sequence_values); use INSERT ... RETURNING";
    for sql in [READ, "select currval('made_id_seq')"] {
        for bytes in batches(sql) {
            insert(ann, 1)?;
            let heard = read(ann, &bytes)?;
            ensure!(heard == text, "{heard}");
            ben.query("select 1")?;
            ensure!(pins(&weir)? == 0);
            ann.query("deallocate all")?;
        }
    }
    // The error fails the transaction, as any error does.
    ann.query("begin")?;
    insert(ann, 1)?;
    ensure!(read(ann, &frontend::query(READ))? == text);
    ensure!(read(ann, &frontend::query("select 1"))?.contains("25P02"));
    ann.query("rollback")?;
    // Statements that need no memory work.
    ensure!(
        !ann.query_one("insert into made (client) values (1) returning id")?
            .is_empty()
    );
    ensure!(!ann.query_one("select nextval('made_id_seq')")?.is_empty());
    ensure!(weir.pool_number("op_refuse", "sv_active")? == 0);
    weir.check_healthy()
}
