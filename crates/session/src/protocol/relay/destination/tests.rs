//! Tests of where batches may run, as drivers send them.

use std::sync::Arc;

use weir_sql::{Functions, Names as Lists, Pattern};
use weir_testkit::say::{Say, say};

use super::*;
use crate::client::Parsed;
use crate::relay::STREAM_MIN;
use crate::settings::Settings;
use crate::statement::Registry;

/// A client with what it has prepared in earlier batches, and the judge of its pool.
struct World {
    client: Client,
    judge: Judge,
    registry: Registry,
}

fn world() -> World {
    World {
        client: Client::default(),
        judge: Judge::new(Functions::default()),
        registry: Registry::new(0, 1),
    }
}

impl World {
    fn prepared(mut self, name: &str, text: &str) -> Self {
        let body = [text.as_bytes(), &[0, 0, 0]].concat();
        if name.is_empty() {
            let serial = self.registry.serial();
            self.client.unnamed().define(serial, &body, None);
            self.client.unnamed().confirm();
            return self;
        }
        let context = (self.registry).context(&Settings::default(), &Arc::default());
        let statement = self.registry.intern(&context, &body);
        let name = name.as_bytes().into();
        self.client
            .remember(name, Some(statement), Parsed::Deferred);
        self
    }

    fn of(&mut self, input: &[u8]) -> Destination {
        destination(&Batch::scan(input), &self.client, &mut self.judge)
    }

    #[track_caller]
    fn reads(&mut self, input: &Say) {
        let found = self.of(input);
        assert!(found.access.is_read(), "{found:?}");
        assert!(found.is_plain && found.is_complete, "{found:?}");
    }

    #[track_caller]
    fn primary(&mut self, input: &Say, expected: &Cause) {
        let found = self.of(input);
        assert_eq!(*found.access, Access::Primary(expected.clone()));
        assert!(!found.is_plain, "{found:?}");
    }
}

fn statement(kind: &'static str) -> Cause {
    Cause::Statement(kind.into())
}

#[test]
fn a_query_is_judged_by_its_text() {
    let mut world = world();
    world.reads(&say().query("SELECT a FROM t"));
    world.reads(&say().query("SELECT 1; TABLE t"));
    world.primary(&say().query("UPDATE t SET a = 1"), &statement("UPDATE"));
    world.primary(&say().query("SELECT 1; COMMIT"), &Cause::Mixed);
    let found = world.of(&say().query("SELECT 1").query("UPDATE t SET a = 1"));
    assert!(found.access.is_read(), "the second is another batch");
    for text in ["SET a.b = 1", "DEALLOCATE ALL", "DISCARD ALL", "COMMIT", ""] {
        let found = world.of(&say().query(text));
        assert_eq!(*found.access, Access::Anywhere, "{text}");
        assert!(found.is_complete && !found.is_plain, "{text}");
    }
}

#[test]
fn batches_as_drivers_send_them_read() {
    let mut world = world();
    let parse = |name| say().parse(name, "SELECT a FROM t WHERE b = $1");
    // libpq, JDBC, pgx; then with a name, as npgsql prepares.
    world.reads(
        &parse("")
            .bind_value("", "", "1")
            .describe_portal("")
            .execute("", 0)
            .sync(),
    );
    world.reads(
        &parse("s")
            .describe_statement("s")
            .bind("", "s")
            .execute("", 0)
            .sync(),
    );
    world.reads(&parse("s").describe_statement("s").sync());
    world.reads(
        &parse("")
            .bind("p", "")
            .execute("p", 10)
            .close_portal("p")
            .sync(),
    );
    world.reads(&parse("s").run("s").run("s").flush().run("s").sync());
    world.reads(&parse("s").run("s").close_statement("s").sync());
}

#[test]
fn one_statement_that_writes_decides_for_its_batch() {
    let mut world = world()
        .prepared("r", "SELECT 1")
        .prepared("w", "DELETE FROM t");
    let delete = statement("DELETE");
    world.primary(&say().parse("", "DELETE FROM t").run("").sync(), &delete);
    world.primary(&say().run("r").run("w").sync(), &delete);
    world.primary(&say().run("r").describe_statement("w").sync(), &delete);
    world.primary(&say().run("r").query("DELETE FROM t"), &delete);
    world.primary(
        &say()
            .parse("s", "SELECT 1")
            .run("s")
            .parse("", "DELETE FROM t")
            .sync(),
        &delete,
    );
    let found = world.of(&say().run("r").run("w").sync().query("SELECT 1"));
    assert!(found.is_complete, "whatever is known before the end");
}

#[test]
fn a_prepared_statement_has_its_verdict_with_it() {
    let mut world = world()
        .prepared("r", "SELECT a FROM t")
        .prepared("w", "INSERT INTO t VALUES (1)")
        .prepared("", "TABLE t");
    world.reads(&say().run("r").sync());
    world.reads(
        &say()
            .bind_value("", "r", "x")
            .describe_portal("")
            .execute("", 0)
            .sync(),
    );
    world.reads(&say().run("").sync());
    world.reads(&say().describe_statement("").sync());
    world.primary(&say().run("w").sync(), &statement("INSERT"));
    let long = "r".repeat(100);
    let mut world = world.prepared(&long, "SELECT 1");
    world.reads(&say().run(&long).sync());
    let (_, known) = world.client.statement(b"r").unwrap();
    let known = Arc::clone(known.unwrap());
    let first = known.access(&mut world.judge);
    assert!(Arc::ptr_eq(&first, &known.access(&mut world.judge)));
}

#[test]
fn a_verdict_of_another_catalogue_or_list_is_not_used() {
    let mut world = world().prepared("s", "SELECT search(1)");
    let unknown = world.of(&say().run("s").sync());
    assert!(!unknown.access.is_read());
    let list = vec![Pattern::read("search").unwrap()];
    world.judge.set_names(Lists::new(Vec::new(), list.clone()));
    world.reads(&say().run("s").sync());
    world.judge.set_names(Lists::new(list, Vec::new()));
    assert!(!world.of(&say().run("s").sync()).access.is_read());
    world.judge.set_names(Lists::default());
    world.judge.set_catalogue(&Arc::default(), 1);
    assert!(!world.of(&say().run("s").sync()).access.is_read());
}

#[test]
fn names_that_nobody_knows_are_for_the_primary() {
    let mut world = world().prepared("r", "SELECT 1");
    for input in [
        say().run("unknown").sync(),
        say().run("").sync(),
        say().describe_statement("unknown").sync(),
        say().execute("p", 0).sync(),
        say().describe_portal("p").sync(),
        say().bind("p", "r").execute("", 0).sync(),
    ] {
        world.primary(&input, &Cause::Unprepared);
    }
    // Only its server has this one.
    world.client.remember_own(b"own".as_slice().into());
    world.primary(&say().run("own").sync(), &Cause::Unprepared);
    // Too long to be kept.
    world.client.unnamed().define(7, b"", None);
    world.primary(&say().run("").sync(), &Cause::Long);
    world.primary(&say().query("EXECUTE r"), &statement("EXECUTE"));
    world.primary(
        &say().query("PREPARE p AS SELECT 1"),
        &Cause::Session("prepare"),
    );
    world.primary(&say().function_call(3), &Cause::Message);
    world.primary(&say().run("r").function_call(3), &Cause::Message);
    world.primary(&say().run("r").copy_done().sync(), &Cause::Message);
}

#[test]
fn a_batch_defines_a_bounded_number_of_names() {
    let mut world = world();
    let parses = |count: usize| {
        let all = (0..count).fold(say(), |all, number| {
            all.parse(&format!("s{number}"), "TABLE t")
        });
        all.sync()
    };
    world.reads(&parses(NAMES_MAX));
    world.primary(&parses(NAMES_MAX + 1), &Cause::Long);
    let binds = (0..=NAMES_MAX).fold(say().parse("", "TABLE t"), |all, number| {
        all.bind(&format!("p{number}"), "")
    });
    world.primary(&binds.sync(), &Cause::Long);
}

#[test]
fn a_block_tells_its_modes_and_what_follows() {
    let mut world = world().prepared("r", "SELECT 1");
    let begin = |text| say().parse("", text).run("");
    let found = world.of(&begin("BEGIN").sync());
    assert_eq!(*found.access, Access::Begin(Modes::default()));
    assert_eq!((found.block, found.is_plain), (None, false));
    let block = |input: Say| {
        let found = world.of(&input);
        assert_eq!(*found.access, Access::Primary(Cause::Block));
        assert!(!found.is_plain);
        found.block.unwrap()
    };
    let mut block = block;
    let found = block(begin("BEGIN READ ONLY").run("r").run("r").sync());
    assert_eq!(found.modes.read_only, Some(true));
    assert!(found.rest.is_read());
    let found = block(
        begin("BEGIN")
            .run("r")
            .parse("", "DELETE FROM t")
            .run("")
            .sync(),
    );
    assert_eq!(*found.rest, Access::Primary(statement("DELETE")));
    let found = block(
        begin("BEGIN")
            .parse("", "SET LOCAL a.b = 1")
            .run("")
            .run("r")
            .sync(),
    );
    assert!(found.rest.is_read());
    let found = block(begin("BEGIN").run("r").run("unknown").sync());
    assert_eq!(*found.rest, Access::Primary(Cause::Unprepared));
    // A block behind a statement does not begin the batch.
    let found = world.of(&say().run("r").parse("", "BEGIN").run("").sync());
    assert_eq!(
        (&*found.access, found.block),
        (&Access::Primary(Cause::Block), None)
    );
}

#[test]
fn settings_beside_reads_keep_a_batch_from_being_repeated() {
    let mut world = world().prepared("r", "SELECT 1");
    let found = world.of(&say().parse("", "SET a.b = 1").run("").run("r").sync());
    assert!(found.access.is_read() && found.is_complete && !found.is_plain);
    let found = world.of(&say().close_statement("r").sync());
    assert_eq!(*found.access, Access::Anywhere);
    assert!(found.is_complete && !found.is_plain);
}

#[test]
fn an_open_batch_goes_to_a_replica_only_if_all_of_it_reads() {
    let mut world = world().prepared("r", "SELECT 1");
    let open = |world: &mut World, input: &[u8]| {
        let found = world.of(input);
        assert!(!found.is_complete, "{found:?}");
        assert_eq!(found.block, None);
        assert_eq!(found.is_plain, found.access.is_read());
        Access::clone(&found.access)
    };
    for input in [
        // asyncpg
        say().parse("s", "SELECT 1").describe_statement("s").flush(),
        say().run("r"),
        say().run("r").flush().run("r"),
        say().close_statement("x").run("r"),
        // Less than a header of the next message.
        say().run("r").raw(b"S\0\0"),
        // Values on their way.
        say().raw(b"B\0\0\x40\0\0r\0\0\0"),
    ] {
        assert!(open(&mut world, &input).is_read(), "{input:?}");
    }
    let primary = |cause| Access::Primary(cause);
    for (input, cause) in [
        (say().parse("", "BEGIN"), Cause::Open),
        (say().parse("", "BEGIN").run("").run("r"), Cause::Block),
        (say().parse("", "SET a.b = 1").run(""), Cause::Open),
        (say().run("r").parse("", "SET a.b = 1"), Cause::Open),
        (say().flush(), Cause::Open),
        (say().close_statement("r"), Cause::Open),
        (
            say().run("r").parse("", "DELETE FROM t"),
            statement("DELETE"),
        ),
        (say().raw(b"B\0\0\0\x20\0r"), Cause::Open),
        (say().run("r").raw(b"E\0\0\0\x09"), Cause::Open),
        (say().run("r").raw(b"C\0\0\0\x09S"), Cause::Open),
        (say().run("r").raw(b"P\0\0\0\x20\0SELECT 1"), Cause::Long),
        (say().raw(b"Q\0\x10\0\0SELECT 1"), Cause::Long),
        (say(), Cause::Open),
    ] {
        assert_eq!(open(&mut world, &input), primary(cause), "{input:?}");
    }
}

#[test]
fn a_long_batch_that_has_arrived_is_read_to_its_end() {
    let mut world = world()
        .prepared("r", "SELECT 1")
        .prepared("w", "DELETE FROM t");
    let value = "x".repeat(STREAM_MIN);
    world.reads(&say().bind_value("", "r", &value).execute("", 0).sync());
    let input = say()
        .bind_value("", "r", &value)
        .execute("", 0)
        .run("w")
        .sync();
    world.primary(&input, &statement("DELETE"));
    // A Query that is longer than what is parsed, but known by its words.
    world.reads(&say().query(&format!("SELECT '{value}'")));
}

#[test]
fn whatever_part_has_arrived_goes_no_further_than_the_whole() {
    let mut world = world()
        .prepared("r", "SELECT 1")
        .prepared("w", "DELETE FROM t");
    let whole = say().run("r").describe_statement("w").run("w").sync();
    let writes = say().run("r").len();
    for cut in 0..=whole.len() {
        let found = world.of(whole.get(..cut).unwrap());
        // Five bytes of the second statement's first message are seen, but not its name.
        assert!(
            cut < writes + HEADER_LEN || !found.access.is_read(),
            "at {cut}"
        );
        assert_eq!(found.is_complete, cut == whole.len(), "at {cut}");
    }
}

#[test]
fn a_batch_is_a_step_of_a_block_that_has_only_read() {
    let mut world = world()
        .prepared("r", "SELECT 1")
        .prepared("end", "COMMIT")
        .prepared("cursor", "DECLARE c CURSOR FOR SELECT 1");
    let mut step = |input: &Say| {
        let batch = Batch::scan(input);
        let found = destination_with_step(&batch, &world.client, &mut world.judge);
        found.block.map_or(found.step, |block| block.step)
    };
    let portal = |rows| say().parse("", "SELECT 1").bind("", "").execute("", rows);
    for (input, expected) in [
        (say().query("SELECT 1; TABLE t"), Step::Queries),
        (say().run("r").run("r").sync(), Step::Queries),
        (portal(0).sync(), Step::Queries),
        (say().run("end").sync(), Step::Ends),
        (say().parse("", "COMMIT").run("").sync(), Step::Ends),
        // As pgjdbc commits.
        (say().bind("", "end").execute("", 1).sync(), Step::Ends),
        (portal(2).bind("", "end").execute("", 1).sync(), Step::Other),
        (
            say().parse("", "BEGIN").run("").run("r").sync(),
            Step::Queries,
        ),
        // A portal or cursor is left behind.
        (portal(2).sync(), Step::Other),
        (say().bind("p", "r").execute("p", 0).sync(), Step::Other),
        (say().run("cursor").sync(), Step::Other),
        (say().run("r").run("cursor").sync(), Step::Other),
        (say().query("SAVEPOINT s"), Step::Other),
        (
            say()
                .parse("", "BEGIN")
                .run("")
                .parse("", "SET LOCAL a.b = 1")
                .run("")
                .run("r")
                .sync(),
            Step::Other,
        ),
        (say().run("r").run("end").sync(), Step::Other),
    ] {
        assert_eq!(step(&input), expected, "{input:?}");
    }
}
