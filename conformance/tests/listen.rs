//! LISTEN and NOTIFY in transaction pooling: clients listen without servers of their own, and receive the
//! notifications that they would receive on a direct connection.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::Weir;
use weir_conformance::drivers;
use weir_conformance::frontend;
use weir_conformance::raw::Message;
use weir_conformance::wait_until;

/// Number of clients that listen at the same time, on two servers.
const LISTENERS: usize = 200;
/// Number of clients that send notifications at the same time.
const SPEAKERS: usize = 10;
const NOTIFIES: usize = 1000;

fn start(database: &str, config: impl FnOnce(Config) -> Config) -> Result<(Arc<Postgres>, Weir)> {
    let postgres = Postgres::shared()?;
    postgres.create_database(database)?;
    let config = config(Config::to(postgres.port()).set("default_pool_size", "2"));
    let weir = Weir::start(&config)?;
    Ok((postgres, weir))
}

/// Channel and payload of a NotificationResponse.
fn told(message: &Message) -> Option<(String, String)> {
    let rest = (message.tag == b'A').then(|| message.body.get(4..))??;
    let mut texts = rest.split(|byte| *byte == 0);
    let mut text = || {
        texts
            .next()
            .map(|text| String::from_utf8_lossy(text).into_owned())
    };
    Some((text()?, text()?))
}

/// Returns the next notification; no other message may come before it.
fn hear(client: &mut Raw) -> Result<(String, String)> {
    let message = client.read_message().context("no notification")?;
    told(&message).with_context(|| format!("not a notification: {message:?}"))
}

/// Runs a query; returns the notifications that arrive with its answer.
fn run(client: &mut Raw, sql: &str) -> Result<Vec<(String, String)>> {
    let answer = client.ask(&frontend::query(sql))?;
    ensure!(!answer.iter().any(|message| message.tag == b'E'), "{sql}");
    Ok(answer.iter().filter_map(told).collect())
}

fn pair(channel: &str, payload: &str) -> (String, String) {
    (channel.to_owned(), payload.to_owned())
}

/// Tags of an answer.
fn tags(messages: &[Message]) -> String {
    messages
        .iter()
        .map(|message| char::from(message.tag))
        .collect()
}

/// Process id of the backend that listens for a database.
fn listener(direct: &mut Raw, database: &str) -> Result<String> {
    direct.query_one(&format!(
        "select pid from pg_stat_activity where datname = '{database}' and (query ~ '^LISTEN' or query = '') \
         order by backend_start desc limit 1"
    ))
}

#[test]
fn two_hundred_clients_hear_ten_thousand_notifications_in_order_on_two_servers() -> Result<()> {
    let (postgres, weir) = start("listen_many", |config| {
        config
            .set("max_client_conn", "500")
            .set("listen_queue_size", "20000")
    })?;
    let subscribers: Vec<_> = (0..LISTENERS)
        .map(|_| {
            let mut client = weir.connect("listen_many")?;
            client.query("listen news")?;
            client.query("listen last")?;
            Ok(client)
        })
        .collect::<Result<_>>()?;
    let port = weir.port();
    let listening: Vec<_> = subscribers
        .into_iter()
        .map(|client| thread::spawn(move || check_hears_all(client)))
        .collect();
    let speaking: Vec<_> = (0..SPEAKERS)
        .map(|speaker| thread::spawn(move || speak(port, speaker)))
        .collect();
    for thread in speaking {
        thread.join().expect("no panic")?;
    }
    let mut direct = Raw::connect(postgres.port(), "listen_many")?;
    let count = "select count(*) from pg_stat_activity where datname = 'listen_many' and pid <> pg_backend_pid()";
    let backends: usize = direct.query_one(count)?.parse()?;
    ensure!(backends <= 3, "{backends} servers for them all");
    direct.query("notify last")?;
    for thread in listening {
        thread.join().expect("no panic")?;
    }
    Ok(())
}

fn speak(port: u16, speaker: usize) -> Result<()> {
    let mut client = Raw::connect(port, "listen_many")?;
    for number in 0..NOTIFIES {
        client.query(&format!("notify news, '{speaker} {number}'"))?;
    }
    Ok(())
}

/// Checks that a client receives all notifications of each sender in order, and no others.
fn check_hears_all(mut client: Raw) -> Result<()> {
    let mut next: BTreeMap<usize, usize> = BTreeMap::new();
    loop {
        let (channel, payload) = hear(&mut client)?;
        if channel == "last" {
            break;
        }
        let (speaker, number) = payload.split_once(' ').context("two numbers")?;
        let expected = next.entry(speaker.parse()?).or_default();
        ensure!(number.parse() == Ok(*expected), "{payload}, not {expected}");
        *expected += 1;
    }
    ensure!(
        next.len() == SPEAKERS && next.values().all(|count| *count == NOTIFIES),
        "{next:?}"
    );
    Ok(())
}

#[test]
fn listening_needs_no_server_and_ends_with_unlisten() -> Result<()> {
    let (_postgres, weir) = start("listen_plain", |config| config)?;
    let mut clients: Vec<_> = (0..5)
        .map(|_| weir.connect("listen_plain"))
        .collect::<Result<_>>()?;
    let (mouth, subscribers) = clients.split_last_mut().context("one")?;
    for client in subscribers.iter_mut() {
        client.query("listen \"Ä channel\"")?;
    }
    mouth.query("notify \"Ä channel\", 'Grüße'")?;
    for client in subscribers.iter_mut() {
        ensure!(hear(client)? == pair("Ä channel", "Grüße"));
    }
    weir.wait_pool("listen_plain", "sv_active", 1)?;
    for client in subscribers.iter_mut() {
        client.query("unlisten *")?;
    }
    mouth.query("notify \"Ä channel\"")?;
    for client in subscribers.iter_mut() {
        ensure!(tags(&client.ask(&frontend::query("select 1"))?) == "TDCZ");
    }
    weir.wait_pool("listen_plain", "sv_active", 0)
}

#[test]
fn a_clients_own_notifications_come_back_in_its_answer_and_as_its_own() -> Result<()> {
    let (_postgres, weir) = start("listen_self", |config| config.set("default_pool_size", "1"))?;
    let (mut client, mut other) = (weir.connect("listen_self")?, weir.connect("listen_self")?);
    client.query("listen a")?;
    for _ in 0..20 {
        // All clients use one server.
        other.query("notify a, 'theirs'")?;
        let answer = client.ask(&frontend::query(
            "begin; notify a, '1'; notify a, '2'; commit",
        ))?;
        // Earlier notifications may arrive at once or with the answer.
        let tags = tags(&answer);
        ensure!(
            tags.ends_with("AAZ") && tags.replace('A', "") == "CCCCZ",
            "{tags}"
        );
        other.query("notify a, 'theirs'")?;
        let mut heard: Vec<_> = answer.into_iter().filter(|m| m.tag == b'A').collect();
        while heard.len() < 4 {
            heard.push(client.read_message()?);
        }
        for (message, payload) in heard.iter().zip(["theirs", "1", "2", "theirs"]) {
            ensure!(told(message) == Some(pair("a", payload)));
            let pid = i32::from_be_bytes(message.body[..4].try_into()?);
            let is_own = pid == client.key.0;
            ensure!(
                pid > 0 && is_own == (payload != "theirs"),
                "{payload}: {pid}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_trigger_that_notifies_is_heard_in_the_answer() -> Result<()> {
    let (_postgres, weir) = start("listen_trigger", |config| config)?;
    let mut client = weir.connect("listen_trigger")?;
    client.query(
        "create table t (i int); \
         create function tell() returns trigger language plpgsql as \
         $$ begin perform pg_notify('a', new.i::text); return new; end $$; \
         create trigger tells after insert on t for each row execute function tell()",
    )?;
    client.query("listen a; listen b")?;
    let told = run(&mut client, "insert into t values (1), (2)")?;
    ensure!(told == [pair("a", "1"), pair("a", "2")], "{told:?}");
    // With a prepared statement, several executions at once.
    let insert = |number: &str| {
        let bind = frontend::bind("", "s", &[Some(number.as_bytes())]);
        [bind, frontend::execute("", 0), frontend::sync()].concat()
    };
    let parse = frontend::parse("s", "insert into t values ($1::text::int)", &[]);
    ensure!(tags(&client.ask(&[parse, frontend::sync()].concat())?) == "1Z");
    client.send(&[insert("3"), insert("4"), insert("5")].concat())?;
    for payload in ["3", "4", "5"] {
        let answer = client.read_until_ready()?;
        ensure!(tags(&answer) == "2CAZ" && self::told(&answer[2]) == Some(pair("a", payload)));
    }
    Ok(())
}

#[test]
fn the_extended_protocol_listens_as_well() -> Result<()> {
    let (_postgres, weir) = start("listen_extended", |config| config)?;
    let mut client = weir.connect("listen_extended")?;
    let batch = [
        frontend::parse("", "LISTEN a", &[]),
        frontend::bind("", "", &[]),
        frontend::describe(b'P', ""),
        frontend::execute("", 0),
        frontend::sync(),
    ]
    .concat();
    ensure!(tags(&client.ask(&batch)?) == "12nCZ");
    // Later messages in the same bytes are answered after it.
    let both = [frontend::query("listen b"), frontend::query("select 1")].concat();
    ensure!(tags(&client.ask(&both)?) == "CZ");
    ensure!(tags(&client.read_until_ready()?) == "TDCZ");
    client.send(&frontend::query("notify a; notify b"))?;
    ensure!(tags(&client.read_until_ready()?) == "CCAAZ");
    weir.wait_pool("listen_extended", "sv_active", 1)
}

#[test]
fn what_is_rolled_back_was_never_asked_for() -> Result<()> {
    let (_postgres, weir) = start("listen_rollback", |config| config)?;
    let (mut one, mut other) = (
        weir.connect("listen_rollback")?,
        weir.connect("listen_rollback")?,
    );
    one.query("listen kept")?;
    for sql in ["begin", "listen a", "unlisten kept", "rollback"] {
        one.query(sql)?;
    }
    ensure!(
        one.ask(&frontend::query("begin; listen a; select 1/0"))?
            .iter()
            .any(|m| m.tag == b'E')
    );
    one.query("rollback")?;
    other.query("notify a, '1'")?;
    other.query("notify kept, '2'")?;
    ensure!(hear(&mut one)? == pair("kept", "2"));
    for sql in ["begin", "listen a", "unlisten kept", "commit"] {
        one.query(sql)?;
    }
    other.query("notify kept, '3'")?;
    other.query("notify a, '4'")?;
    ensure!(hear(&mut one)? == pair("a", "4"));
    Ok(())
}

#[test]
fn a_client_in_a_transaction_hears_when_it_is_over() -> Result<()> {
    let (_postgres, weir) = start("listen_busy", |config| config)?;
    let (mut one, mut other) = (weir.connect("listen_busy")?, weir.connect("listen_busy")?);
    one.query("listen a")?;
    one.query("begin")?;
    other.query("notify a, '1'")?;
    ensure!(tags(&one.ask(&frontend::query("select 1"))?) == "TDCZ");
    let answer = one.ask(&frontend::query("commit"))?;
    ensure!(tags(&answer) == "CAZ" && told(&answer[1]) == Some(pair("a", "1")));
    // A notification sent before a query arrives with its answer, unless it has arrived earlier.
    other.query("notify a, '2'")?;
    let told = run(&mut one, "select 1")?;
    ensure!(told == [pair("a", "2")] || told.is_empty());
    if told.is_empty() {
        hear(&mut one)?;
    }
    Ok(())
}

#[test]
fn thousands_of_notifications_during_a_query_are_delivered_behind_it() -> Result<()> {
    let (postgres, weir) = start("listen_busy", |config| config)?;
    let mut direct = Raw::connect(postgres.port(), "listen_busy")?;
    let (mut busy, mut mouth) = (weir.connect("listen_busy")?, weir.connect("listen_busy")?);
    busy.query("listen a")?;
    direct.query("select pg_advisory_lock(1)")?;
    busy.send(&frontend::query("select pg_advisory_xact_lock(1)"))?;
    let waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
    wait_until("the query that waits", Duration::from_secs(30), || {
        Ok(direct.query_one(waits)? == "1")
    })?;
    // 16 MB in one transaction, with the longest payloads that PostgreSQL accepts.
    mouth
        .query("select pg_notify('a', lpad(n::text, 7999, '0')) from generate_series(1, 2000) n")?;
    direct.query("select pg_advisory_unlock(1)")?;
    let answer = busy.read_until_ready()?;
    let heard: Vec<_> = answer.iter().filter_map(told).collect();
    ensure!(
        heard.len() == 2000,
        "{} came: {}",
        heard.len(),
        tags(&answer)
    );
    for (at, (channel, payload)) in heard.iter().enumerate() {
        let is_next = payload.ends_with(&format!("0{}", at + 1));
        ensure!(channel == "a" && is_next, "{at}: {payload}");
    }
    ensure!(busy.query_one("select 'on'")? == "on");
    Ok(())
}

#[test]
fn one_notification_too_many_ends_the_client_with_an_error() -> Result<()> {
    let (_postgres, weir) = start("listen_full", |config| {
        config.set("listen_queue_size", "10")
    })?;
    let (mut deaf, mut other) = (weir.connect("listen_full")?, weir.connect("listen_full")?);
    let mut subscriber = weir.connect("listen_full")?;
    deaf.query("listen a")?;
    subscriber.query("listen a")?;
    deaf.query("begin")?;
    for number in 0..11 {
        other.query(&format!("notify a, '{number}'"))?;
        ensure!(hear(&mut subscriber)?.1 == number.to_string());
    }
    let error = deaf.read_message()?.error();
    ensure!(
        error.starts_with("FATAL 53400 ") && error.contains("listen_queue_size"),
        "{error}"
    );
    ensure!(deaf.read_to_close()?.is_empty());
    Ok(())
}

#[test]
fn the_end_of_the_listening_server_is_told_in_its_own_words() -> Result<()> {
    let (postgres, weir) = start("listen_killed", |config| config)?;
    let mut direct = Raw::connect(postgres.port(), "postgres")?;
    let mut clients: Vec<_> = (0..3)
        .map(|_| weir.connect("listen_killed"))
        .collect::<Result<_>>()?;
    let mut idle = weir.connect("listen_killed")?;
    for client in &mut clients {
        client.query("listen a")?;
    }
    let pid = listener(&mut direct, "listen_killed")?;
    direct.query(&format!("select pg_terminate_backend({pid})"))?;
    for client in &mut clients {
        let error = client.read_message()?.error();
        ensure!(
            error.starts_with("FATAL 57P01 terminating connection"),
            "{error}"
        );
        ensure!(client.read_to_close()?.is_empty());
    }
    // The next client listens on a new connection.
    idle.query("listen a")?;
    ensure!(run(&mut idle, "notify a, 'x'")? == [pair("a", "x")]);
    Ok(())
}

#[test]
fn databases_hear_only_their_own() -> Result<()> {
    let (postgres, weir) = start("listen_one", |config| config)?;
    postgres.create_database("listen_two")?;
    let (mut one, mut two) = (weir.connect("listen_one")?, weir.connect("listen_two")?);
    one.query("listen a")?;
    two.query("listen a")?;
    ensure!(run(&mut two, "notify a, 'two'")? == [pair("a", "two")]);
    ensure!(run(&mut one, "notify a, 'one'")? == [pair("a", "one")]);
    Ok(())
}

#[test]
fn another_client_encoding_gets_a_server_of_its_own() -> Result<()> {
    let (postgres, weir) = start("listen_latin", |config| config)?;
    let mut direct = Raw::connect(postgres.port(), "listen_latin")?;
    if direct.query_one("show server_encoding")? != "UTF8" {
        // This server does no conversion.
        return Ok(());
    }
    let parameters = [
        ("user", "postgres"),
        ("database", "listen_latin"),
        ("client_encoding", "LATIN1"),
    ];
    let mut latin = Raw::connect_with(weir.port(), &parameters)?;
    latin.query("listen a")?;
    direct.query("notify a, 'ä'")?;
    let message = latin.read_message()?;
    ensure!(message.body.ends_with(b"a\0\xe4\0"), "{message:?}");
    Ok(())
}

#[test]
fn drivers_hear_their_notifications() -> Result<()> {
    let built = drivers::python()?;
    let postgres = Postgres::shared()?;
    postgres.create_database("listen_drivers")?;
    let mut target = Target::start(&postgres, &PoolOptions::default().pool_size(2))?;
    let mut program = Command::new("timeout");
    program.args(["-k", "5", "180"]);
    program
        .arg(built.join("venv/bin/python"))
        .arg(built.join("with_listen.py"));
    drivers::run(&mut program, target.port(), "listen_drivers")?;
    target.check_healthy()
}
