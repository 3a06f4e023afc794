//! A misbehaving client: random requests whose answers it can distinguish from all others'.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::io::Read;
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Kind;
use weir_conformance::Raw;
use weir_conformance::clock;
use weir_conformance::frontend::VERSION_3_0;
use weir_conformance::frontend::bind;
use weir_conformance::frontend::copy_data;
use weir_conformance::frontend::copy_done;
use weir_conformance::frontend::copy_fail;
use weir_conformance::frontend::execute;
use weir_conformance::frontend::flush;
use weir_conformance::frontend::parse;
use weir_conformance::frontend::query;
use weir_conformance::frontend::startup;
use weir_conformance::frontend::sync;
use weir_conformance::random::Random;
use weir_conformance::raw::Message;
use weir_conformance::tls::Dial;

/// Runs before the first client connects.
pub(crate) const SCHEMA: &str = "create database watch";
/// Login of all clients: one user of one database, so one pool.
pub(crate) const LOGIN: [(&str, &str); 2] = [("user", "postgres"), ("database", "postgres")];

/// State of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The connection is idle and usable.
    GoOn,
    /// The client is in the middle of a request and must vanish.
    Vanish,
}

/// A client that connects repeatedly.
#[derive(Debug)]
pub(crate) struct Client {
    port: u16,
    kind: Kind,
    number: u64,
    random: Random,
    sequence: u64,
    counted: u64,
    /// TLS options; `None` for clear text.
    dial: Option<Dial>,
}

impl Client {
    pub(crate) fn new(port: u16, kind: Kind, number: u64, seed: u64, dial: Option<Dial>) -> Self {
        let random = Random::new(seed ^ number.wrapping_mul(0x2545_F491_4F6C_DD1D));
        Self {
            port,
            kind,
            number,
            random,
            sequence: 0,
            counted: 0,
            dial,
        }
    }

    /// Requests since the last call.
    pub(crate) fn take_requests(&mut self) -> u64 {
        std::mem::replace(&mut self.counted, self.sequence).abs_diff(self.sequence)
    }

    /// Number of the last request.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Runs one connection from login to its end.
    pub(crate) fn live_once(&mut self) -> Result<()> {
        if self.random.chance(5) {
            return self.half_login();
        }
        let mut raw = self.tcp()?;
        raw.login(&LOGIN).context("login")?;
        for _ in 0..1 + self.random.below(40) {
            if self.request(&mut raw)? == Then::Vanish {
                return self.vanish(raw);
            }
        }
        match self.random.below(4) {
            0 => raw.terminate(),
            1 => return self.vanish(raw),
            2 => drop(raw),
            _ => {
                // Leaves a transaction open.
                self.begin(&mut raw)?;
                return self.vanish(raw);
            }
        }
        Ok(())
    }

    fn request(&mut self, raw: &mut Raw) -> Result<Then> {
        self.sequence += 1;
        let tag = format!("c{}-s{}", self.number, self.sequence);
        let going_on = match self.random.below(100) {
            0..20 => self.simple(raw, &tag).context("simple"),
            20..35 => self.extended(raw, &tag).context("extended"),
            35..45 => self.pipeline(raw, &tag).context("pipeline"),
            45..60 if self.kind != Kind::PgBouncer => self.named(raw, &tag).context("named"),
            45..68 => self.failing(raw, &tag).context("failing"),
            68..76 => self.transaction(raw, &tag).context("transaction"),
            76..82 => self.copy_out(raw, &tag).context("copy out"),
            82..88 => self.copy_in(raw, &tag).context("copy in"),
            88..91 => self.cancel(raw, &tag).context("cancel"),
            91..94 => return self.half_message(raw, &tag).context("half message"),
            94..97 => return self.half_result(raw, &tag).context("half result"),
            97..99 => return self.half_copy(raw, &tag).context("half copy"),
            _ => {
                return self
                    .cancel_and_vanish(raw, &tag)
                    .context("cancel and vanish");
            }
        };
        going_on.map(|()| Then::GoOn).with_context(|| tag)
    }

    /// Reads one answer; an error of the expected SQLSTATE is accepted, any other is a fault.
    fn answer(&self, raw: &mut Raw, expected: &str) -> Result<Vec<Message>> {
        let messages = raw.read_until_ready()?;
        for message in messages.iter().filter(|message| message.tag == b'E') {
            let state = message.field(b'C').unwrap_or_default();
            ensure!(state == expected, "unexpected error {}", message.error());
        }
        let failed = messages.iter().any(|message| message.tag == b'E');
        ensure!(expected.is_empty() || failed, "{expected} did not come");
        Ok(messages)
    }

    /// Checks that there are `count` rows whose first column is `tag`.
    fn expect_rows(&self, raw: &mut Raw, tag: &str, count: usize) -> Result<()> {
        let messages = self.answer(raw, "")?;
        let mut seen = 0;
        for message in messages.iter().filter(|message| message.tag == b'D') {
            let row = message.row()?;
            let value = row.first().and_then(Option::as_deref).unwrap_or("NULL");
            ensure!(
                value.starts_with(tag),
                "FOREIGN ROW {}",
                &value[..value.len().min(60)]
            );
            ensure!(
                value
                    .as_bytes()
                    .get(tag.len())
                    .is_none_or(|byte| *byte == b'.'),
                "FOREIGN {value}"
            );
            seen += 1;
        }
        ensure!(seen == count, "{seen} rows instead of {count}");
        Ok(())
    }

    fn simple(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        let count = self.random.below(60);
        let filler = if self.random.chance(10) { 8000 } else { 5 };
        let sql =
            format!("select '{tag}' || repeat('.', {filler}) from generate_series(1, {count})");
        let bytes = query(&sql);
        if self.random.chance(20) {
            // Sent in two pieces with a pause between them.
            let (first, second) = bytes.split_at(self.random.below(bytes.len()));
            raw.send(first)?;
            thread::park_timeout(Duration::from_millis(2));
            raw.send(second)?;
        } else {
            raw.send(&bytes)?;
        }
        self.expect_rows(raw, tag, count)
    }

    fn extended(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        let batch = [
            parse("", "select $1::text", &[]),
            bind("", "", &[Some(tag.as_bytes())]),
            execute("", 0),
        ];
        raw.send(&batch.concat())?;
        if self.random.chance(30) {
            raw.send(&flush())?;
            let mut tags = Vec::new();
            while tags.last() != Some(&b'C') && tags.last() != Some(&b'E') {
                let message = raw.read_message()?;
                if message.tag == b'D' {
                    ensure!(
                        message.row()? == [Some(tag.to_owned())],
                        "FOREIGN ROW {:?}",
                        message.row()
                    );
                }
                ensure!(message.tag != b'E', "{}", message.error());
                tags.push(message.tag);
            }
            raw.send(&sync())?;
            return self.expect_rows(raw, tag, 0);
        }
        raw.send(&sync())?;
        self.expect_rows(raw, tag, 1)
    }

    fn pipeline(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        let count = 1 + self.random.below(20);
        let one = |number: usize| {
            let value = format!("{tag}.{number}");
            [
                parse("", "select $1::text", &[]),
                bind("", "", &[Some(value.as_bytes())]),
                execute("", 0),
                sync(),
            ]
            .concat()
        };
        let all: Vec<u8> = (0..count).flat_map(one).collect();
        raw.send(&all)?;
        for number in 0..count {
            self.expect_rows(raw, &format!("{tag}.{number}"), 1)?;
        }
        Ok(())
    }

    /// Uses named statements. All clients use the same few names, each for a different statement.
    fn named(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        let name = format!("s{}", self.random.below(5));
        let sql = format!("select '{tag}' || $1::text");
        let mut batch = [
            weir_conformance::frontend::close(b'S', &name),
            parse(&name, &sql, &[]),
        ]
        .concat();
        if self.random.chance(50) {
            batch.extend(sync());
            raw.send(&batch)?;
            self.answer(raw, "")?;
            batch.clear();
        }
        for _ in 0..1 + self.random.below(4) {
            batch.extend([bind("", &name, &[Some(b".x")]), execute("", 0), sync()].concat());
            raw.send(&batch)?;
            self.expect_rows(raw, tag, 1)?;
            batch.clear();
        }
        Ok(())
    }

    fn failing(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        if self.random.chance(50) {
            raw.send(&query(&format!(
                "select '{tag}'; select 1/0; select 'never'"
            )))?;
        } else {
            let never = [
                parse("", "select 'never'", &[]),
                bind("", "", &[]),
                execute("", 0),
                sync(),
            ];
            raw.send(&[parse("", "selct", &[]), never.concat()].concat())?;
            self.answer(raw, "42601")?;
            raw.send(&query("select 1/0"))?;
        }
        let messages = self.answer(raw, "22012")?;
        for message in messages.iter().filter(|message| message.tag == b'D') {
            ensure!(
                message.row()? == [Some(tag.to_owned())],
                "FOREIGN ROW {:?}",
                message.row()
            );
        }
        Ok(())
    }

    fn begin(&self, raw: &mut Raw) -> Result<()> {
        raw.send(&query("begin"))?;
        self.answer(raw, "").map(drop)
    }

    fn transaction(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        self.begin(raw)?;
        // A transaction-local setting shows that the transaction stays on one server.
        raw.send(&query(&format!("set local application_name = '{tag}'")))?;
        self.answer(raw, "")?;
        for _ in 0..self.random.below(4) {
            raw.send(&query("select current_setting('application_name')"))?;
            self.expect_rows(raw, tag, 1)?;
        }
        let end = if self.random.chance(50) {
            "commit"
        } else {
            "rollback"
        };
        raw.send(&query(end))?;
        self.answer(raw, "").map(drop)
    }

    fn copy_out(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        let count = self.random.below(300);
        raw.send(&query(&format!(
            "copy (select '{tag}' from generate_series(1, {count})) to stdout"
        )))?;
        let messages = self.answer(raw, "")?;
        let lines = messages.iter().filter(|message| message.tag == b'd');
        let line = format!("{tag}\n");
        let foreign = lines
            .clone()
            .find(|message| message.body != line.as_bytes());
        ensure!(foreign.is_none(), "FOREIGN LINE {foreign:?}");
        ensure!(lines.count() == count, "not {count} lines");
        Ok(())
    }

    fn copy_in(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        let count = self.random.below(200);
        // A temporary table within one query, so that no other client can see it.
        let sql = "begin; create temp table mine (t text) on commit drop; copy mine from stdin; \
                   select string_agg(distinct t, ',') from mine; commit";
        raw.send(&query(sql))?;
        for _ in 0..count {
            raw.send(&copy_data(format!("{tag}\n").as_bytes()))?;
        }
        if self.random.chance(30) {
            raw.send(&copy_fail("changed my mind"))?;
            self.answer(raw, "57014")?;
            // The failed BEGIN is still open.
            raw.send(&query("rollback"))?;
            return self.answer(raw, "").map(drop);
        }
        raw.send(&copy_done())?;
        let messages = self.answer(raw, "")?;
        let row = messages
            .iter()
            .find(|message| message.tag == b'D')
            .context("no row")?
            .row()?;
        let wanted = (count > 0).then(|| tag.to_owned());
        ensure!(row == [wanted], "FOREIGN COPY {row:?}");
        Ok(())
    }

    fn cancel(&mut self, raw: &mut Raw, tag: &str) -> Result<()> {
        let started = clock::now();
        raw.send(&query(&format!("select '{tag}.' || pg_sleep(20)::text")))?;
        if self.random.chance(70) {
            thread::park_timeout(Duration::from_millis(self.random.below(30).try_into()?));
        }
        // A cancel request that arrives before the query has started is lost, with PostgreSQL itself too, so
        // it is repeated.
        self.cancel_until_answered(raw)?;
        self.answer(raw, "57014")?;
        let took = started.elapsed();
        ensure!(took < Duration::from_secs(15), "cancelled after {took:?}");
        Ok(())
    }

    fn cancel_until_answered(&self, raw: &Raw) -> Result<()> {
        let stream = raw.stream();
        let patience = stream.read_timeout()?;
        stream.set_read_timeout(Some(Duration::from_millis(250)))?;
        for _ in 0..80 {
            self.send_cancel(raw)?;
            if stream.peek(&mut [0]).is_ok() {
                break;
            }
        }
        Ok(stream.set_read_timeout(patience)?)
    }

    fn half_message(&mut self, raw: &mut Raw, tag: &str) -> Result<Then> {
        let mut bytes = query(&format!("select '{tag}'"));
        if self.random.chance(50) {
            let batch = [
                parse("", "select $1::text", &[]),
                bind("", "", &[Some(&[b'z'; 30_000])]),
                execute("", 0),
                sync(),
            ];
            bytes = batch.concat();
        }
        let length = 1 + self.random.below(bytes.len() - 1);
        raw.send(&bytes[..length])?;
        Ok(Then::Vanish)
    }

    fn half_result(&mut self, raw: &mut Raw, tag: &str) -> Result<Then> {
        let sql = format!("select '{tag}' || repeat('.', 500) from generate_series(1, 5000)");
        raw.send(&query(&sql))?;
        let mut some = vec![0; self.random.below(100_000)];
        raw.reader().read_exact(&mut some)?;
        Ok(Then::Vanish)
    }

    fn half_copy(&mut self, raw: &mut Raw, tag: &str) -> Result<Then> {
        let sql =
            "begin; create temp table mine (t text) on commit drop; copy mine from stdin; commit";
        raw.send(&query(sql))?;
        for _ in 0..self.random.below(50) {
            raw.send(&copy_data(format!("{tag}\n").as_bytes()))?;
        }
        if self.random.chance(50) {
            raw.send(b"d\0\0\0\x20half")?;
        }
        Ok(Then::Vanish)
    }

    /// The cancel request may arrive when another client has the server.
    fn cancel_and_vanish(&self, raw: &mut Raw, tag: &str) -> Result<Then> {
        raw.send(&query(&format!("select '{tag}', pg_sleep(0.01)")))?;
        self.send_cancel(raw)?;
        Ok(Then::Vanish)
    }

    fn tcp(&self) -> Result<Raw> {
        match &self.dial {
            Some(dial) => dial.request(self.port),
            None => Raw::tcp(self.port, Duration::from_secs(60)),
        }
    }

    fn send_cancel(&self, raw: &Raw) -> Result<()> {
        match &self.dial {
            Some(dial) => dial.cancel(self.port, &raw.key),
            None => raw.cancel(self.port),
        }
    }

    fn half_login(&mut self) -> Result<()> {
        let mut raw = self.tcp()?;
        let bytes = startup(VERSION_3_0, &LOGIN);
        raw.send(&bytes[..self.random.below(bytes.len())])?;
        self.vanish(raw)
    }

    fn vanish(&mut self, raw: Raw) -> Result<()> {
        match self.random.below(3) {
            0 => drop(raw),
            // The peer may have closed first.
            1 => drop(raw.stream().shutdown(Shutdown::Write)),
            _ => raw.reset()?,
        }
        Ok(())
    }
}
