//! First step of a decision: the hosts that the text and the session allow. Never looks at the state of a host.

#[cfg(test)]
mod tests;

use weir_sql::Access;
use weir_sql::Isolation;
use weir_sql::Modes;

use crate::ask::Ask;
use crate::ask::RouteState;
use crate::ask::Wanted;
use crate::rules::Consistency;
use crate::rules::Fallback;
use crate::rules::Rules;
use crate::rules::Split;
use crate::rules::Target;
use crate::verdict::Why;

/// Hosts that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// The primary, for this reason.
    Primary(Why),
    /// A host that takes reads.
    Readers(Readers),
}

/// Hosts that take reads, and the way out if none qualifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readers {
    /// Roles that count.
    pub(crate) among: Among,
    /// Reason for these hosts.
    pub(crate) why: Why,
    /// Destination if no host qualifies.
    pub(crate) otherwise: Fallback,
    /// True if the batch may run on the primary after a replica has refused it.
    pub(crate) has_net: bool,
}

/// Roles of the hosts that take reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// Replicas and the primary.
    All,
    /// Replicas.
    Replicas,
}

/// Side of the split to which a text belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Primary(Why),
    Readers(Why),
}

impl Course {
    /// Returns the hosts that a request may use.
    pub(crate) fn of(rules: &Rules, ask: &Ask<'_>) -> Self {
        match rules.target {
            Target::Any => any(rules, ask),
            Target::PreferStandby => prefer_standby(rules, ask),
            Target::Primary => Self::Primary(Why::Target),
            Target::ReadOnly | Target::Standby => replicas(Why::Target, Fallback::Error),
            Target::ReadWrite => read_write(rules, ask),
        }
    }
}

fn replicas(why: Why, otherwise: Fallback) -> Course {
    Course::Readers(Readers {
        among: Among::Replicas,
        why,
        otherwise,
        has_net: false,
    })
}

fn any(rules: &Rules, ask: &Ask<'_>) -> Course {
    if let Some(why) = demand(rules, ask) {
        return Course::Primary(why);
    }
    if ask.session.role == Wanted::Replica {
        return replicas(Why::Wanted, Fallback::Primary);
    }
    match side(rules, ask) {
        Side::Primary(why) if why != Why::Anywhere => Course::Primary(why),
        Side::Primary(_) | Side::Readers(_) => Course::Readers(Readers {
            among: Among::All,
            why: Why::Target,
            otherwise: Fallback::Primary,
            has_net: false,
        }),
    }
}

fn prefer_standby(rules: &Rules, ask: &Ask<'_>) -> Course {
    match (demand(rules, ask), ask.session.role) {
        (Some(why), _) => Course::Primary(why),
        (None, Wanted::Replica) => replicas(Why::Wanted, Fallback::Primary),
        (None, Wanted::Auto | Wanted::Primary) => replicas(Why::Target, Fallback::Primary),
    }
}

fn read_write(rules: &Rules, ask: &Ask<'_>) -> Course {
    let split = ask.session.split.unwrap_or(rules.split);
    if split == Split::Off {
        return Course::Primary(Why::Target);
    }
    if let Some(why) = demand(rules, ask) {
        return Course::Primary(why);
    }
    if ask.session.role == Wanted::Replica {
        return replicas(Why::Wanted, rules.fallback);
    }
    let side = match (split, side(rules, ask)) {
        (Split::Hint, Side::Readers(Why::Reads)) if ask.session.is_read_only => {
            Side::Readers(Why::ReadOnly)
        }
        (Split::Hint, Side::Readers(Why::Reads)) => Side::Primary(Why::NoHint),
        (Split::Hint, Side::Readers(Why::UntilWrite)) => Side::Primary(Why::Begin),
        (_, side) => side,
    };
    match side {
        Side::Primary(why) => Course::Primary(why),
        Side::Readers(why) => Course::Readers(Readers {
            among: Among::Replicas,
            why,
            otherwise: rules.fallback,
            // A block that is refused has only read, or only begun, and begins anew on the primary.
            has_net: matches!(ask.access, Access::Begin(_) | Access::Read { .. }),
        }),
    }
}

/// Returns the reason for which the session needs the primary, whatever its text.
fn demand(rules: &Rules, ask: &Ask<'_>) -> Option<Why> {
    if ask.session.role == Wanted::Primary {
        Some(Why::Wanted)
    } else if ask.is_serializable() {
        // A standby refuses even the BEGIN, so a session that wants a replica gains nothing from one.
        Some(Why::Serializable)
    } else if consistency(rules, ask) == Consistency::Primary {
        Some(Why::Consistency)
    } else if ask.has_foreign_token() {
        // Which part of a former timeline belongs to the present one is not known.
        Some(Why::Token)
    } else {
        None
    }
}

/// Returns the consistency that is in force.
pub(crate) fn consistency(rules: &Rules, ask: &Ask<'_>) -> Consistency {
    ask.session.consistency.unwrap_or(rules.consistency)
}

/// Returns the side of a text under `read_write_split = auto`.
fn side(rules: &Rules, ask: &Ask<'_>) -> Side {
    match ask.access {
        Access::Anywhere => Side::Primary(Why::Anywhere),
        Access::Begin(modes) => begin(*modes, rules, ask.session),
        Access::Primary(_) => Side::Primary(Why::Access),
        // Programs that map objects to tables look at the catalogue right after they have changed it, often in
        // another session. Only a rule about freshness bounds how old a replica's answer is.
        Access::Read {
            reads_catalogue: true,
        } if consistency(rules, ask) == Consistency::Eventual => Side::Primary(Why::Catalogue),
        Access::Read { .. } => Side::Readers(Why::Reads),
    }
}

fn begin(modes: Modes, rules: &Rules, session: &RouteState) -> Side {
    match modes.read_only {
        Some(true) => Side::Readers(Why::ReadOnly),
        Some(false) => Side::Primary(Why::Begin),
        None if session.is_read_only => Side::Readers(Why::ReadOnly),
        None if rules.until_write && sees_each_commit(modes, session) => {
            Side::Readers(Why::UntilWrite)
        }
        None => Side::Primary(Why::Begin),
    }
}

/// True for a transaction that is READ COMMITTED: its statements may see what was committed after it began, so it may go
/// on at another host.
fn sees_each_commit(modes: Modes, session: &RouteState) -> bool {
    let isolation = modes.isolation.or(session.isolation);
    isolation.is_none_or(|isolation| isolation == Isolation::ReadCommitted)
}
