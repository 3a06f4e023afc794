//! Functions that are known to change their session, built-in ones and those that an administrator
//! lists.

/// What a function does to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Takes a session advisory lock.
    AdvisoryLock,
    /// Gives one back.
    AdvisoryUnlock,
    /// Something that the server cannot be asked about.
    Opaque,
    /// Reads what `nextval` left behind.
    ReadsSequence,
    /// Runs a text of SQL.
    RunsText,
    /// `setseed`
    Seed,
    /// `set_config`
    SetConfig,
    /// Moves a sequence.
    MovesSequence,
    /// `set_limit` of pg_trgm: a setting in disguise.
    TrigramLimit,
    /// Not a function but a word: TEMP, TEMPORARY.
    Temporary,
}

const BUILT_IN: &[(&str, Kind)] = &[
    ("currval", Kind::ReadsSequence),
    ("cursor_to_xml", Kind::RunsText),
    ("cursor_to_xmlschema", Kind::RunsText),
    ("dblink_close", Kind::Opaque),
    ("dblink_connect", Kind::Opaque),
    ("dblink_connect_u", Kind::Opaque),
    ("dblink_disconnect", Kind::Opaque),
    ("dblink_open", Kind::Opaque),
    ("dblink_send_query", Kind::Opaque),
    ("lastval", Kind::ReadsSequence),
    ("nextval", Kind::MovesSequence),
    ("pg_advisory_lock", Kind::AdvisoryLock),
    ("pg_advisory_lock_shared", Kind::AdvisoryLock),
    ("pg_advisory_unlock", Kind::AdvisoryUnlock),
    ("pg_advisory_unlock_all", Kind::AdvisoryUnlock),
    ("pg_advisory_unlock_shared", Kind::AdvisoryUnlock),
    ("pg_backup_start", Kind::Opaque),
    ("pg_backup_stop", Kind::Opaque),
    ("pg_copy_logical_replication_slot", Kind::Opaque),
    ("pg_copy_physical_replication_slot", Kind::Opaque),
    ("pg_create_logical_replication_slot", Kind::Opaque),
    ("pg_create_physical_replication_slot", Kind::Opaque),
    ("pg_replication_origin_session_reset", Kind::Opaque),
    ("pg_replication_origin_session_setup", Kind::Opaque),
    ("pg_start_backup", Kind::Opaque),
    ("pg_stop_backup", Kind::Opaque),
    ("pg_try_advisory_lock", Kind::AdvisoryLock),
    ("pg_try_advisory_lock_shared", Kind::AdvisoryLock),
    ("query_to_xml", Kind::RunsText),
    ("query_to_xml_and_xmlschema", Kind::RunsText),
    ("query_to_xmlschema", Kind::RunsText),
    ("set_config", Kind::SetConfig),
    ("set_limit", Kind::TrigramLimit),
    ("setseed", Kind::Seed),
    ("setval", Kind::MovesSequence),
    ("temp", Kind::Temporary),
    ("temporary", Kind::Temporary),
    ("ts_rewrite", Kind::RunsText),
    ("ts_stat", Kind::RunsText),
];

#[derive(Clone, Debug)]
struct Listed {
    schema: Option<Box<[u8]>>,
    name: Box<[u8]>,
}

/// Names of functions that have effects on the session: those that the administrator lists, and the
/// built-in ones.
#[derive(Clone, Debug)]
pub struct Functions {
    listed: Vec<Listed>,
    /// By first byte: the lengths (bit 63: 63 or more) of the words to look at.
    lengths: Box<[u64; 256]>,
    /// A listed name has letters beyond ASCII, whose case PostgreSQL folds by locale.
    wide: bool,
}

impl Default for Functions {
    fn default() -> Self {
        Self::new(std::iter::empty::<&str>())
    }
}

impl Functions {
    /// The built-in ones and these: folded as PostgreSQL does (lower case unless quoted in the
    /// catalogue), each with or without its schema: `set_tenant`, `app.set_tenant`.
    pub fn new<S: AsRef<str>>(listed: impl IntoIterator<Item = S>) -> Self {
        let listed: Vec<Listed> = listed
            .into_iter()
            .map(|name| Listed::new(name.as_ref()))
            .collect();
        let mut lengths = Box::new([0; 256]);
        let built_in = BUILT_IN.iter().map(|(name, _)| name.as_bytes());
        for name in built_in.chain(listed.iter().map(|listed| &*listed.name)) {
            if let Some((first, bit)) = name.first().map(|first| (*first, length_bit(name.len()))) {
                for first in [first.to_ascii_lowercase(), first.to_ascii_uppercase()] {
                    if let Some(mask) = lengths.get_mut(usize::from(first)) {
                        *mask |= bit;
                    }
                }
            }
        }
        let wide = listed.iter().any(|listed| !listed.name.is_ascii());
        Self {
            listed,
            lengths,
            wide,
        }
    }

    /// Whether a word must be looked at more closely. Never wrongly no.
    #[inline]
    pub(crate) fn may_be(&self, word: &[u8]) -> bool {
        let mask = word
            .first()
            .and_then(|first| self.lengths.get(usize::from(*first)))
            .copied()
            .unwrap_or_default();
        mask & length_bit(word.len()) != 0 || self.wide && !word.is_ascii()
    }

    /// What the word means as a name (folded already), whatever stands before it.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        built_in(name).is_some()
            || self.listed.iter().any(|listed| listed.is(name))
            || self.wide && !name.is_ascii()
            || name.len() > 62
    }

    /// The built-in function of this name.
    pub(crate) fn built_in(&self, name: &[u8]) -> Option<Kind> {
        built_in(name).filter(|kind| *kind != Kind::Temporary)
    }

    /// Whether the administrator lists it. A call without a schema may be any schema's.
    pub(crate) fn is_listed(&self, schema: Option<&[u8]>, name: &[u8]) -> bool {
        self.listed.iter().any(|listed| {
            let same_schema = match (&listed.schema, schema) {
                (Some(ours), Some(theirs)) => &**ours == theirs,
                _ => true,
            };
            same_schema && listed.is(name)
        })
    }
}

fn built_in(name: &[u8]) -> Option<Kind> {
    BUILT_IN
        .binary_search_by(|(known, _)| known.as_bytes().cmp(name))
        .ok()
        .and_then(|place| BUILT_IN.get(place))
        .map(|(_, kind)| *kind)
}

const fn length_bit(length: usize) -> u64 {
    1 << if length < 63 { length } else { 63 }
}

impl Listed {
    fn new(name: &str) -> Self {
        let (schema, name) = match name.rsplit_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, name),
        };
        let cut = |name: &str| {
            name.trim()
                .trim_matches('"')
                .as_bytes()
                .iter()
                .copied()
                .take(63)
                .collect()
        };
        Self {
            schema: schema.map(cut),
            name: cut(name),
        }
    }

    fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}
