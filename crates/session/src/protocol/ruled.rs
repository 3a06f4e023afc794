//! Query rules of a client's group, as they apply to one client.

use std::sync::Arc;
use std::time::Duration;

use weir_rules::{Fits, Now, Permit, Rejection, Rules, Stage, Statement as Ruled, Verdict, Wish};
use weir_sql::{SHAPE_MAX, Shaper};
use weir_wire::before_nul;
use weir_wire::frame::{HEADER_LEN, Header, Side, header};
use weir_wire::frontend::{self, tag};

use crate::client::{Client, key};
use crate::relay::STATEMENT_MAX;
use crate::statement::Statement;

/// Rules that may concern a client.
#[derive(Debug)]
pub struct Ruling<'a> {
    /// Rules of the client's group.
    pub rules: &'a mut Rules,
    /// Those that fit the client.
    pub fits: &'a Fits,
    /// Finds the shapes of texts.
    pub shaper: &'a Shaper,
    /// Circumstances of the decisions.
    pub now: Now,
    /// Reads the time in a hint; none if hints in comments do not count.
    pub hints: Option<fn(&str) -> Option<Duration>>,
}

/// Decisions about the first statement of a batch that waits for a server, so that nothing is decided twice.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    /// Tag of the batch's first message.
    tag: u8,
    /// True if PostgreSQL forgets the unnamed statement when that message fails.
    forgets: bool,
    /// True if the Parse in front was judged.
    pub(crate) is_prepared: bool,
    /// True if the batch runs nothing: the decision only says where it is prepared.
    only_prepares: bool,
    /// Decision about the first statement that runs.
    pub(crate) judged: Option<Judged>,
}

/// Decision about a statement that is about to run.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    /// Permit of the bulkhead in front of the statement.
    pub(crate) permit: Option<Permit>,
    /// True if the batch had not ended, so that another statement may run first.
    pub(crate) is_guess: bool,
}

/// First statement of a batch that runs.
enum First<'a> {
    Text(&'a [u8]),
    Bound(&'a [u8]),
    /// Text that the batch prepares first, of which nothing is known to run yet.
    Guess(&'a [u8]),
}

impl Ruling<'_> {
    /// Decides on a text of one or more statements, of which all or only the beginning is here.
    pub(crate) fn decide(&mut self, text: (&[u8], bool), stage: Stage) -> Verdict {
        self.now.dice = self.now.dice.wrapping_add(1);
        let mut verdict = self
            .rules
            .decide(self.shaper, self.fits, text, stage, self.now);
        if stage == Stage::Run {
            self.take_hints(text.0, &mut verdict);
        }
        verdict
    }

    /// Returns the decision about the statement that is sent now. One of before stands, unless it was a guess; a list is asked
    /// again in any case.
    pub(crate) fn judged(
        &mut self,
        before: Option<Judged>,
        decide: &mut dyn FnMut(&mut Self, Stage) -> Verdict,
    ) -> Judged {
        let mut judged = before.unwrap_or(Judged {
            is_guess: true,
            ..Judged::default()
        });
        if std::mem::take(&mut judged.is_guess) {
            judged.verdict = decide(self, Stage::Run);
        } else if judged.verdict.rejection.is_none() && self.rules.enforce_list() {
            judged.verdict.rejection = decide(self, Stage::Prepare).rejection;
        }
        judged
    }

    /// Returns the error of a list that allows no function calls of the protocol.
    pub(crate) fn decide_function(&self) -> Option<Arc<Rejection>> {
        self.rules.allow_list()?.judge_function()
    }

    /// True if a message is kept until it is complete, although it is long: rules and lists judge whole texts.
    pub(crate) fn reads_whole(&self, header: Header) -> bool {
        (self.rules.allow_list().is_some() || !self.fits.is_empty())
            && matches!(header.tag, tag::QUERY | tag::PARSE)
            && header.total_len() <= STATEMENT_MAX
    }

    /// Lets the hints in a text's comments decide, beside the rules.
    #[inline]
    fn take_hints(&self, text: &[u8], verdict: &mut Verdict) {
        if let Some(parse) = self.hints {
            take_hints(parse, text, verdict);
        }
    }

    /// Decides on a batch of a client that has no server; `tag` and `body` are those of its first message, and `batch` is what of
    /// it is here. Returns the error of a rule that rejects that message. PostgreSQL forgets the unnamed statement when a
    /// simple query or an unnamed Parse fails.
    pub(crate) fn decide_first(
        &mut self,
        client: &mut Client,
        (message, body): (u8, &[u8]),
        batch: &[u8],
    ) -> Option<Arc<Rejection>> {
        if client.decided.is_some() {
            return None;
        }
        let mut place = None;
        let (rejection, forgets) = match message {
            tag::QUERY => {
                let text = body.strip_suffix(b"\0").unwrap_or(body);
                (self.decide_run(client, text), true)
            }
            tag::PARSE => {
                let parse = frontend::Parse::parse(body).ok()?;
                let verdict = self.decide((parse.sql, true), Stage::Prepare);
                place = verdict.route;
                (verdict.rejection, parse.name.is_empty())
            }
            tag::BIND => {
                let head = frontend::Bind::head(body).ok()??;
                let verdict = self.decide_bound(client, head.statement, Stage::Run);
                (decided(client, verdict), false)
            }
            tag::FUNCTION_CALL => (self.decide_function(), false),
            _ => (None, false),
        };
        if rejection.is_some() {
            client.decided = None;
            if forgets {
                client.forget_unnamed();
            }
            return rejection;
        }
        if !matches!(message, tag::QUERY | tag::BIND) {
            self.decide_ahead(client, batch);
        }
        if message == tag::PARSE {
            let decided = client.decided.get_or_insert_default();
            decided.is_prepared = true;
            if decided.judged.is_none() && place.is_some() {
                decided.only_prepares = true;
                let verdict = Verdict {
                    route: place,
                    ..Verdict::default()
                };
                decided.judged = Some(Judged {
                    verdict,
                    permit: None,
                    is_guess: true,
                });
            }
        }
        if let Some(decided) = &mut client.decided {
            (decided.tag, decided.forgets) = (message, forgets);
        }
        None
    }

    fn decide_run(&mut self, client: &mut Client, text: &[u8]) -> Option<Arc<Rejection>> {
        let verdict = self.decide((text, true), Stage::Run);
        decided(client, verdict)
    }

    /// Decides on the first statement that a batch runs behind other messages.
    fn decide_ahead(&mut self, client: &mut Client, batch: &[u8]) {
        let first = first_run(batch);
        let is_guess = matches!(first, Some(First::Guess(_)));
        let verdict = match first {
            Some(First::Text(text) | First::Guess(text)) => self.decide((text, true), Stage::Run),
            Some(First::Bound(name)) => self.decide_bound(client, name, Stage::Run),
            None => return,
        };
        // What rejects it does so when its turn has come.
        client.decided.get_or_insert_default().judged = Some(Judged {
            verdict,
            permit: None,
            is_guess,
        });
    }

    /// Returns another text for a text of the client's, if a rule has one.
    pub fn rewrite(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        self.now.dice = self.now.dice.wrapping_add(1);
        self.rules.rewrite(self.shaper, self.fits, text, self.now)
    }

    /// Decides on what the client's name of a statement stands for, which is about to run.
    pub(crate) fn decide_bound(&mut self, client: &Client, name: &[u8], stage: Stage) -> Verdict {
        if name.is_empty() {
            let text = before_nul(client.unnamed_body());
            return match client.unnamed_body().is_empty() {
                true => self.decide_unknown(client),
                false => self.decide((text, true), stage),
            };
        }
        let own = || client.own_names.as_ref()?.known.get(key(name));
        match client.statement(name) {
            Some((_, Some(statement))) => self.decide_prepared(statement, stage),
            _ => match own() {
                Some(statement) => self.decide_prepared(statement, stage),
                None => self.decide_unknown(client),
            },
        }
    }

    /// Decides on a statement whose text is not known. If a list was enforced when it was prepared, it is in the list.
    fn decide_unknown(&self, client: &Client) -> Verdict {
        let list = self.rules.allow_list();
        let list = list.filter(|_| client.has_unlisted);
        Verdict {
            rejection: list.and_then(|list| list.judge_unknown()),
            ..Verdict::default()
        }
    }

    /// Decides on a prepared statement that is about to run.
    fn decide_prepared(&mut self, statement: &Statement, stage: Stage) -> Verdict {
        self.now.dice = self.now.dice.wrapping_add(1);
        let mut verdict = Verdict::default();
        let text = statement.text();
        let mut shape = statement.shape_key(self.shaper);
        if text.len() > SHAPE_MAX {
            // The one that is kept depends on the beginning only.
            shape = None;
            (self.shaper).shapes_and_keep(text, true, &mut |key, _| shape = shape.or(Some(key)));
        }
        if let Some(shape) = shape {
            let statement = Ruled {
                shape,
                alone: text,
                whole: text,
            };
            let (fits, now) = (self.fits, self.now);
            self.rules
                .decide_one(statement, fits, stage, now, &mut verdict);
            if stage == Stage::Run {
                self.take_hints(text, &mut verdict);
            }
        }
        verdict
    }
}

#[cold]
fn take_hints(parse: fn(&str) -> Option<Duration>, text: &[u8], verdict: &mut Verdict) {
    weir_sql::hints(text, &mut |name, value| {
        let time = parse(value).filter(|time| name == "timeout" && !time.is_zero());
        let is_shorter = |time: &Duration| {
            let before = verdict.watch.timeout.as_ref();
            before.is_none_or(|before| *time < before.value)
        };
        if let Some(value) = time.filter(is_shorter) {
            let rule = "".into();
            verdict.watch.timeout = Some(Wish { rule, value });
        }
    });
}

/// Keeps a decision for when the statement's server has been found. Returns the error of a rejection, which needs none.
fn decided(client: &mut Client, verdict: Verdict) -> Option<Arc<Rejection>> {
    if verdict.rejection.is_some() {
        return verdict.rejection;
    }
    client.decided.get_or_insert_default().judged = Some(Judged {
        verdict,
        permit: None,
        is_guess: false,
    });
    None
}

/// Finds the first statement that a batch runs. If the batch has not ended, what it prepares first is taken for that.
fn first_run(batch: &[u8]) -> Option<First<'_>> {
    let mut prepared: Vec<frontend::Parse<'_>> = Vec::new();
    let mut rest = batch;
    while let Ok(Some(header)) = header(rest, Side::Frontend) {
        let Some(body) = rest.get(HEADER_LEN..header.total_len()) else {
            break;
        };
        match header.tag {
            tag::QUERY => return Some(First::Text(body.strip_suffix(b"\0").unwrap_or(body))),
            tag::PARSE => prepared.extend(frontend::Parse::parse(body)),
            tag::BIND => {
                let name = frontend::Bind::head(body).ok()??.statement;
                let mut known = prepared.iter().rev();
                let text = known
                    .find(|parse| parse.name == name)
                    .map(|parse| parse.sql);
                return Some(text.map_or(First::Bound(name), First::Text));
            }
            tag::SYNC => return None,
            _ => {}
        }
        rest = rest.get(header.total_len()..).unwrap_or_default();
    }
    prepared.first().map(|parse| First::Guess(parse.sql))
}

impl Client {
    /// Returns what the rules want before the batch in front gets a server.
    #[must_use]
    pub fn wishes_before_lease(&self) -> Option<&Verdict> {
        let judged = self.decided.as_ref()?.judged.as_ref()?;
        Some(&judged.verdict).filter(|verdict| verdict.comes_before_lease())
    }

    /// Gives the batch in front the permit of a bulkhead.
    pub fn permit(&mut self, permit: Permit) {
        if let Some(judged) = self.decided.as_mut().and_then(|it| it.judged.as_mut()) {
            judged.permit = Some(permit);
        }
    }

    /// Refuses the batch in front, about which the rules have decided, before a server saw it. An error was sent in place of its
    /// first reply.
    pub fn refuse_decided(&mut self) {
        let (tag, forgets) =
            (self.decided.as_ref()).map_or((tag::PARSE, false), |it| (it.tag, it.forgets));
        if forgets {
            self.forget_unnamed();
        }
        self.refuse_batch(tag);
    }

    /// Takes the decision about the statement that runs first, if it was decided before.
    pub(crate) fn take_judged(&mut self) -> Option<Judged> {
        let judged = self.decided.as_mut()?.judged.take();
        self.forget_what_was_used();
        judged
    }

    /// True if the Parse in front was judged before.
    pub(crate) fn take_prepared(&mut self) -> bool {
        let decided = self.decided.as_mut();
        let is_prepared = decided.is_some_and(|it| {
            it.judged.take_if(|_| it.only_prepares);
            std::mem::take(&mut it.is_prepared)
        });
        self.forget_what_was_used();
        is_prepared
    }

    fn forget_what_was_used(&mut self) {
        self.decided
            .take_if(|decided| !decided.is_prepared && decided.judged.is_none());
    }

    /// Forgets what was decided about the batch in front, which does not run.
    pub fn forget_decision(&mut self) {
        self.decided = None;
    }
}

#[cfg(test)]
mod tests;
