//! Words for a decision of the router: its reason, and a line for each host. Decides nothing.

use std::fmt;
use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;
use weir_sql::Access;
use weir_watch::HostView;
use weir_watch::Role;
use weir_watch::State;
use weir_watch::Writes;

use crate::ask::Ask;
use crate::ask::Load;
use crate::ask::Token;
use crate::candidates::Commit;
use crate::candidates::Obstacle;
use crate::course::Course;
use crate::course::Readers;
use crate::course::consistency;
use crate::router::Router;
use crate::rules::Rules;
use crate::verdict::Verdict;
use crate::verdict::Why;

/// Verdict with its reasons (`EXPLAIN ROUTE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Verdict, equal to that of [`Router::ask`].
    pub verdict: Verdict,
    /// Rules that are in force for the session.
    pub rules: String,
    /// Reason for the verdict.
    pub reason: String,
    /// Facts about each host and its judgement, in the order of the snapshot.
    pub hosts: Vec<String>,
}

impl Explanation {
    /// Asks the router and describes its decision.
    pub(crate) fn new(router: &Router, ask: &Ask<'_>, load: &dyn Fn(HostId) -> Load) -> Self {
        let verdict = router.ask(ask, load);
        let course = Course::of(router.rules(), ask);
        let lines = Lines {
            router,
            ask,
            load,
            course,
            chosen: match verdict {
                Verdict::Go { host, .. } => Some(host),
                Verdict::Hold { .. } | Verdict::Refuse(_) => None,
            },
        };
        Self {
            verdict,
            rules: rules(router.rules(), ask),
            reason: reason(&verdict, ask),
            hosts: ask
                .hosts
                .hosts
                .iter()
                .map(|host| lines.line(host))
                .collect(),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.rules, self.reason)?;
        self.hosts.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

fn rules(rules: &Rules, ask: &Ask<'_>) -> String {
    let split = ask.session.split.unwrap_or(rules.split);
    format!(
        "target is {}, read_write_split is {split}, read_consistency is {}",
        rules.target,
        consistency(rules, ask)
    )
}

fn reason(verdict: &Verdict, ask: &Ask<'_>) -> String {
    match *verdict {
        Verdict::Go { host, why, .. } => {
            let name = ask.hosts.host(host).map_or("?", |view| &*view.name);
            match (why, ask.access) {
                (Why::Access, Access::Primary(cause)) => format!("runs on {name}: {cause}"),
                _ => format!("runs on {name}: {why}"),
            }
        }
        Verdict::Hold { until, why } if until == Moment::NEVER => format!("waits: {why}"),
        Verdict::Hold { until, why } => {
            format!("waits for {} at most: {why}", Span(until.since(ask.now)))
        }
        Verdict::Refuse(why) => format!("is refused: {why}"),
    }
}

/// Context of the lines about hosts.
struct Lines<'a> {
    router: &'a Router,
    ask: &'a Ask<'a>,
    load: &'a dyn Fn(HostId) -> Load,
    course: Course,
    chosen: Option<HostId>,
}

impl Lines<'_> {
    fn line(&self, host: &HostView) -> String {
        let role = match host.role {
            Role::Primary => "primary",
            Role::Replica => "replica",
            Role::Unknown => "host",
        };
        let facts = self.facts(host);
        let chosen = if self.chosen == Some(host.host) {
            "; chosen"
        } else {
            ""
        };
        format!(
            "{role} {}: {facts}: {}{chosen}",
            host.name,
            self.judgement(host)
        )
    }

    fn facts(&self, host: &HostView) -> String {
        let mut facts = Vec::new();
        if host.role == Role::Replica {
            facts.extend(lag(self.router.rules(), host));
        }
        let load = (self.load)(host.host);
        let size = match load.size {
            0 => String::new(),
            size => format!(" of {size}"),
        };
        facts.push(format!("{}{size} servers in use", load.in_use));
        if load.waiting > 0 {
            facts.push(format!("{} clients wait", load.waiting));
        }
        facts.join(", ")
    }

    fn judgement(&self, host: &HostView) -> String {
        match self.course {
            Course::Primary(_) if self.takes_writes(host) => "takes writes".to_owned(),
            Course::Primary(_) => "takes no writes".to_owned(),
            Course::Readers(readers) => self.as_reader(host, readers),
        }
    }

    fn takes_writes(&self, host: &HostView) -> bool {
        self.ask.hosts.writes == Writes::To(host.host)
    }

    fn as_reader(&self, host: &HostView, readers: Readers) -> String {
        let condition = self.router.condition(self.ask, readers);
        let is_preferred =
            |host: &HostView| condition.admits(host) && self.router.is_near(host, self.load);
        match condition.obstacle(host) {
            None if is_preferred(host) => "qualifies, near".to_owned(),
            None if self.ask.hosts.hosts.iter().any(is_preferred) => {
                "qualifies; a near host is preferred".to_owned()
            }
            None => "qualifies".to_owned(),
            Some(Obstacle::Role) if self.takes_writes(host) => "takes writes".to_owned(),
            Some(Obstacle::Role) => "is no replica".to_owned(),
            Some(Obstacle::Other) => "a query rule asks for another host".to_owned(),
            Some(Obstacle::State(state)) => state_in_words(state).to_owned(),
            Some(Obstacle::Reads) => {
                "takes no reads: by its configuration, max_staleness or max_lag".to_owned()
            }
            Some(Obstacle::Age) => "takes reads; older than the hint allows".to_owned(),
            Some(Obstacle::Weight) => "weight is 0".to_owned(),
            Some(Obstacle::Stale(commit)) => {
                let (whose, moment) = match commit {
                    Commit::Any(moment) => ("the last write of all clients", moment),
                    Commit::Own(moment) => ("the session's last write", moment),
                    Commit::Token => return self.behind_token(host),
                };
                let age = Span(self.ask.now.since(moment));
                format!("takes reads; not fresh enough for {whose} {age} ago")
            }
        }
    }
}

impl Lines<'_> {
    fn behind_token(&self, host: &HostView) -> String {
        let token = match self.ask.session.token {
            Token::At(position) => format!(" {position}"),
            Token::Malformed | Token::None => String::new(),
        };
        let replayed = match host.replayed {
            Some(lsn) => format!("{}/{lsn}", host.timeline),
            None => "an unknown position".to_owned(),
        };
        format!("takes reads; not fresh enough for weir.min_lsn{token}: shows {replayed}")
    }
}

/// Returns the lag of a replica, by time and by bytes, each with its limit.
fn lag(rules: &Rules, host: &HostView) -> Vec<String> {
    let mut facts = Vec::new();
    match host.lag {
        Some(lag) => facts.push(format!("{} behind", Span(lag))),
        None => facts.push("lag is unknown".to_owned()),
    }
    if let Some(max) = rules.max_staleness {
        facts.push(format!("max_staleness is {}", Span(max)));
    }
    if let (Some(bytes), Some(max)) = (host.lag_bytes, rules.max_lag) {
        facts.push(format!("{bytes} bytes behind, max_lag is {max} bytes"));
    }
    facts
}

fn state_in_words(state: State) -> &'static str {
    match state {
        State::Diverged => "has diverged from the primary's timeline",
        State::Down => "is down",
        State::Fenced => "is fenced: a former primary",
        State::Foreign => "belongs to another cluster",
        State::Refusing => "refuses sessions",
        State::Unknown => "was not probed yet",
        State::Up => "is up",
    }
}

/// Span of time, shown in the largest unit that it reaches.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, tenths) = (self.0.as_secs(), self.0.subsec_millis() / 100);
        match (seconds, self.0.subsec_micros()) {
            (0, 0) => f.write_str("0 s"),
            (0, micros @ ..1_000) => write!(f, "{micros} µs"),
            (0, micros) => write!(f, "{} ms", micros / 1_000),
            (_, _) if tenths == 0 || seconds >= 100 => write!(f, "{seconds} s"),
            (_, _) => write!(f, "{seconds}.{tenths} s"),
        }
    }
}
