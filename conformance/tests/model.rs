//! The model of a PostgreSQL session against PostgreSQL: generated programs get the same replies from both.
//!
//! Masked are process ids in notifications, table and column numbers in row descriptions, and the fields of errors
//! and notices other than severity, code and text. `WEIR_MODEL_SEED=n` runs one seed, `WEIR_MODEL_SEEDS=n` the given
//! number.

use std::env;

use anyhow::Context;
use anyhow::Result;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::raw::Message;
use weir_testkit::backend::Backend;
use weir_testkit::backend::Database;
use weir_testkit::cuts::Dice;
use weir_testkit::program::Speaker;
use weir_testkit::program::Step;
use weir_testkit::program::TOPICS;
use weir_testkit::reading::messages;
use weir_testkit::say::Say;
use weir_testkit::say::say;

/// Steps of one session.
const STEPS: usize = 60;

#[test]
fn the_model_answers_as_postgresql_does() -> Result<()> {
    let postgres = Postgres::start(&weir_conformance::postgres::Options::default())?;
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    raw.query("ALTER SYSTEM SET timezone TO 'UTC'")?;
    raw.query("SELECT pg_reload_conf()")?;
    raw.query(Speaker::SCHEMA)?;
    let number = |name: &str| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let all = 0..number("WEIR_MODEL_SEEDS").unwrap_or(150);
    let range = number("WEIR_MODEL_SEED").map_or(all, |seed| seed..seed + 1);
    let mut differences = Vec::new();
    for seed in range {
        let own = usize::try_from(seed)?;
        raw.query(&Speaker::schema(own))?;
        if let Err(difference) = compare(postgres.port(), seed) {
            differences.push(format!("=== WEIR_MODEL_SEED={seed}\n{difference:#}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

/// Covers statements of the simulator's clients, while other clients change the tables and views that the statements
/// were resolved to.
#[test]
fn the_model_resolves_types_and_names_as_postgresql_does() -> Result<()> {
    let postgres = Postgres::start(&weir_conformance::postgres::Options::default())?;
    let mut admin = Raw::connect(postgres.port(), "postgres")?;
    admin.query(
        "CREATE ROLE ann SUPERUSER LOGIN; CREATE SCHEMA ann AUTHORIZATION ann; \
         CREATE TABLE public.kind_0 (v integer); CREATE VIEW public.spot AS SELECT 'public'::text AS name",
    )?;
    let database = Database::default();
    let parameters = [("user", "ann"), ("database", "postgres")];
    let mut models = [(); 2].map(|()| Backend::open(&database, "ann", &[]));
    let mut reals = [
        Raw::connect_with(postgres.port(), &parameters)?,
        Raw::connect_with(postgres.port(), &parameters)?,
    ];
    for (at, (who, bytes)) in changes().into_iter().enumerate() {
        let step = Step {
            bytes,
            text: String::new(),
            waits: true,
        };
        let expected = converse(&mut models[who], &step);
        let actual = ask(&mut reals[who], &step, &expected)?;
        assert_eq!(actual, expected, "step {at} of session {who}");
    }
    Ok(())
}

/// Steps of two sessions, in order.
fn changes() -> Vec<(usize, Say)> {
    let insert = "INSERT INTO public.kind_0 VALUES ($1)";
    let returning = "INSERT INTO public.kind_0 VALUES ($1) RETURNING pg_typeof($1)::text";
    let spot = "SELECT name FROM spot";
    let view = "CREATE VIEW ann.spot AS SELECT 'ann'::text AS name";
    let runs = |name, value| {
        let said = say().describe_statement(name).bind_value("", name, value);
        said.execute("", 0).sync()
    };
    let mut steps = vec![
        (0, say().parse("a", insert).parse("b", returning).sync()),
        (0, say().bind("", "a").sync()),
        (0, say().query(insert)),
    ];
    for name in ["bigint", "numeric", "double precision", "integer", "bigint"] {
        let sql = format!("ALTER TABLE public.kind_0 ALTER COLUMN v TYPE {name}");
        let new = say().close_statement("c").parse("c", returning).sync();
        steps.push((1, say().query(&sql)));
        steps.extend(["a", "b"].map(|name| (0, runs(name, "1"))));
        steps.extend([(0, new), (0, runs("c", "2")), (0, runs("c", "x"))]);
        steps.push((0, runs("a", "x")));
    }
    let both = |said: Say| [(0, said.clone()), (1, said)];
    let finds = |name: &str| say().describe_statement(name).run(name).sync();
    steps.extend(both(say().parse("d", spot).run("d").sync()));
    steps.extend([
        (1, say().query("BEGIN").query(view).query(spot)),
        (1, say().parse("e", spot).run("e").sync()),
        (0, say().parse("f", spot).run("f").sync()),
        (1, say().query("COMMIT").query(view)),
    ]);
    steps.extend(both(finds("d")));
    steps.extend([(1, finds("e")), (0, finds("f"))]);
    steps.extend(both(say().parse("g", spot).run("g").sync()));
    steps.push((0, say().query("BEGIN").query("DROP VIEW ann.spot")));
    steps.push((0, finds("g").query("ROLLBACK")));
    steps.extend(both(finds("g")));
    steps.push((
        0,
        say()
            .query("DROP VIEW ann.spot")
            .query("DROP VIEW ann.spot"),
    ));
    for name in ["d", "g"] {
        steps.extend(both(finds(name)));
    }
    steps
}

/// Compares a session of the model with one of PostgreSQL.
fn compare(port: u16, seed: u64) -> Result<()> {
    let mut dice = Dice::new(seed);
    let startup = startup(&mut dice);
    let startup: Vec<(&str, &str)> = startup;
    let mut model = Backend::open(&Database::default(), "postgres", &startup);
    let mut parameters = vec![("user", "postgres"), ("database", "postgres")];
    parameters.extend(&startup);
    let mut real = Raw::connect_with(port, &parameters)?;
    let mut speaker = Speaker::new(usize::try_from(seed)?, &TOPICS);
    let mut story = vec![format!("start-up: {startup:?}")];
    for _ in 0..STEPS {
        let step = speaker.next(&model, false, &mut dice);
        story.push(step.text.clone());
        let expected = converse(&mut model, &step);
        let actual = ask(&mut real, &step, &expected)
            .with_context(|| format!("{}\n  model: {}", story.join("\n"), expected.join(" ")))?;
        if actual != expected {
            anyhow::bail!(
                "{}\n  model: {}\n   real: {}",
                story.join("\n"),
                expected.join(" "),
                actual.join(" ")
            );
        }
        if model.is_closed() {
            break;
        }
    }
    Ok(())
}

fn startup(dice: &mut Dice) -> Vec<(&'static str, &'static str)> {
    let offered = [
        ("application_name", "at start"),
        ("TimeZone", "MST"),
        ("DateStyle", "SQL, DMY"),
        ("search_path", "two"),
        ("work_mem", "16MB"),
        ("my.a", "at start"),
        ("statement_timeout", "3h"),
    ];
    let chosen = offered.into_iter().filter(|_| dice.below(4) == 0);
    chosen.collect()
}

fn converse(model: &mut Backend, step: &Step) -> Vec<String> {
    let bytes = model.converse(&step.bytes);
    let (found, rest) = messages(&bytes);
    assert!(rest.is_empty(), "half a message");
    let found = found.iter().map(|message| Message {
        tag: message.tag,
        body: message.body.to_vec(),
    });
    found.map(|message| shown(&message)).collect()
}

/// Reads as many messages as the model sent; a final exchange shows if there are more.
fn ask(real: &mut Raw, step: &Step, expected: &[String]) -> Result<Vec<String>> {
    real.send(&step.bytes)?;
    let mut got = Vec::new();
    for expected in expected {
        let message = real
            .read_message()
            .with_context(|| format!("got {}", got.join(" ")))?;
        let shown = shown(&message);
        let ends = message.tag == b'Z' || shown.starts_with("E(FATAL");
        got.push(shown);
        // The messages after a difference may be missing.
        if ends && got.last() != Some(expected) {
            break;
        }
    }
    Ok(got)
}

/// Formats a message without the parts that differ between sessions.
fn shown(message: &Message) -> String {
    let tag = char::from(message.tag);
    match message.tag {
        b'E' | b'N' => format!("{tag}({})", message.error()),
        b'A' => {
            let text = message.body.get(4..).unwrap_or_default();
            format!("A({})", readable(text))
        }
        b'T' => format!("T({})", columns(&message.body)),
        _ if message.body.is_empty() => tag.to_string(),
        _ => format!("{tag}({})", readable(&message.body)),
    }
}

/// Names, type, length, modifier and format of columns, without table and column number.
fn columns(body: &[u8]) -> String {
    let mut shown = Vec::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let name = readable(rest.get(..end).unwrap_or_default());
        let facts = rest.get(end + 7..end + 19).unwrap_or_default();
        shown.push(format!("{name} {facts:?}"));
        rest = rest.get(end + 19..).unwrap_or_default();
    }
    shown.join(", ")
}

fn readable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
