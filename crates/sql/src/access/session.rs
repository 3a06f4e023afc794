//! State of the session for which a text belongs to the primary.
//!
//! Settings go with the client to every host, so a SET may run on any. All other state either stays on its server, or
//! is a matter of the primary: locks, sequences, channels.

use super::Access;
use crate::effects::{Effects, Resets, Sequences};
use crate::reason::Reason;

/// Returns the state that keeps a text with these effects on the primary; `None` if there is none.
pub(crate) fn state(access: &Access, effects: &Effects) -> Option<&'static str> {
    if let Some(reason) = effects.reasons.iter().next() {
        return Some(reason.words());
    }
    // SET, DEALLOCATE and similar statements do nothing but that.
    if !access.is_read() {
        return None;
    }
    let sets = !effects.asks.is_nothing()
        || effects.resets != Resets::Nothing
        || effects.resets_locally != Resets::Nothing;
    let listens = effects.lists_channels || !effects.channels.is_empty();
    let found = [
        (
            effects.sequences != Sequences::Untouched,
            Reason::Sequence.words(),
        ),
        (effects.unseen, "code that is not known"),
        (sets, "setting"),
        (
            listens || !effects.unlistens.is_empty(),
            Reason::Listen.words(),
        ),
        (effects.names, Reason::Prepared.words()),
        (effects.reads_statistics || effects.wants_new, "statistics"),
        (effects.frees, "lock or cursor"),
        (!effects.defines.is_empty(), "definition"),
    ];
    let mut found = found.into_iter().filter(|(is_found, _)| *is_found);
    found.next().map(|(_, words)| words)
}
