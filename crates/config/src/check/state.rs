//! Notes on options about session state that no pool uses.

use crate::raw::Raw;
use crate::settings::{FALLBACK, PoolSettings, Settings};
use crate::state::StateCheck;
use crate::types::{PoolMode, SequenceValues, SessionState};

/// Adds a note for each option that is set but used by no pool.
pub(super) fn check(raw: &mut Raw, settings: &Settings) {
    let is_unused = |is_set: fn(&PoolSettings) -> bool, is_heeded: fn(&PoolSettings) -> bool| {
        let mut set = pools(settings).filter(is_set).peekable();
        set.peek().is_some() && !set.any(|pool| is_heeded(&pool))
    };
    let global = &settings.global;
    let mut databases = settings.databases.values();
    let needs = "it needs pool_mode transaction or statement, and session_state";
    let is_checked = global.session_state_check != StateCheck::Off
        || databases.any(|entry| entry.session_state_check.is_some());
    if is_checked
        && is_unused(
            |pool| pool.session_state_check != StateCheck::Off,
            |pool| is_followed(pool) && pool.session_state != SessionState::Pin,
        )
    {
        raw.note(format!(
            "session_state_check is never used: {needs} track or refuse"
        ));
    }
    let mut databases = settings.databases.values();
    let has_functions = !global.session_state_functions.is_empty()
        || databases.any(|entry| entry.session_state_functions.is_some());
    if has_functions && is_unused(|pool| !pool.session_state_functions.is_empty(), is_followed) {
        raw.note(format!(
            "session_state_functions is never used: {needs} track, pin or refuse"
        ));
    }
    let mut databases = settings.databases.values();
    let mut users = settings.users.values();
    let has_values = global.sequence_values != SequenceValues::default()
        || databases.any(|entry| entry.sequence_values.is_some())
        || users.any(|user| user.sequence_values.is_some());
    if has_values
        && is_unused(
            |pool| pool.sequence_values != SequenceValues::default(),
            |pool| is_followed(pool) && pool.session_state == SessionState::Track,
        )
    {
        raw.note(format!("sequence_values is never used: {needs} track"));
    }
}

fn is_followed(pool: &PoolSettings) -> bool {
    pool.pool_mode != PoolMode::Session && pool.session_state != SessionState::Off
}

/// Returns the pool settings of every database, for users in general and for each user with an override of them.
fn pools(settings: &Settings) -> impl Iterator<Item = PoolSettings> {
    let users = || {
        let users = settings.users.iter();
        let with_rules = users.filter(|(_, u)| {
            u.pool_mode.is_some() || u.session_state.is_some() || u.sequence_values.is_some()
        });
        with_rules.map(|(name, _)| name.as_str()).chain([""])
    };
    let databases = settings.databases.keys();
    databases
        // Any name without an entry of its own finds the fallback's.
        .map(|name| if name == FALLBACK { "\u{1}" } else { name })
        .flat_map(move |name| users().filter_map(move |user| settings.pool(name, user)))
}
