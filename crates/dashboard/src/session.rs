//! Sessions of signed-in users, and passwords of scripts that were right a moment ago. Both are bounded.
//!
//! Times are measured from any fixed moment. A token is 256 random bits; only its hash is kept, so that neither a look-up
//! nor a copy of the memory's map gives a token away.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Time after which a session ends.
pub(crate) const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Time without a page after which an action needs a new login.
pub(crate) const ACTION_IDLE_MAX: Duration = Duration::from_secs(15 * 60);
/// Maximum number of sessions; a further login ends the oldest one.
pub(crate) const SESSIONS_MAX: usize = 256;
/// Time for which a script's password is not checked again.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Hash of a token.
pub(crate) type Key = [u8; 32];

/// Error: the system gives no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub(crate) struct NoRandom;

/// Session of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// Name of the user.
    pub(crate) user: String,
    /// Token that forms of this session carry.
    pub(crate) form_token: String,
    /// Moment of the login.
    pub(crate) since: Duration,
    /// Moment of the last page or action.
    pub(crate) used: Duration,
}

impl Session {
    /// True if the session may act without a new login.
    pub(crate) fn is_fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.used) < ACTION_IDLE_MAX
    }

    /// True if this is the token of the session's forms.
    pub(crate) fn has_form_token(&self, token: &str) -> bool {
        self.form_token.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: HashMap<Key, Session>,
}

/// Draws a token.
///
/// # Errors
/// The system gives no random bytes.
pub(crate) fn token() -> Result<String, NoRandom> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the key under which the session of a token is kept.
pub(crate) fn key(token: &str) -> Key {
    Sha256::digest(token.as_bytes()).into()
}

impl Sessions {
    /// Opens a session; returns its token.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn open(&mut self, user: &str, now: Duration) -> Result<String, NoRandom> {
        self.sessions
            .retain(|_, session| now.saturating_sub(session.since) < LIFETIME);
        if self.sessions.len() >= SESSIONS_MAX {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                self.sessions.remove(&key);
            }
        }
        let token = token()?;
        let session = Session {
            user: user.to_owned(),
            form_token: self::token()?,
            since: now,
            used: now,
        };
        self.sessions.insert(key(&token), session);
        Ok(token)
    }

    /// Returns a session that has not ended.
    pub(crate) fn find(&self, key: &Key, now: Duration) -> Option<&Session> {
        let session = self.sessions.get(key)?;
        (now.saturating_sub(session.since) < LIFETIME).then_some(session)
    }

    /// Notes that the user of a session has asked for a page.
    pub(crate) fn touch(&mut self, key: &Key, now: Duration) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.used = now;
        }
    }

    /// Ends a session.
    pub(crate) fn close(&mut self, key: &Key) {
        self.sessions.remove(key);
    }
}

/// Passwords of scripts that were right a moment ago, as keyed hashes. Spares a key derivation for each request of a
/// script.
#[derive(Debug)]
pub(crate) struct Remembered {
    process_key: Key,
    known: HashMap<Key, Duration>,
}

impl Remembered {
    /// Begins with nothing.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new() -> Result<Self, NoRandom> {
        let mut process_key = [0; 32];
        getrandom::fill(&mut process_key).map_err(|_| NoRandom)?;
        Ok(Self {
            process_key,
            known: HashMap::new(),
        })
    }

    fn key(&self, user: &str, password: &[u8]) -> Key {
        let mut hash = Sha256::new();
        hash.update(self.process_key);
        hash.update((user.len() as u64).to_be_bytes());
        hash.update(user.as_bytes());
        hash.update(password);
        hash.finalize().into()
    }

    /// True if this password was right a moment ago.
    pub(crate) fn is_right(&self, user: &str, password: &[u8], now: Duration) -> bool {
        let since = self.known.get(&self.key(user, password));
        since.is_some_and(|since| now.saturating_sub(*since) < REMEMBERED)
    }

    /// Notes that this password is right.
    pub(crate) fn note(&mut self, user: &str, password: &[u8], now: Duration) {
        self.known
            .retain(|_, since| now.saturating_sub(*since) < REMEMBERED);
        if self.known.len() < SESSIONS_MAX {
            self.known.insert(self.key(user, password), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    #[test]
    fn a_session_ends_after_its_lifetime_and_acts_only_while_it_is_used() {
        let mut sessions = Sessions::default();
        let token = sessions.open("ann", NOW).unwrap();
        assert_eq!(token.len(), 43, "256 bits");
        let key = key(&token);
        let at = |later: Duration| NOW + later;
        let session = sessions.find(&key, NOW).unwrap();
        assert!(session.has_form_token(&session.form_token.clone()));
        assert!(!session.has_form_token(&token));
        assert!(session.is_fresh(at(Duration::from_secs(899))));
        assert!(!session.is_fresh(at(ACTION_IDLE_MAX)));
        sessions.touch(&key, at(ACTION_IDLE_MAX));
        assert!(
            sessions
                .find(&key, NOW)
                .unwrap()
                .is_fresh(at(ACTION_IDLE_MAX))
        );
        assert!(sessions.find(&key, at(LIFETIME)).is_none());
        sessions.close(&key);
        assert!(sessions.find(&key, NOW).is_none());
        assert!(sessions.find(&self::key("guess"), NOW).is_none());
    }

    #[test]
    fn the_number_of_sessions_is_bounded_and_the_least_used_one_goes() {
        let mut sessions = Sessions::default();
        let first = sessions.open("ann", NOW).unwrap();
        for number in 0..SESSIONS_MAX {
            let later = Duration::from_secs(number as u64 + 1);
            sessions.open("ann", NOW + later).unwrap();
        }
        assert_eq!(sessions.sessions.len(), SESSIONS_MAX);
        assert!(sessions.find(&key(&first), NOW).is_none());
    }

    #[test]
    fn a_password_is_remembered_for_a_moment() {
        let mut known = Remembered::new().unwrap();
        known.note("ann", b"pw", NOW);
        assert!(known.is_right("ann", b"pw", NOW + Duration::from_secs(9)));
        assert!(!known.is_right("ann", b"pw", NOW + REMEMBERED));
        assert!(!known.is_right("ann", b"px", NOW));
        assert!(!known.is_right("annp", b"w", NOW));
    }
}
