//! Prepared statements against a real server: sharing between clients, effects of DDL and silent losses, and names.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::frontend::bind;
use weir_conformance::frontend::close;
use weir_conformance::frontend::describe;
use weir_conformance::frontend::execute;
use weir_conformance::frontend::parse;
use weir_conformance::frontend::query;
use weir_conformance::frontend::sync;

/// Messages followed by a Sync.
fn batch(messages: &[Vec<u8>]) -> Vec<u8> {
    [messages.concat(), sync()].concat()
}

fn run(name: &str) -> Vec<u8> {
    batch(&[bind("", name, &[]), describe(b'P', ""), execute("", 0)])
}

/// Answer of a client in one line: tags, columns, rows and errors.
fn hear(client: &mut Raw, bytes: &[u8]) -> Result<String> {
    let mut heard = Vec::new();
    for message in client.ask(bytes)? {
        heard.push(match message.tag {
            b'T' => format!("T({})", message.column_names()?.join(",")),
            b'D' => format!("D({:?})", message.row()?).replace("Some", ""),
            b'E' => format!("E({})", message.error()),
            b'S' => continue,
            b'Z' => format!("Z{}", char::from(message.body[0])),
            tag => char::from(tag).to_string(),
        });
    }
    Ok(heard.join(" "))
}

struct World {
    postgres: std::sync::Arc<Postgres>,
    target: Target,
    database: &'static str,
}

impl World {
    fn new(database: &'static str, pool_size: u32, schema: &str) -> Result<Self> {
        let postgres = Postgres::shared()?;
        postgres.create_database(database)?;
        Raw::connect(postgres.port(), database)?.query(schema)?;
        let options = PoolOptions::default().pool_size(pool_size);
        let target = Target::start(&postgres, &options)?;
        Ok(Self {
            postgres,
            target,
            database,
        })
    }

    fn client(&self, parameters: &[(&str, &str)]) -> Result<Raw> {
        let own = [("user", "postgres"), ("database", self.database)];
        let all: Vec<_> = own.iter().chain(parameters).copied().collect();
        Raw::connect_with(self.target.port(), &all)
    }

    /// Runs a client's steps through the target and directly: the answers must be equal.
    fn same(&self, steps: &[Vec<u8>]) -> Result<()> {
        let mut direct = Raw::connect(self.postgres.port(), self.database)?;
        let mut through = self.client(&[])?;
        for (at, step) in steps.iter().enumerate() {
            let (wanted, got) = (hear(&mut direct, step)?, hear(&mut through, step)?);
            ensure!(got == wanted, "step {at}: {got:?} instead of {wanted:?}");
        }
        Ok(())
    }
}

#[test]
fn cor_15_the_same_text_means_another_table_under_another_search_path() -> Result<()> {
    let schema = "create schema one; create schema two; \
        create table one.place as select 1 as a; create table two.place as select 'x' as b, 2 as c";
    let world = World::new("prepared_paths", 1, schema)?;
    let mut one = world.client(&[("options", "-c search_path=one")])?;
    let mut two = world.client(&[("options", "-c search_path=two")])?;
    let prepare = batch(&[parse("s", "select * from place", &[])]);
    for _ in 0..3 {
        for (client, rows) in [
            (&mut one, r#"2 T(a) D([("1")]) C ZI"#),
            (&mut two, r#"2 T(b,c) D([("x"), ("2")]) C ZI"#),
        ] {
            ensure!(hear(client, &prepare)? == "1 ZI");
            let heard = hear(client, &run("s"))?;
            ensure!(heard == rows, "{heard:?}");
            ensure!(hear(client, &batch(&[close(b'S', "s")]))? == "3 ZI");
        }
    }
    Ok(())
}

#[test]
fn cor_16_after_ddl_one_retry_is_enough_on_every_server() -> Result<()> {
    let world = World::new("prepared_ddl", 2, "create table place as select 1 as a")?;
    let mut client = world.client(&[])?;
    let mut other = world.client(&[])?;
    hear(
        &mut client,
        &batch(&[parse("s", "select * from place", &[])]),
    )?;
    // Both servers have the statement.
    ensure!(hear(&mut client, &run("s"))?.contains("T(a)"));
    hear(&mut other, &query("begin"))?;
    ensure!(hear(&mut client, &run("s"))?.contains("T(a)"));
    hear(&mut other, &query("commit"))?;
    Raw::connect(world.postgres.port(), world.database)?
        .query("alter table place add column b int default 2")?;
    let failed = hear(&mut client, &run("s"))?;
    ensure!(
        failed == "E(ERROR 0A000 cached plan must not change result type) ZI",
        "{failed:?}"
    );
    // As a driver does: closes it and prepares it again under another name.
    let again = batch(&[
        close(b'S', "s"),
        parse("t", "select * from place", &[]),
        describe(b'S', "t"),
    ]);
    for with_other in [false, true] {
        if with_other {
            hear(&mut other, &query("begin"))?;
        }
        let heard = hear(&mut client, &again)?;
        ensure!(heard == "3 1 t T(a,b) ZI", "{heard:?}");
        let heard = hear(&mut client, &run("t"))?;
        ensure!(heard == r#"2 T(a,b) D([("1"), ("2")]) C ZI"#, "{heard:?}");
        hear(&mut client, &batch(&[close(b'S', "t")]))?;
    }
    Ok(())
}

#[test]
fn cor_16_what_a_function_deallocates_is_there_again_after_one_error() -> Result<()> {
    let schema = "create function lose() returns void language plpgsql as \
        $$ begin execute 'deallocate all'; end $$";
    let world = World::new("prepared_loss", 1, schema)?;
    let mut client = world.client(&[])?;
    let both = batch(&[parse("s", "select 1", &[]), parse("t", "select 2", &[])]);
    hear(&mut client, &both)?;
    world.client(&[])?.query("select lose()")?;
    let heard = hear(&mut client, &run("s"))?;
    ensure!(
        heard == r#"E(ERROR 26000 prepared statement "s" does not exist) ZI"#
            || heard.contains("D("),
        "{heard:?}"
    );
    for name in ["s", "t", "s"] {
        let heard = hear(&mut client, &run(name))?;
        ensure!(heard.ends_with("C ZI"), "{heard:?}");
    }
    Ok(())
}

#[test]
fn cor_14_names_go_as_they_go_directly() -> Result<()> {
    let world = World::new("prepared_names", 2, "select 1")?;
    let deallocate = |name: &str| {
        let text = format!("DEALLOCATE {name}");
        batch(&[parse("", &text, &[]), bind("", "", &[]), execute("", 0)])
    };
    world.same(&[
        batch(&[parse("a", "select 1", &[]), parse("b", "select 2", &[])]),
        batch(&[parse("a", "select 3", &[])]),
        deallocate("a"),
        run("a"),
        deallocate("a"),
        deallocate("never"),
        batch(&[parse("a", "select 3", &[])]),
        run("a"),
        query("deallocate a"),
        query("deallocate a"),
        query("discard plans"),
        run("b"),
        batch(&[close(b'S', "a"), close(b'S', "never"), close(b'P', "b")]),
        run("b"),
        query("deallocate all"),
        run("b"),
        batch(&[parse("b", "select 4", &[])]),
        query("discard all"),
        run("b"),
        batch(&[parse("b", "select 4", &[])]),
        // A portal of the same name is independent.
        batch(&[
            bind("b", "b", &[]),
            close(b'S', "b"),
            describe(b'P', "b"),
            execute("b", 0),
            close(b'P', "b"),
            execute("b", 0),
        ]),
        run("b"),
    ])
}

#[test]
fn cor_09_what_a_batch_does_to_names_waits_for_the_one_before_it() -> Result<()> {
    let world = World::new("prepared_pipelines", 2, "select 1")?;
    let mut direct = Raw::connect(world.postgres.port(), world.database)?;
    let mut through = world.client(&[])?;
    let broken = || bind("", "never", &[]);
    let pipelines = [
        [
            batch(&[parse("a", "select 1", &[])]),
            batch(&[broken(), close(b'S', "a")]),
            run("a"),
        ],
        [
            batch(&[broken(), parse("b", "select 2", &[])]),
            batch(&[parse("b", "select 3", &[])]),
            run("b"),
        ],
        [
            query("deallocate a"),
            batch(&[parse("a", "select 4", &[])]),
            run("a"),
        ],
        [
            query("deallocate all"),
            batch(&[parse("b", "select 5", &[])]),
            run("b"),
        ],
        [
            batch(&[parse("", "select 6", &[])]),
            batch(&[broken(), parse("", "select 7", &[])]),
            run(""),
        ],
        [
            batch(&[describe(b'P', "x"), query("select 8")]),
            run(""),
            run("b"),
        ],
    ];
    for (at, pipeline) in pipelines.iter().enumerate() {
        let mut heard = Vec::new();
        for client in [&mut direct, &mut through] {
            client.send(&pipeline.concat())?;
            let mut wires = Vec::new();
            for _ in pipeline {
                for message in client.read_until_ready()? {
                    wires.push((message.tag, message.body));
                }
            }
            heard.push(wires);
        }
        ensure!(heard[0] == heard[1], "pipeline {at}: {heard:?}");
    }
    Ok(())
}

#[test]
fn cor_16_a_row_is_never_read_by_an_old_description() -> Result<()> {
    let world = World::new("prepared_told", 2, "create table place as select 1 as a")?;
    let mut client = world.client(&[])?;
    let prepare = batch(&[parse("s", "select * from place", &[]), describe(b'S', "s")]);
    // One server is in use at the Parse, the other at the execution, so that the second one prepares it after the
    // change.
    let (mut first, mut other) = (world.client(&[])?, world.client(&[])?);
    hear(&mut first, &query("begin"))?;
    ensure!(hear(&mut client, &prepare)? == "1 t T(a) ZI");
    hear(&mut other, &query("begin"))?;
    hear(&mut first, &query("commit"))?;
    Raw::connect(world.postgres.port(), world.database)?
        .query("alter table place add column b int default 2")?;
    let heard = hear(&mut client, &batch(&[bind("", "s", &[]), execute("", 0)]))?;
    ensure!(
        heard == "E(ERROR 0A000 cached plan must not change result type) ZI",
        "{heard:?}"
    );
    // The server that had the old version does not return it either, and new clients get the new description.
    hear(&mut other, &query("commit"))?;
    let heard = hear(&mut other, &prepare)?;
    ensure!(heard == "1 t T(a,b) ZI", "{heard:?}");
    let heard = hear(&mut other, &run("s"))?;
    ensure!(heard == r#"2 T(a,b) D([("1"), ("2")]) C ZI"#, "{heard:?}");
    Ok(())
}

#[test]
fn cor_15_what_set_local_plans_is_for_nobody_else() -> Result<()> {
    let schema = "create schema one; create table one.place as select 1 as a; \
        create table public.place as select 'x' as b, 2 as c";
    let world = World::new("prepared_local", 1, schema)?;
    let sets = [
        "set local search_path = one",
        "select set_config('search_path', 'one', true)",
    ];
    for set in sets {
        let mut local = world.client(&[])?;
        hear(&mut local, &query("begin"))?;
        hear(&mut local, &query(set))?;
        let place = format!("select * from place /* {set} */");
        ensure!(hear(&mut local, &batch(&[parse("s", &place, &[])]))? == "1 ZT");
        let heard = hear(&mut local, &run("s"))?;
        ensure!(heard == r#"2 T(a) D([("1")]) C ZT"#, "{set}: {heard:?}");
        hear(&mut local, &query("commit"))?;
        // One of these clients is on the same worker.
        let mut others = [world.client(&[])?, world.client(&[])?];
        for other in &mut others {
            let prepare = batch(&[parse("s", &place, &[]), describe(b'S', "s")]);
            let heard = hear(other, &prepare)?;
            ensure!(heard == "1 t T(b,c) ZI", "{set}: {heard:?}");
        }
    }
    Ok(())
}

#[test]
fn a_description_of_more_parameters_than_its_count_can_say_is_passed_on() -> Result<()> {
    let world = World::new("many_parameters", 1, "create table none ()")?;
    let mut direct = Raw::connect(world.postgres.port(), "many_parameters")?;
    let mut pooled = Raw::connect(world.target.port(), "many_parameters")?;
    // PostgreSQL's count has 16 bits, but its list of types has no limit.
    for count in [65_535, 65_536, 65_537, 100_000] {
        let all: Vec<_> = (1..=count).map(|at| format!("${at}::int")).collect();
        let text = format!("select array[{}]", all.join(","));
        let asked = batch(&[parse("", &text, &[]), describe(b'S', "")]);
        let mut heard = Vec::new();
        for client in [&mut direct, &mut pooled] {
            let answer = client.ask(&asked)?;
            heard.push(answer.iter().map(|one| one.wire()).collect::<Vec<_>>());
        }
        ensure!(heard[0] == heard[1], "{count} parameters");
        let longest = heard[0].iter().map(Vec::len).max().unwrap_or_default();
        ensure!(longest == 7 + 4 * count, "{longest} bytes for {count}");
    }
    ensure!(pooled.query_one("select 'on'")? == "on");
    Ok(())
}

#[test]
fn names_of_any_length_work_as_they_do_directly() -> Result<()> {
    let world = World::new("long_names", 1, "create table none ()")?;
    let mut direct = Raw::connect(world.postgres.port(), "long_names")?;
    let mut pooled = Raw::connect(world.target.port(), "long_names")?;
    for length in [9_000, 10_001, 20_000, 40_000, 900_000] {
        let (name, portal) = (
            format!("s{length}_{}", "n".repeat(length)),
            "p".repeat(length),
        );
        let again = format!("{}another end", &name[..63]);
        let batches = [
            batch(&[
                parse(&name, "select 'mine'", &[]),
                bind(&portal, &name, &[]),
                execute(&portal[..63], 0),
            ]),
            // PostgreSQL compares 63 bytes.
            run(&again),
            run(&name),
        ];
        for asked in &batches {
            let (wanted, heard) = (hear(&mut direct, asked)?, hear(&mut pooled, asked)?);
            ensure!(wanted == heard, "{length}: {wanted} directly, {heard}");
        }
        let twice = hear(&mut pooled, &batch(&[parse(&name, "select 'twice'", &[])]))?;
        ensure!(twice.starts_with("E(ERROR 42P05"), "{length}: {twice}");
    }
    Ok(())
}
