//! Context of a text's meaning: the pool (database and user), and the client's settings.
//!
//! The same text means another table under another `search_path`, is subject to other privileges under another `role`,
//! and reads another literal under another `DateStyle`. So a statement belongs to a context, and two clients share a
//! statement only if nothing differs that could matter. Contexts are compared by pointer: a client's context is
//! computed again only when its settings are another set.
//!
//! PostgreSQL reads a literal once, when it parses the statement, but resolves tables again when necessary. So a
//! statement stays the same if only settings change by which literals are read. On a server that lacks it, it is
//! prepared under the old ones.

use std::collections::HashMap;
use std::sync::Arc;

use super::proven::Proven;
use super::registry::Registry;
use crate::settings::Settings;

/// Settings that cannot change what a Parse resolves, reports or leaves behind (manual, chapter 20). All others count
/// as if they could, including settings of extensions. A needless difference costs a Parse; a missed one gives a wrong
/// answer.
///
/// - names and time limits of running statements: a plan keeps nothing of them;
/// - the connection itself: `tcp_*`, and the check for a client that has left;
/// - `ssl_renegotiation_limit` no longer has an effect, and drivers set it.
///
/// Not listed, although it looks harmless: `client_min_messages`, which decides on the notices of a Parse. Of the
/// `log_*` settings, only those about time and errors are listed; the others are seldom set.
const HARMLESS: [&str; 16] = [
    "application_name",
    "client_connection_check_interval",
    "deadlock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "log_duration",
    "log_min_duration_statement",
    "log_min_error_statement",
    "log_statement",
    "ssl_renegotiation_limit",
    "statement_timeout",
    "tcp_keepalives_count",
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_user_timeout",
];

/// Settings by which a text is read when it is parsed, and never again (manual, 4.1, 8.1 to 8.15, 20.11, 20.13).
const LITERAL: [&str; 10] = [
    "array_nulls",
    "backslash_quote",
    "datestyle",
    "escape_string_warning",
    "intervalstyle",
    "lc_monetary",
    "standard_conforming_strings",
    "timezone",
    "transform_null_equals",
    "xmloption",
];

/// Number of contexts below which unused ones are not looked for.
const SWEEP_MIN: usize = 256;

/// Context of a text's meaning, see the module documentation. Equal contexts are one object per worker.
#[derive(Debug)]
pub(crate) struct Context {
    /// Id, unique in the worker.
    pub(super) id: u64,
    /// Statements of the pool that are known to be valid.
    pub(super) proven: Arc<Proven>,
    /// Names and values, each followed by a NUL; no name or value contains one.
    pub(super) settings: Box<[u8]>,
    /// Settings among these that are read again whenever PostgreSQL replans.
    lasting: Box<[u8]>,
    /// Those by which literals are read.
    literal: Settings,
}

impl Context {
    /// True if a text that was parsed here means the same there, unless it is parsed again.
    pub(super) fn lasts_in(&self, other: &Self) -> bool {
        self.lasting == other.lasting && Arc::ptr_eq(&self.proven, &other.proven)
    }

    /// Returns all settings that matter, by name.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let mut texts = self.settings.split(|byte| *byte == 0);
        let mut text = || {
            texts
                .next()
                .map(|text| String::from_utf8_lossy(text).into_owned())
        };
        let pairs = std::iter::from_fn(|| Some((text()?, text()?)));
        pairs.collect()
    }

    /// Returns the statements that set the settings by which literals are read, and those that set the client's again.
    pub(crate) fn literals(&self, client: &Settings) -> (Vec<String>, Vec<String>) {
        let values = LITERAL.iter().filter_map(|name| {
            let (old, now) = (self.literal.get(name), client.get(name));
            let set = |value| Settings::statement_or_reset(name, value);
            (old != now).then(|| (set(old), set(now)))
        });
        values.unzip()
    }
}

/// A client's context, cached with the settings that it was made from.
#[derive(Debug, Default)]
pub(crate) struct Planned(Option<(Arc<Settings>, Arc<Context>)>);

impl Planned {
    /// Returns the context of a client of this pool with these settings.
    #[inline]
    pub(crate) fn context(
        &mut self,
        settings: &Arc<Settings>,
        registry: &mut Registry,
        pool: &Arc<Proven>,
    ) -> &Arc<Context> {
        let known = self.0.as_ref().is_some_and(|(of, context)| {
            Arc::ptr_eq(of, settings) && Arc::ptr_eq(&context.proven, pool)
        });
        if !known {
            self.0 = None;
        }
        let make = || (Arc::clone(settings), registry.context(settings, pool));
        &self.0.get_or_insert_with(make).1
    }
}

/// All contexts of one worker, bounded by what clients and statements refer to.
#[derive(Debug)]
pub(super) struct Contexts {
    /// Contexts by address of the pool, which a context keeps alive, and settings.
    known: HashMap<(usize, Box<[u8]>), Arc<Context>>,
    next: u64,
    sweep_at: usize,
}

impl Default for Contexts {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            next: 0,
            sweep_at: SWEEP_MIN,
        }
    }
}

impl Contexts {
    pub(super) fn intern(&mut self, settings: &Settings, pool: &Arc<Proven>) -> Arc<Context> {
        let key = (
            Arc::as_ptr(pool) as usize,
            planning_settings(settings, |_| true),
        );
        if let Some(known) = self.known.get(&key) {
            return Arc::clone(known);
        }
        self.next += 1;
        let context = Arc::new(Context {
            id: self.next,
            proven: Arc::clone(pool),
            settings: key.1.clone(),
            lasting: planning_settings(settings, |name| !LITERAL.contains(&name)),
            literal: settings.only(&LITERAL),
        });
        self.known.insert(key, Arc::clone(&context));
        context
    }

    /// True if unused contexts should be looked for; statements must be swept first.
    pub(super) fn is_full(&self) -> bool {
        self.known.len() >= self.sweep_at
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn sweep(&mut self) {
        self.known
            .retain(|_, context| Arc::strong_count(context) > 1);
        self.sweep_at = (2 * self.known.len()).max(SWEEP_MIN);
    }
}

/// True if running a text may change what names mean for the rest of its transaction. Causes are planning settings (SET
/// LOCAL or set_config) and temporary objects that may be gone at its end. This is a mere text search: it may report
/// too much, and does not see what functions do.
///
/// Settings of extensions and applications do not count here: within one session, PostgreSQL too shares a statement
/// among all their values.
pub(crate) fn may_plan_locally(text: &[u8]) -> bool {
    LOCAL.any(text, is_planning_named)
        || SET_CONFIG.any(text, is_planning_named)
        || TEMP.any(text, ends_temporary)
}

/// True if the word that began with `temp` ends here, or is `temporary`.
#[cold]
fn ends_temporary(behind: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let rest = behind.split_at_checked(5);
    let rest = rest.filter(|(letters, _)| letters.eq_ignore_ascii_case(b"orary"));
    let ends = |text: &[u8]| !text.first().is_some_and(is_part);
    ends(behind) || rest.is_some_and(|(_, behind)| ends(behind))
}

/// True if the setting that comes next may affect planning, or is unknown.
#[cold]
fn is_planning_named(behind: &[u8]) -> bool {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let mut name = behind
        .iter()
        .skip_while(|byte| !is_part(byte) && **byte != b'$');
    let name: Vec<u8> = name.by_ref().take_while(is_part).copied().collect();
    let name = String::from_utf8_lossy(&name).to_ascii_lowercase();
    !name.contains('.') && HARMLESS.binary_search(&&*name).is_err()
}

/// True if the client declares the types of all parameters of a text (the Parse message after the name), so that they
/// do not depend on what its names mean.
pub(crate) fn declares_types(definition: &[u8]) -> bool {
    let mut parts = definition.splitn(2, |byte| *byte == 0);
    let (text, rest) = (parts.next().unwrap_or_default(), parts.next());
    let types = rest.and_then(|rest| rest.get(2..)).unwrap_or_default();
    let declared = types.chunks_exact(4).take_while(|oid| *oid != [0; 4]);
    let declared = declared.count();
    let mut parameters = text.split(|byte| *byte == b'$').skip(1);
    parameters.all(|behind| {
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit());
        let number = digits.fold(0_usize, |number, digit| {
            (number.saturating_mul(10)).saturating_add(usize::from(digit - b'0'))
        });
        number <= declared
    })
}

static TEMP: Word<4> = Word::new(*b"temp");
static LOCAL: Word<5> = Word::new(*b"local");
static SET_CONFIG: Word<10> = Word::new(*b"set_config");

/// Word to search for, in any case of characters. Every text of every client is searched, so the search skips bytes
/// (Horspool, Software: Practice and Experience 10, 1980).
#[derive(Debug)]
struct Word<const N: usize> {
    letters: [u8; N],
    /// Distance to the next possible place, by the byte under the word's last character.
    steps: [u8; 256],
}

impl<const N: usize> Word<N> {
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "runs when it is compiled; words are short"
    )]
    const fn new(letters: [u8; N]) -> Self {
        let mut steps = [N as u8; 256];
        let mut at = 0;
        while at + 1 < N {
            let step = (N - 1 - at) as u8;
            steps[letters[at] as usize] = step;
            steps[letters[at].to_ascii_uppercase() as usize] = step;
            at += 1;
        }
        Self { letters, steps }
    }

    /// True if `is_wanted` accepts the text behind the word at one of its places.
    fn any(&self, text: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> bool {
        let mut ends = std::iter::successors(self.find(text, 0), |end| self.find(text, *end));
        ends.any(|end| text.get(end..).is_some_and(&is_wanted))
    }

    /// Returns the end of the first place at or behind `from`.
    #[inline]
    fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let mut end = from + N;
        while let Some(here) = text.get(end - N..end) {
            if here.eq_ignore_ascii_case(&self.letters) {
                return Some(end);
            }
            let step = here
                .last()
                .and_then(|byte| self.steps.get(usize::from(*byte)));
            end += usize::from(step.copied().unwrap_or(1));
        }
        None
    }
}

fn planning_settings(settings: &Settings, is_wanted: impl Fn(&str) -> bool) -> Box<[u8]> {
    let counts = |name: &str| HARMLESS.binary_search(&name).is_err() && is_wanted(name);
    let mut bytes = Vec::new();
    for (name, value) in settings.iter().filter(|(name, _)| counts(name)) {
        for part in [name, value] {
            bytes.extend_from_slice(part.as_bytes());
            bytes.push(0);
        }
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(
        registry: &mut Registry,
        pool: &Arc<Proven>,
        pairs: &[(&str, &str)],
    ) -> Arc<Context> {
        registry.context(&Settings::from_pairs(pairs.iter().copied()), pool)
    }

    #[test]
    fn the_list_of_harmless_names_is_sorted() {
        assert!(HARMLESS.is_sorted());
    }

    #[test]
    fn cor_15_settings_that_change_planning_make_another_context_and_others_do_not() {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        let plain = context(&mut registry, &pool, &[]);
        for harmless in [("application_name", "x"), ("statement_timeout", "7")] {
            assert!(Arc::ptr_eq(
                &plain,
                &context(&mut registry, &pool, &[harmless])
            ));
        }
        let mut seen = vec![plain];
        for pair in [
            ("search_path", "a"),
            ("search_path", "b"),
            ("role", "a"),
            ("my.thing", "a"),
        ] {
            let next = context(&mut registry, &pool, &[pair]);
            assert!(seen.iter().all(|one| !Arc::ptr_eq(one, &next)), "{pair:?}");
            seen.push(next);
        }
    }

    #[test]
    fn cor_15_settings_for_one_transaction_are_seen_in_texts() {
        for text in [
            "SET LOCAL search_path = a",
            "begin; set  local\nrole x",
            "select set_config('search_path', $1, true)",
            "select set_config($1, $2, true)",
            "select set_config('a.b', 'c', true), set_config('role', 'd', true)",
            "create temp table t (v date) on commit drop",
            "SELECT 1 INTO TEMPORARY x",
            "create view pg_temp.t as select 1",
        ] {
            assert!(may_plan_locally(text.as_bytes()), "{text}");
        }
        for text in [
            "select 1",
            "select temperature, attempt, template, temp_max from t",
            "SET LOCAL app.tenant = 'search_path'",
            "set local statement_timeout = 5",
            "select set_config('request.claims', $1, true)",
        ] {
            assert!(!may_plan_locally(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_word_is_found_wherever_it_stands_and_nowhere_else() {
        for text in [
            "local",
            "LoCaL",
            "xlocal",
            "lolocal",
            "localocal",
            "loc al local",
            "llllocal",
        ] {
            let expected = text.to_ascii_lowercase().find("local").map(|at| at + 5);
            assert_eq!(LOCAL.find(text.as_bytes(), 0), expected, "{text}");
        }
        for text in [
            "",
            "loca",
            "ocal",
            "lo cal",
            "locall".get(1..).unwrap(),
            "lokal",
            "lacol",
        ] {
            assert_eq!(LOCAL.find(text.as_bytes(), 0), None, "{text}");
        }
        assert_eq!(LOCAL.find(b"local local", 5), Some(11));
        assert_eq!(SET_CONFIG.find(b"set_confset_config(", 0), Some(18));
    }

    #[test]
    fn two_pools_share_no_context() {
        let mut registry = Registry::new(0, 1);
        let one = context(&mut registry, &Arc::default(), &[]);
        let other = context(&mut registry, &Arc::default(), &[]);
        assert!(!Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn a_client_asks_again_only_when_its_settings_are_another_set() {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        let mut planned = Planned::default();
        let one = Arc::new(Settings::from_pairs([("search_path", "a")]));
        let first = Arc::clone(planned.context(&one, &mut registry, &pool));
        assert!(Arc::ptr_eq(
            &first,
            planned.context(&one, &mut registry, &pool)
        ));
        let other = Arc::new(Settings::from_pairs([("search_path", "b")]));
        assert!(!Arc::ptr_eq(
            &first,
            planned.context(&other, &mut registry, &pool)
        ));
    }

    #[test]
    fn contexts_that_nobody_uses_are_swept_away() {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        let kept = context(&mut registry, &pool, &[]);
        for i in 0..10 * SWEEP_MIN {
            let used = context(&mut registry, &pool, &[("search_path", &i.to_string())]);
            drop(registry.intern(&used, b"x\0\0\0"));
        }
        assert!(registry.context_count() <= SWEEP_MIN + 1);
        assert!(Arc::ptr_eq(&kept, &context(&mut registry, &pool, &[])));
    }

    #[test]
    fn declared_types_are_those_of_all_parameters() {
        let int = [0, 0, 0, 23];
        let body = |text: &str, types: &[[u8; 4]]| {
            let count = u16::try_from(types.len()).unwrap().to_be_bytes();
            [text.as_bytes(), &[0], &count, &types.concat()].concat()
        };
        assert!(declares_types(&body("select 1", &[])));
        assert!(declares_types(&body("select $1, $2, $1", &[int, int])));
        assert!(!declares_types(&body("select $1", &[])));
        assert!(!declares_types(&body("select $1, $2", &[int])));
        assert!(!declares_types(&body("select $1, $2", &[int, [0; 4]])));
        assert!(!declares_types(b"select $99999999999999999999999\0"));
    }
}
