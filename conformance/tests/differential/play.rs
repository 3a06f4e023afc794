//! Runs a program step by step on both sides and compares every answer.
//!
//! A client without a server could only wait if other clients keep all servers. So before it acts, the first of the
//! others releases its server, on both sides: it ends its transaction, then its session state, then its connection.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use weir_conformance::answer::Answer;
use weir_conformance::wait_until;

use crate::client::Client;
use crate::known;
use crate::known::Verdict;
use crate::probe;
use crate::program::Act;
use crate::program::Item;
use crate::program::Part;
use crate::program::Program;
use crate::program::Step;
use crate::program::letter;
use crate::world::Side;
use crate::world::Stage;
use crate::world::World;

/// Number of looks, 10 ms apart, at a server that may be released by itself: it is being queried, or kept while no client
/// waits. Each look queries Weir and PostgreSQL, so that looks take longer on a busy machine.
const RELEASE_LOOKS: u32 = 5;
/// Time limit for statements that neither sleep nor wait for a lock or a client.
const WORK_WAIT: Duration = Duration::from_secs(20);
/// Time limit for a query to sleep or to end.
const SLEEP_WAIT: Duration = Duration::from_secs(20);

/// Result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All answers were equal.
    Alike,
    /// Weir differed as documented, so the rest cannot be compared.
    Known(&'static str),
    /// Both sides differ.
    Fault(Fault),
}

/// First difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Index of the step in the program; the program's length for the final comparison.
    pub(crate) step: usize,
    /// All answers up to the difference.
    pub(crate) transcript: String,
}

/// Runs a program in databases of its own.
pub(crate) fn play(world: &mut World, program: &Program) -> Result<Outcome> {
    let mut stage = world.stage(program.pool, program.workers)?;
    let mut play = Play {
        stage: &mut stage,
        program,
        clients: program.clients.iter().map(|_| None).collect(),
        starts: program.clients.clone(),
        last: None,
        is_at_risk: false,
        is_split: false,
        is_late_listen: false,
        has_changed_objects: false,
        has_indirect: false,
        has_long: false,
        has_long_query: false,
        transcript: Vec::new(),
    };
    let outcome = play.all();
    let (transcript, step) = (play.transcript.join("\n"), program.steps.len());
    let outcome = match outcome {
        Ok((_, Verdict::Alike)) => Outcome::Alike,
        Ok((_, Verdict::Known(reason))) => Outcome::Known(reason),
        Ok((step, Verdict::Differs)) => {
            let transcript = format!("{transcript}\nlog of Weir:\n{}", stage.log());
            Outcome::Fault(Fault { step, transcript })
        }
        Err(error) => Outcome::Fault(Fault {
            step,
            transcript: format!("{transcript}\n{error:#}\nlog of Weir:\n{}", stage.log()),
        }),
    };
    stage.close()?;
    Ok(outcome)
}

/// Connections of one client to both sides.
struct Pair {
    oracle: Client,
    subject: Client,
}

struct Play<'a, 'b> {
    stage: &'a mut Stage<'b>,
    program: &'a Program,
    clients: Vec<Option<Pair>>,
    /// Start-up parameters of the clients.
    starts: Vec<Vec<(String, String)>>,
    /// Client that acted last, which therefore can act again.
    last: Option<usize>,
    /// True if the administrator has taken away something that a client's settings may depend on.
    is_at_risk: bool,
    /// True if a LISTEN stood beside other statements.
    is_split: bool,
    /// True if a LISTEN stood in a transaction block.
    is_late_listen: bool,
    /// True if a client has changed or dropped objects.
    has_changed_objects: bool,
    /// True if a client has prepared a FETCH or EXECUTE.
    has_indirect: bool,
    /// True if a client has prepared a long text.
    has_long: bool,
    /// True if a client has sent a long query.
    has_long_query: bool,
    transcript: Vec<String>,
}

impl Play<'_, '_> {
    /// Runs steps until the sides differ; returns the index of the step and the kind of difference.
    fn all(&mut self) -> Result<(usize, Verdict)> {
        let program = self.program;
        for (place, step) in program.steps.iter().enumerate() {
            let verdict = match step.who {
                None => self.admin(step)?,
                Some(client) => self.turn(client, &step.act, &step.to_string())?,
            };
            if verdict != Verdict::Alike {
                return Ok((place, verdict));
            }
        }
        Ok((program.steps.len(), self.end()?))
    }

    /// Compares all sessions, the state that new clients find, and all tables.
    fn end(&mut self) -> Result<Verdict> {
        let rollback = Act::Query(vec!["rollback".to_owned()]);
        let mut order: Vec<usize> = (0..self.clients.len()).collect();
        // Clients that keep a server come first, so that no client must release its server before it is compared.
        let sight = self.stage.sight()?;
        order.sort_by_key(|client| !self.holds(*client, &sight.pinned));
        for client in order {
            if self.clients.get(client).is_some_and(Option::is_none) {
                continue;
            }
            let mut acts = vec![rollback.clone()];
            acts.extend(Part::ALL.map(Act::Ask));
            acts.push(Act::Leave);
            for act in acts {
                let text = format!("end of {}: {act:?}", letter(client));
                let verdict = self.turn(client, &act, &text)?;
                if verdict != Verdict::Alike {
                    return Ok(verdict);
                }
            }
        }
        let verdict = self.newcomers()?;
        if verdict != Verdict::Alike {
            return Ok(verdict);
        }
        self.tables()
    }

    /// Checks that new clients on all servers find no state of earlier ones.
    fn newcomers(&mut self) -> Result<Verdict> {
        let begin = Act::Query(vec!["begin".to_owned()]);
        let count = usize::try_from(self.program.pool)?;
        let first = self.starts.first().context("no clients")?;
        // Only the user, which determines the pool.
        let start: Vec<_> = first.iter().take(1).cloned().collect();
        self.starts = vec![start; count];
        self.clients = (0..count).map(|_| None).collect();
        self.last = None;
        for client in 0..count {
            for act in [
                begin.clone(),
                Act::Ask(Part::Settings),
                Act::Ask(Part::Temporary),
            ] {
                let verdict = self.turn(client, &act, &format!("newcomer {client}"))?;
                if verdict != Verdict::Alike {
                    return Ok(verdict);
                }
            }
        }
        for client in 0..count {
            self.turn(client, &Act::Leave, "newcomer leaves")?;
        }
        Ok(Verdict::Alike)
    }

    fn tables(&mut self) -> Result<Verdict> {
        let expected = self.stage.oracle.content()?;
        let found = self.stage.subject.content()?;
        let verdict = if expected == found {
            Verdict::Alike
        } else {
            Verdict::Differs
        };
        if verdict == Verdict::Differs {
            let only = |one: &[String], other: &[String]| {
                let rows = one.iter().filter(|row| !other.contains(row));
                rows.cloned().collect::<Vec<_>>().join(" / ")
            };
            let (ours, theirs) = (only(&expected, &found), only(&found, &expected));
            self.transcript.push(format!(
                "tables\n    PostgreSQL: {ours}\n    Weir:       {theirs}"
            ));
        }
        Ok(verdict)
    }

    fn admin(&mut self, step: &Step) -> Result<Verdict> {
        let Act::Query(texts) = &step.act else {
            anyhow::bail!("the administrator only queries");
        };
        let sql = texts.join("; ");
        self.is_at_risk |= known::is_risk(&sql);
        let mut answers = Vec::new();
        for side in [&mut self.stage.oracle, &mut self.stage.subject] {
            let answer = side.admin.query(&sql);
            answers.push(match answer {
                Ok(rows) => format!("{rows:?}"),
                Err(error) => format!("{error:#}"),
            });
        }
        let is_alike = answers.first() == answers.last();
        self.transcript
            .push(format!("{step}\n    {}", answers.join("\n    ")));
        Ok(if is_alike {
            Verdict::Alike
        } else {
            Verdict::Differs
        })
    }

    /// Runs a client's step, after other clients have made room.
    fn turn(&mut self, client: usize, act: &Act, text: &str) -> Result<Verdict> {
        if let Act::Ask(part) = act
            && !self.can_ask(client, *part)
        {
            return Ok(Verdict::Alike);
        }
        if matches!(act, Act::Leave | Act::Vanish)
            && self.clients.get(client).is_some_and(Option::is_none)
        {
            return Ok(Verdict::Alike);
        }
        while self.last != Some(client) {
            let Some((holder, releases)) = self.obstacle(client)? else {
                break;
            };
            for act in releases {
                let text = format!("({} gives its server back: {act:?})", letter(holder));
                let verdict = self.act(holder, &act, &text)?;
                if verdict != Verdict::Alike {
                    return Ok(verdict);
                }
            }
        }
        self.last = Some(client);
        self.act(client, act, text)
    }

    fn can_ask(&self, client: usize, part: Part) -> bool {
        let Some(Some(pair)) = self.clients.get(client) else {
            return part != Part::Names;
        };
        let is_idle = pair.oracle.is_idle();
        match part {
            // Describe of an unknown name would end the transaction; channels differ in a transaction, as documented.
            Part::Names | Part::Channels => is_idle,
            _ => pair.oracle.can_ask(),
        }
    }

    /// True if a client keeps its server.
    fn holds(&self, client: usize, pinned: &std::collections::BTreeMap<u16, String>) -> bool {
        let Some(Some(pair)) = self.clients.get(client) else {
            return false;
        };
        !pair.oracle.is_idle()
            || pair
                .subject
                .port()
                .is_ok_and(|port| pinned.contains_key(&port))
    }

    /// Returns a client that must release its server so that `client` gets one, and the steps that make it do so.
    fn obstacle(&mut self, client: usize) -> Result<Option<(usize, Vec<Act>)>> {
        let pool = usize::try_from(self.program.pool)?;
        let mut sight = self.stage.sight()?;
        let mut looks = 0;
        // A server whose state is being queried may turn out to be kept.
        wait_until("the end of all queries", WORK_WAIT, || {
            sight = self.stage.sight()?;
            let mut linked = sight.linked.iter();
            if linked.all(|port| self.is_holder(*port, &sight.pinned)) {
                return Ok(true);
            }
            looks += u32::from(!self.stage.is_working()?);
            Ok(looks > RELEASE_LOOKS)
        })?;
        let count = self.clients.len();
        let holders: Vec<usize> = (0..count)
            .filter(|other| self.user(*other) == self.user(client))
            .filter(|other| self.holds(*other, &sight.pinned))
            .collect();
        if holders.contains(&client) || holders.len() < pool {
            return Ok(None);
        }
        let holder = *holders.first().context("no holder")?;
        let pair = self.clients.get(holder).and_then(Option::as_ref);
        let pair = pair.context("no such client")?;
        let query = |sql: &str| Act::Query(vec![sql.to_owned()]);
        let acts = if pair.oracle.is_in_batch() {
            vec![Act::Batch(vec![Item::Sync])]
        } else if !pair.oracle.is_idle() {
            vec![query("rollback")]
        } else {
            let reason = pair
                .subject
                .port()
                .ok()
                .and_then(|port| sight.pinned.get(&port));
            match reason.map(String::as_str) {
                Some("temporary object") => vec![query("discard temp")],
                Some("advisory lock") => vec![query("select pg_advisory_unlock_all()")],
                Some("cursor with hold") => vec![query("close all")],
                Some("listen") => vec![query("unlisten *")],
                _ => vec![Act::Leave],
            }
        };
        Ok(Some((holder, acts)))
    }

    /// Returns a client's user; each user has a pool.
    fn user(&self, client: usize) -> Option<&(String, String)> {
        self.starts.get(client).and_then(|start| start.first())
    }

    fn is_holder(&self, port: u16, pinned: &std::collections::BTreeMap<u16, String>) -> bool {
        let mut pairs = self.clients.iter().flatten();
        let pair = pairs.find(|pair| pair.subject.port().is_ok_and(|own| own == port));
        pinned.contains_key(&port) || pair.is_some_and(|pair| !pair.oracle.is_idle())
    }

    /// Records events that may cause later differences.
    fn note_past(&mut self, act: &Act, text: &str) {
        let lower = text.to_lowercase();
        self.is_split |=
            lower.contains(";; listen") || lower.contains("listen") && lower.contains(" ;; ");
        self.has_changed_objects |= lower.contains("alter ") || lower.contains("drop ");
        self.has_indirect |= known::prepares_indirect(act);
        self.has_long_query |= known::is_long_query(act);
        self.has_long |= lower.contains("parse") && lower.contains("000}");
    }

    /// Runs a step on both sides and compares.
    fn act(&mut self, client: usize, act: &Act, text: &str) -> Result<Verdict> {
        let before = match self.is_at_risk {
            // Fails if a client has locked a table.
            true => self.stage.subject.content().ok(),
            false => None,
        };
        self.note_past(act, text);
        let marker = format!("step {}", self.transcript.len());
        let Some(pair) = self.take(client)? else {
            return Ok(Verdict::Known(known::LOGIN));
        };
        if matches!(act, Act::Leave | Act::Vanish) {
            self.leave(pair, act, text)?;
            return Ok(Verdict::Alike);
        }
        let Pair {
            mut oracle,
            mut subject,
        } = pair;
        let is_inside = !oracle.is_idle();
        let is_begun = is_inside || text.to_lowercase().contains("begin");
        self.is_late_listen |= is_begun && text.to_lowercase().contains("listen");
        let expected = attempt(&mut oracle, &mut self.stage.oracle, act, &marker);
        let mut heard = expected.1;
        let found = attempt(&mut subject, &mut self.stage.subject, act, &marker);
        let (expected, found) = (expected.0, found.0);
        let alike = expected.difference(&found).is_empty();
        let mut verdict = if alike {
            Verdict::Alike
        } else {
            known::judge(act, (&expected, &found), self.past(client, is_inside))
        };
        self.note(text, &expected, &found);
        if verdict == Verdict::Alike && oracle.is_idle() && !is_lost(&expected) {
            heard = oracle.heard(0)?;
            let theirs = subject.heard(heard.len())?;
            if heard != theirs {
                self.transcript.push(format!(
                    "    notifications\n    PostgreSQL: {heard:?}\n    Weir:       {theirs:?}"
                ));
                verdict = known::judge_heard(&heard, &theirs, self.is_split, self.is_late_listen);
            }
        } else {
            heard.clear();
        }
        if let (Verdict::Known(_), Some(before)) = (&verdict, before)
            && before != self.stage.subject.content()?
        {
            self.transcript
                .push("    the statement that Weir refused has changed tables".to_owned());
            verdict = Verdict::Differs;
        }
        let is_outdated = expected
            .lines
            .iter()
            .any(|line| line.contains(known::OUTDATED));
        if !is_lost(&expected)
            && let Some(place) = self.clients.get_mut(client)
        {
            *place = Some(Pair { oracle, subject });
        }
        if verdict == Verdict::Alike && is_outdated && !is_lost(&expected) {
            return self.prepare_anew(client);
        }
        Ok(verdict)
    }

    /// Returns the past of a client's step; `is_inside` is true if the client's transaction or batch was open.
    fn past(&self, client: usize, is_inside: bool) -> known::Past<'_> {
        known::Past {
            start: self.starts.get(client).map_or(&[], Vec::as_slice),
            is_inside,
            is_at_risk: self.is_at_risk,
            has_changed_objects: self.has_changed_objects,
            has_indirect: self.has_indirect,
            has_long: self.has_long,
            has_long_query: self.has_long_query,
        }
    }

    /// Drops all statements of a client, as drivers do after an error about an outdated statement.
    fn prepare_anew(&mut self, client: usize) -> Result<Verdict> {
        let mut items: Vec<Item> = probe::NAMES
            .iter()
            .map(|name| Item::Close(b'S', (*name).to_owned()))
            .collect();
        items.push(Item::Sync);
        self.act(client, &Act::Batch(items), "(closes its statements)")
    }

    /// Returns the client's connections; connects if there are none.
    fn take(&mut self, client: usize) -> Result<Option<Pair>> {
        let start = self.starts.get(client).context("no such client")?;
        let place = self.clients.get_mut(client).context("no such client")?;
        if let Some(pair) = place.take() {
            return Ok(Some(pair));
        }
        let database = &self.stage.database;
        let oracle = Client::connect(self.stage.oracle.port, database, start);
        if oracle.is_err() && self.is_at_risk {
            return Ok(None);
        }
        let oracle = oracle.context("PostgreSQL")?;
        let subject = Client::connect(self.stage.subject.port, database, start).context("Weir")?;
        let told = Answer {
            lines: Vec::new(),
            parameters: oracle.parameters.clone(),
        };
        let found = Answer {
            lines: Vec::new(),
            parameters: subject.parameters.clone(),
        };
        let difference = told.difference(&found);
        anyhow::ensure!(
            difference.is_empty(),
            "login of {}:\n{difference}",
            letter(client)
        );
        Ok(Some(Pair { oracle, subject }))
    }

    fn leave(&mut self, pair: Pair, act: &Act, text: &str) -> Result<()> {
        self.transcript.push(text.to_owned());
        self.last = None;
        if *act == Act::Leave {
            pair.oracle.leave();
            pair.subject.leave();
        } else {
            pair.oracle.vanish()?;
            pair.subject.vanish()?;
        }
        let open = self.clients.iter().flatten();
        let open = open.filter(|pair| !pair.oracle.is_idle()).count();
        self.stage.settle(open)
    }

    fn note(&mut self, text: &str, expected: &Answer, found: &Answer) {
        let difference = expected.difference(found);
        if difference.is_empty() && text.starts_with("end of") {
            return;
        }
        self.transcript.push(if difference.is_empty() {
            format!("{text}\n    both: {}", expected.lines.join(" / "))
        } else {
            format!("{text}\n{}", difference.trim_end())
        });
    }
}

/// Answer of one side, and no notifications yet.
fn attempt(client: &mut Client, side: &mut Side, act: &Act, marker: &str) -> (Answer, Vec<String>) {
    let lines = try_act(client, side, act, marker);
    let lines = lines.unwrap_or_else(|error| vec![format!("lost: {error:#}")]);
    let answer = Answer {
        lines,
        parameters: client.parameters.clone(),
    };
    (answer, Vec::new())
}

fn try_act(client: &mut Client, side: &mut Side, act: &Act, marker: &str) -> Result<Vec<String>> {
    match act {
        Act::Ask(part) => probe::ask(client, *part),
        Act::Batch(items) => client.batch(items),
        Act::Cancel(texts) => {
            client.begin(&format!("{} /* {marker}. */", texts.join("; ")))?;
            wait_until("the query's sleep", SLEEP_WAIT, || {
                Ok(client.has_news()? || side.waits(&format!("/* {marker}. */"))?)
            })?;
            if !client.has_news()? {
                client.cancel(side.port)?;
            }
            client.end()
        }
        Act::Copy { sql, data } => client.copy(sql, data),
        Act::Query(texts) => client.simple(&texts.join("; ")),
        Act::Stray => client.cancel(side.port).map(|()| Vec::new()),
        Act::Leave | Act::Vanish => Ok(Vec::new()),
    }
}

/// True if the connection has ended.
fn is_lost(answer: &Answer) -> bool {
    let mut lines = answer.lines.iter();
    lines.any(|line| line.starts_with("lost: ") || line.starts_with("E FATAL"))
}
