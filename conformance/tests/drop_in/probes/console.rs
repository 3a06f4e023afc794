//! Probes of the console: tables, commands, errors, access.

use anyhow::Result;
use weir_conformance::Raw;
use weir_conformance::frontend;

use super::Probe;
use super::Run::Columns;
use super::Run::Console;
use super::Run::Does;
use super::Run::Table;
use super::bench::Bench;
use super::bench::PATIENCE;
use super::bench::Seen;
use super::bench::login;
use super::bench::rest;
use super::bench::told;
use super::bench::transcript;
use super::differs;
use super::same;
use super::why::CODES;
use super::why::COLUMNS;
use super::why::EMPTY;
use super::why::FDS;
use super::why::LISTED;
use super::why::LOGINS;
use super::why::MEM;
use super::why::MESSAGES;
use super::why::NAMES;
use super::why::NEWEST;
use super::why::PROTOCOL;
use super::why::SET_FAILED;
use super::why::SET_RESTART;

pub(super) const TABLES: &[Probe] = &[
    same("SHOW VERSION", Table("SHOW VERSION")),
    same("SHOW STATS: columns", Columns("SHOW STATS")),
    same("SHOW STATS_TOTALS: columns", Columns("SHOW STATS_TOTALS")),
    same(
        "SHOW STATS_AVERAGES: columns",
        Columns("SHOW STATS_AVERAGES"),
    ),
    same("SHOW TOTALS: columns", Columns("SHOW TOTALS")),
    same("SHOW LISTS: columns", Columns("SHOW LISTS")),
    same("SHOW POOLS: columns", Columns("SHOW POOLS")),
    same("SHOW DATABASES: columns", Columns("SHOW DATABASES")),
    same("SHOW USERS: columns", Columns("SHOW USERS")),
    same("SHOW CLIENTS: columns", Columns("SHOW CLIENTS")),
    same("SHOW SERVERS: columns", Columns("SHOW SERVERS")),
    same("SHOW SOCKETS: columns", Columns("SHOW SOCKETS")),
    same(
        "SHOW ACTIVE_SOCKETS: columns",
        Columns("SHOW ACTIVE_SOCKETS"),
    ),
    same("SHOW MEM: columns", Columns("SHOW MEM")),
    same("SHOW DNS_HOSTS", Table("SHOW DNS_HOSTS")),
    same("SHOW DNS_ZONES", Table("SHOW DNS_ZONES")),
    same("SHOW CONFIG: columns", Columns("SHOW CONFIG")),
    same("SHOW DATABASES: rows, NULLs", Table("SHOW DATABASES")),
    same("SHOW USERS: rows, NULLs", Table("SHOW USERS")),
    same("SHOW CLIENTS: the console's own row", Table("SHOW CLIENTS")),
    same("SHOW POOLS: the console's own row", Table("SHOW POOLS")),
    same(
        "SHOW POOLS, CLIENTS, SERVERS of a transaction",
        Does(in_transaction),
    ),
    same(
        "SHOW POOLS, CLIENTS, SERVERS with idle connections",
        Does(idle),
    ),
    same(
        "SHOW STATS after logins to the console",
        Does(counted_consoles),
    ),
    same("SHOW STATS after statements", Does(counted)),
    same(
        "SHOW TOTALS: names",
        Does(|bench| names(bench, "SHOW TOTALS", 14)),
    ),
    same(
        "SHOW LISTS: names",
        Does(|bench| names(bench, "SHOW LISTS", 12)),
    ),
    differs(
        "SHOW TOTALS: all names",
        Does(|bench| names(bench, "SHOW TOTALS", 99)),
        COLUMNS,
    ),
    differs("SHOW POOLS: all columns", Does(all_columns), COLUMNS),
    differs(
        "SHOW MEM: names",
        Does(|bench| names(bench, "SHOW MEM", 99)),
        MEM,
    ),
    same(
        "SHOW CONFIG: options with their defaults",
        Does(some_options),
    ),
    differs(
        "SHOW CONFIG: keys",
        Does(|bench| names(bench, "SHOW CONFIG", 999)),
        LISTED,
    ),
    differs(
        "SHOW CONFIG: options with other defaults",
        Does(defaults),
        NEWEST,
    ),
    differs("SHOW HELP", Console(&["SHOW HELP"]), LISTED),
    differs("SHOW FDS", Does(handed_over), FDS),
    differs(
        "SHOW STATE, which 1.18 does not have",
        Console(&["SHOW STATE"]),
        NEWEST,
    ),
];

pub(super) const COMMANDS: &[Probe] = &[
    same(
        "unknown command",
        Console(&["nonsense", "SHOW nonsense", "show"]),
    ),
    same(
        "SELECT of an expression",
        Console(&["SELECT 1", "select version()"]),
    ),
    same(
        "SELECT for SHOW, case, white space",
        Console(&["sElEcT  version ;", "\n show version"]),
    ),
    differs("empty query", Console(&[";", ""]), EMPTY),
    same(
        "two commands in a query",
        Console(&["SHOW VERSION; SHOW VERSION"]),
    ),
    same(
        "a name that is too long",
        Console(&[
            "PAUSE \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
        ]),
    ),
    same(
        "PAUSE and RESUME of a database",
        Console(&["PAUSE shop", "RESUME shop"]),
    ),
    same(
        "PAUSE and RESUME of everything",
        Console(&["PAUSE", "RESUME"]),
    ),
    same("PAUSE of an unknown database", Console(&["PAUSE nosuch"])),
    same("PAUSE of the console", Console(&["PAUSE pgbouncer"])),
    same(
        "PAUSE twice",
        Console(&[
            "PAUSE",
            "PAUSE",
            "PAUSE shop",
            "KILL shop",
            "SUSPEND",
            "RESUME",
        ]),
    ),
    same(
        "PAUSE of a database twice",
        Console(&["PAUSE shop", "PAUSE shop", "RESUME shop"]),
    ),
    same(
        "RESUME of what is not paused",
        Console(&["RESUME", "RESUME shop", "RESUME nosuch"]),
    ),
    same(
        "SUSPEND with a paused database",
        Console(&["PAUSE shop", "SUSPEND", "RESUME shop"]),
    ),
    same("SUSPEND and RESUME", Console(&["SUSPEND", "RESUME"])),
    same(
        "DISABLE and ENABLE",
        Console(&["DISABLE shop", "ENABLE shop"]),
    ),
    same(
        "DISABLE and ENABLE without a database",
        Console(&["DISABLE", "ENABLE"]),
    ),
    differs(
        "DISABLE and ENABLE of the console",
        Console(&["DISABLE pgbouncer", "ENABLE pgbouncer"]),
        NEWEST,
    ),
    same(
        "DISABLE and ENABLE of an unknown database",
        Console(&["DISABLE nosuch", "ENABLE nosuch"]),
    ),
    same("KILL and RESUME", Console(&["KILL two", "RESUME two"])),
    same(
        "KILL of an unknown database, of the console",
        Console(&["KILL nosuch", "KILL pgbouncer"]),
    ),
    differs("KILL without a database", Does(kill_all), NEWEST),
    same(
        "RECONNECT and WAIT_CLOSE",
        Console(&[
            "RECONNECT shop",
            "WAIT_CLOSE shop",
            "RECONNECT",
            "WAIT_CLOSE",
        ]),
    ),
    same(
        "RECONNECT of an unknown database, of the console",
        Console(&["RECONNECT nosuch", "RECONNECT pgbouncer"]),
    ),
    same(
        "WAIT_CLOSE of an unknown database, of the console",
        Console(&["WAIT_CLOSE nosuch", "WAIT_CLOSE pgbouncer"]),
    ),
    same("RELOAD", Console(&["RELOAD", "RELOAD shop"])),
    same(
        "SHUTDOWN with an unknown mode",
        Console(&["SHUTDOWN nonsense"]),
    ),
    same("SET: tag, value in SHOW CONFIG", Does(set_and_show)),
    differs(
        "SET to a bad value",
        Console(&["SET default_pool_size = seven"]),
        SET_FAILED,
    ),
    differs(
        "SET of an unknown option",
        Console(&["SET nonsense = 1"]),
        SET_FAILED,
    ),
    differs(
        "SET of an option that needs a restart",
        Console(&["SET listen_port = 7000"]),
        SET_RESTART,
    ),
    same(
        "SET without a value",
        Console(&["SET default_pool_size", "SET default_pool_size ="]),
    ),
    same(
        "SET of parameters of drivers",
        Console(&[
            "SET client_encoding = 'UTF8'",
            "SET datestyle TO 'ISO'",
            "set timezone = GMT",
            "SET standard_conforming_strings = on",
            "SET default_transaction_isolation = 'read committed'",
        ]),
    ),
    same(
        "SHOW of parameters of drivers",
        Console(&[
            "SHOW client_encoding",
            "SHOW datestyle",
            "show TimeZone",
            "SHOW standard_conforming_strings",
            "SHOW default_transaction_isolation",
        ]),
    ),
    differs(
        "SHOW and SET of parameters that 1.18 does not know",
        Console(&[
            "SHOW transaction_read_only",
            "SET extra_float_digits = 2",
            "SET application_name = 'x'",
        ]),
        NAMES,
    ),
    differs(
        "KILL_CLIENT, which 1.18 does not have",
        Console(&["KILL_CLIENT 999999"]),
        NEWEST,
    ),
];

pub(super) const ACCESS: &[Probe] = &[
    same("greeting: ParameterStatus, key", Does(greeting)),
    differs(
        "a user without a right",
        Does(|bench| logged_in(bench, "drop_other")),
        CODES,
    ),
    differs(
        "an unknown user",
        Does(|bench| logged_in(bench, "drop_unknown")),
        LOGINS,
    ),
    same("commands of a user who may only look", Does(looks)),
    same("SHOW FDS of a user who may only look", Does(fds)),
    differs(
        "the name pgbouncer over TCP",
        Does(|bench| logged_in(bench, "pgbouncer")),
        LOGINS,
    ),
    differs("the extended protocol", Does(extended), NAMES),
    differs(
        "a function call",
        Does(|bench| message(bench, b'F', b"\0\0\0\x01\0\0\0\0\0\0")),
        MESSAGES,
    ),
    differs(
        "a message of no known type",
        Does(|bench| message(bench, b'y', b"abcd")),
        PROTOCOL,
    ),
    differs(
        "COPY data",
        Does(|bench| message(bench, b'd', b"abcd")),
        MESSAGES,
    ),
    differs(
        "a password message",
        Does(|bench| message(bench, b'p', b"abcd\0")),
        MESSAGES,
    ),
    same("Terminate", Does(|bench| message(bench, b'X', b""))),
    same(
        "a cancel request for a console that does nothing",
        Does(cancelled),
    ),
    differs("the database weir", Does(weir), NAMES),
];

fn in_transaction(bench: &Bench) -> Result<Seen> {
    connections(bench, &["begin"])
}

fn idle(bench: &Bench) -> Result<Seen> {
    connections(bench, &["begin", "commit"])
}

/// Tables with one client of a fresh pooler that has sent these statements.
fn connections(bench: &Bench, statements: &[&str]) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let startup = [
        ("user", "postgres"),
        ("database", "shop"),
        ("application_name", "drop_app"),
    ];
    let mut client = Raw::connect_with(pooler.port(), &startup)?;
    transcript(&mut client, statements)?;
    let mut console = pooler.connect("pgbouncer")?;
    let mut text = String::new();
    for (table, width) in [
        ("SHOW POOLS", 16),
        ("SHOW CLIENTS", 18),
        ("SHOW SERVERS", 18),
        ("SHOW SOCKETS", 25),
    ] {
        let messages = console.ask(&frontend::query(table))?;
        text += &bench.table_of(&messages, &pooler)?.cut(width);
    }
    Ok(bench.text_of(&text, &pooler))
}

fn counted_consoles(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    for _ in 0..3 {
        pooler.connect("pgbouncer")?.query("SHOW VERSION")?;
    }
    let messages = pooler
        .connect("pgbouncer")?
        .ask(&frontend::query("SHOW STATS"))?;
    Ok(Seen::Table(bench.table_of(&messages, &pooler)?))
}

fn counted(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("shop")?;
    transcript(
        &mut client,
        &[
            "select 1",
            "select repeat('x', 100)",
            "begin",
            "select 2",
            "commit",
        ],
    )?;
    let messages = pooler
        .connect("pgbouncer")?
        .ask(&frontend::query("SHOW STATS"))?;
    Ok(Seen::Table(bench.table_of(&messages, &pooler)?))
}

/// First values of the first rows of a table.
fn names(bench: &Bench, sql: &str, rows_max: usize) -> Result<Seen> {
    let rows = bench.pooler.connect("pgbouncer")?.query(sql)?;
    let names = rows.into_iter().take(rows_max);
    let names = names.map(|row| row.into_iter().next().flatten().unwrap_or_default());
    Ok(bench.text(&names.collect::<Vec<_>>().join("\n")))
}

/// Columns of SHOW FDS, or its error.
fn handed_over(bench: &Bench) -> Result<Seen> {
    let mut console = bench.pooler.connect("pgbouncer")?;
    let messages = console.ask(&frontend::query("SHOW FDS"))?;
    Ok(Seen::Text(told(messages.get(..1).unwrap_or_default())))
}

fn all_columns(bench: &Bench) -> Result<Seen> {
    let messages = bench
        .pooler
        .connect("pgbouncer")?
        .ask(&frontend::query("SHOW POOLS"))?;
    Ok(Seen::Text(told(messages.get(..1).unwrap_or_default())))
}

/// Values and defaults of some options.
fn some_options(bench: &Bench) -> Result<Seen> {
    let rows = bench.pooler.connect("pgbouncer")?.query("SHOW CONFIG")?;
    let wanted = [
        "default_pool_size",
        "max_client_conn",
        "pool_mode",
        "query_wait_timeout",
        "server_lifetime",
        "listen_addr",
        "stats_users",
        "syslog_facility",
        "log_connections",
        "tcp_keepalive",
        "pidfile",
        "auth_type",
    ];
    let rows = rows.into_iter().map(|row| {
        let values = row
            .into_iter()
            .map(|value| value.unwrap_or_else(|| "NULL".to_owned()));
        values.collect::<Vec<_>>()
    });
    let rows = rows.filter(|row| {
        row.first()
            .is_some_and(|key| wanted.contains(&key.as_str()))
    });
    let lines: Vec<_> = rows.map(|row| row.join("|")).collect();
    Ok(bench.text(&lines.join("\n")))
}

/// Options of PgBouncer 1.18 whose value, default or changeability may differ.
fn defaults(bench: &Bench) -> Result<Seen> {
    let rows = bench.pooler.connect("pgbouncer")?.query("SHOW CONFIG")?;
    let known = ["unix_socket_dir", "listen_port", "auth_file", "conffile"];
    let rows = rows.into_iter().map(|row| {
        let values = row
            .into_iter()
            .map(|value| value.unwrap_or_else(|| "NULL".to_owned()));
        values.collect::<Vec<_>>()
    });
    let rows = rows.filter(|row| {
        row.first()
            .is_some_and(|key| !known.contains(&key.as_str()))
    });
    let lines: Vec<_> = rows.map(|row| row.join("|")).collect();
    Ok(bench.text(&lines.join("\n")))
}

fn kill_all(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let text = super::bench::console(&pooler, &["KILL"])?;
    Ok(bench.text_of(&text, &pooler))
}

fn set_and_show(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let mut console = pooler.connect("pgbouncer")?;
    let mut text = transcript(
        &mut console,
        &[
            "SET default_pool_size = 7",
            "SET query_timeout = '1.5'",
            "set log_stats to 0",
        ],
    )?;
    let rows = console.query("SHOW CONFIG")?;
    for row in rows {
        let row: Vec<_> = row.into_iter().map(Option::unwrap_or_default).collect();
        if row.first().is_some_and(|key| {
            ["default_pool_size", "query_timeout", "log_stats"].contains(&key.as_str())
        }) {
            text += &format!("{}\n", row.join("|"));
        }
    }
    Ok(bench.text_of(&text, &pooler))
}

fn greeting(bench: &Bench) -> Result<Seen> {
    logged_in(bench, "postgres")
}

fn logged_in(bench: &Bench, user: &str) -> Result<Seen> {
    let text = login(&bench.pooler, &[("user", user), ("database", "pgbouncer")])?;
    Ok(bench.text(&text))
}

fn looks(bench: &Bench) -> Result<Seen> {
    let mut console = bench.pooler.connect_as("drop_stats", "pgbouncer")?;
    let orders = [
        "SHOW VERSION",
        "PAUSE",
        "RESUME shop",
        "KILL shop",
        "RELOAD",
        "SUSPEND",
        "SHUTDOWN",
        "SET verbose = 1",
        "DISABLE shop",
        "ENABLE shop",
        "RECONNECT",
        "WAIT_CLOSE",
        "SET timezone = GMT",
    ];
    Ok(bench.text(&transcript(&mut console, &orders)?))
}

fn fds(bench: &Bench) -> Result<Seen> {
    let mut console = bench.pooler.connect_as("drop_stats", "pgbouncer")?;
    Ok(bench.text(&transcript(&mut console, &["SHOW FDS"])?))
}

fn extended(bench: &Bench) -> Result<Seen> {
    let mut console = bench.pooler.connect("pgbouncer")?;
    let mut batch = frontend::parse("", "SHOW VERSION", &[]);
    batch.extend(frontend::bind("", "", &[]));
    batch.extend(frontend::execute("", 0));
    batch.extend(frontend::message(b'S', &[]));
    Ok(bench.text(&told(&console.ask(&batch)?)))
}

/// Answer of a console to one message.
fn message(bench: &Bench, tag: u8, body: &[u8]) -> Result<Seen> {
    let mut console = bench.pooler.connect("pgbouncer")?;
    console.stream().set_read_timeout(Some(PATIENCE / 20))?;
    console.send(&frontend::message(tag, body))?;
    Ok(bench.text(&rest(&mut console)))
}

fn cancelled(bench: &Bench) -> Result<Seen> {
    let mut console = bench.pooler.connect("pgbouncer")?;
    console.cancel(bench.pooler.port())?;
    Ok(bench.text(&transcript(&mut console, &["SHOW VERSION"])?))
}

fn weir(bench: &Bench) -> Result<Seen> {
    let text = login(&bench.pooler, &[("user", "postgres"), ("database", "weir")])?;
    Ok(bench.text(&text))
}
