//! Reader of PgBouncer's ini file, with PgBouncer's own grammar, line by line and without regular expressions. Every
//! step consumes at least one byte or one line, so no input can make it loop.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::connstr;
use crate::error::ErrorKind;
use crate::options::Scope;
use crate::point::HostPoint;
use crate::raw::{DATABASE_LEN_MAX, Origin, Raw, Traced, USER_LEN_MAX, Values, quoted};
use crate::value::Dialect;

/// Maximum depth of `%include` (PgBouncer's limit).
const INCLUDE_DEPTH_MAX: usize = 10;
/// Maximum number of files in all, because a tree of includes could grow with a power of its depth.
const FILE_COUNT_MAX: usize = 1_000;

/// The section of a line. It continues past the end of an included file, as in PgBouncer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    None,
    Unknown,
    In(Scope),
}

struct Reader<'a> {
    raw: &'a mut Raw,
    read: &'a mut dyn FnMut(&Path) -> io::Result<String>,
    section: Section,
    /// Where `[pgbouncer]` began, if it has.
    main: Option<Origin>,
    /// The files being read, outermost first.
    stack: Vec<PathBuf>,
    file_count: usize,
    /// Lines of `[hosts]` and `[pools]`, whose databases may follow later.
    parts: Vec<(Scope, String, Values, Origin)>,
}

/// Reads an ini file with its includes.
pub(crate) fn read_file(
    raw: &mut Raw,
    path: &Path,
    read: &mut dyn FnMut(&Path) -> io::Result<String>,
) {
    let at = Origin::File(path.to_string_lossy().into(), 0);
    let stack = Vec::new();
    let mut reader = Reader {
        raw,
        read,
        section: Section::None,
        main: None,
        stack,
        file_count: 0,
        parts: Vec::new(),
    };
    let was_read = reader.file(path, &at);
    reader.add_parts();
    if was_read && reader.main.is_none() && reader.raw.errors.is_empty() {
        let message = "no section [pgbouncer]; a native configuration file must end in .toml";
        reader.raw.fail_at(&at, ErrorKind::Syntax, message);
    }
}

impl Reader<'_> {
    /// Reads one file; mistakes about the file itself are reported at `from`.
    fn file(&mut self, path: &Path, from: &Origin) -> bool {
        let name = path.to_string_lossy();
        self.file_count += 1;
        if self.file_count > FILE_COUNT_MAX {
            self.raw
                .fail_at(from, ErrorKind::Syntax, "too many files are included");
            return false;
        }
        let text = match (self.read)(path) {
            Ok(text) => text,
            Err(why) => {
                let message = format!("cannot read {}: {why}", quoted(&name));
                self.raw.fail_at(from, ErrorKind::Read, message);
                return false;
            }
        };
        self.stack.push(path.to_owned());
        let file: Arc<str> = name.into();
        for (number, line) in (1u32..).zip(text.lines()) {
            if self.raw.is_full() {
                break;
            }
            self.line(line.trim(), &Origin::File(Arc::clone(&file), number));
        }
        self.stack.pop();
        true
    }

    fn line(&mut self, line: &str, at: &Origin) {
        if line.contains('\0') {
            self.raw
                .fail_at(at, ErrorKind::Syntax, "a NUL byte is not allowed");
        } else if let Some(rest) = line.strip_prefix('[') {
            self.enter(rest, at);
        } else if let Some(rest) = line.strip_prefix('%') {
            self.include(rest, at);
        } else if line.is_empty() {
            self.raw.trace(|| Traced::Blank);
        } else if line.starts_with([';', '#']) {
            let text = line.trim_start_matches([';', '#']);
            self.raw.trace(|| Traced::Comment(text.trim().to_owned()));
        } else {
            self.assign(line, at);
        }
    }

    fn enter(&mut self, rest: &str, at: &Origin) {
        let (name, tail) = rest.split_once(']').unwrap_or((rest, "unclosed"));
        // PgBouncer ignores the rest of the line. Here it is a mistake, unless it is a comment.
        let is_whole = tail.is_empty() || tail.trim_start().starts_with([';', '#']);
        self.section = match name {
            _ if !is_whole => Section::Unknown,
            "pgbouncer" => Section::In(Scope::Global),
            "databases" => Section::In(Scope::Database),
            "hosts" => Section::In(Scope::Host),
            "listeners" => Section::In(Scope::Listener),
            "pools" => Section::In(Scope::Pool),
            "users" => Section::In(Scope::User),
            "peers" => Section::In(Scope::Peer),
            _ => Section::Unknown,
        };
        if self.section == Section::In(Scope::Global) {
            self.enter_main(at);
        }
        if let Section::In(scope) = self.section {
            return self.raw.trace(|| Traced::Section(scope));
        }
        let known = [
            "databases",
            "hosts",
            "listeners",
            "peers",
            "pgbouncer",
            "pools",
            "users",
        ];
        let message = match is_whole {
            true => format!("unknown section {}", quoted(name)),
            false => "a section must be [name] with nothing behind it".to_owned(),
        };
        let mut error = crate::raw::error_at(at, ErrorKind::UnknownKey, message);
        error.suggestion = crate::options::nearest(name, known.into_iter()).map(str::to_owned);
        self.raw.fail(error);
    }

    /// Resets the options to their defaults, as PgBouncer does each time it enters the section.
    fn enter_main(&mut self, at: &Origin) {
        let before = self.main.replace(at.clone());
        if let Some(before) = before.filter(|_| !self.raw.global.is_empty()) {
            self.raw.global.clear();
            self.raw.note(format!(
                "{at}: [pgbouncer] begins again, so the options set under {before} are dropped, \
                 as in PgBouncer"
            ));
        }
    }

    fn include(&mut self, rest: &str, at: &Origin) {
        let path = rest
            .strip_prefix("include")
            .filter(|p| p.starts_with([' ', '\t']));
        let Some(path) = path.map(str::trim) else {
            self.raw
                .fail_at(at, ErrorKind::Syntax, "the only directive is %include FILE");
            return;
        };
        let path = PathBuf::from(path);
        if self.stack.contains(&path) {
            let message = format!("{} includes itself", quoted(&path.to_string_lossy()));
            self.raw.fail_at(at, ErrorKind::Syntax, message);
        } else if self.stack.len() > INCLUDE_DEPTH_MAX {
            let message = format!("%include nests deeper than {INCLUDE_DEPTH_MAX}");
            self.raw.fail_at(at, ErrorKind::Syntax, message);
        } else {
            self.file(&path, at);
        }
    }

    fn assign(&mut self, line: &str, at: &Origin) {
        let more = match self.section {
            Section::In(Scope::Host) => "/:[]@",
            Section::In(Scope::Pool) => "/",
            _ => "",
        };
        let (key, value) = match split_assignment(line, more) {
            Ok(pair) => pair,
            Err(message) => return self.raw.fail_at(at, ErrorKind::Syntax, message),
        };
        match self.section {
            Section::In(Scope::Global) => self.global(&key, value, at),
            Section::In(scope) => self.entry(scope, key, value, at),
            // Already reported with the section's header.
            Section::Unknown => {}
            Section::None => {
                let message = "a key stands before the first section; \
                               a native configuration file must end in .toml";
                self.raw.fail_at(at, ErrorKind::Syntax, message);
                self.section = Section::Unknown;
            }
        }
    }

    fn global(&mut self, key: &str, value: &str, at: &Origin) {
        if let Some(opt) = self
            .raw
            .find(Scope::Global, key, "in section [pgbouncer]", at)
        {
            let mut global = std::mem::take(&mut self.raw.global);
            self.raw
                .parse_into(&mut global, opt, value, Dialect::Ini, at);
            self.raw.global = global;
            self.raw.trace(|| Traced::Global(opt.name, at.clone()));
        }
    }

    fn entry(&mut self, scope: Scope, name: String, value: &str, at: &Origin) {
        let mut values = Values::new();
        let section = match scope {
            Scope::Database => "in section [databases]",
            Scope::Host => "in section [hosts]",
            Scope::Listener => "in section [listeners]",
            Scope::Pool => "in section [pools]",
            Scope::User => "in section [users]",
            _ => "in section [peers]",
        };
        let dialect = match scope {
            // Sections of Weir's own, so flags may be words.
            Scope::Host | Scope::Listener | Scope::Pool => Dialect::Native,
            _ => Dialect::Entry,
        };
        let mut after_password = false;
        connstr::parse(value, self.raw, at, |raw, key, text| {
            let is_known = scope.find(key).is_some();
            // An unknown word after a password may be a part of it, so it is not repeated in the message.
            after_password = key == "password" || (after_password && !is_known);
            if after_password && !is_known && scope.nearest(key).is_none() {
                let message = "unknown key after \"password\" in section [databases]; \
                               a password with blanks needs single quotes";
                raw.fail_at(at, ErrorKind::UnknownKey, message);
            } else if let Some(opt) = raw.find(scope, key, section, at) {
                // PgBouncer's mark for "inherit the global option".
                let inherits = text == "-1" && opt.default.is_none() && opt.kind.is_number();
                if !inherits {
                    raw.parse_into(&mut values, opt, text, dialect, at);
                }
            }
        });
        self.raw
            .trace(|| Traced::Entry(scope, name.clone(), at.clone()));
        match scope {
            Scope::Host | Scope::Pool => self.parts.push((scope, name, values, at.clone())),
            _ => insert_entry(self.raw, scope, name, values, at),
        }
    }

    /// Adds the lines of `[hosts]` and `[pools]` to their databases.
    fn add_parts(&mut self) {
        for (scope, key, values, at) in std::mem::take(&mut self.parts) {
            let added = match scope {
                Scope::Pool => split_pool(&key, self.raw)
                    .map(|(database, user)| self.raw.insert_pool(database, user, values, &at)),
                _ => split_host(&key, self.raw)
                    .map(|(database, point)| self.raw.insert_host(database, point, values, &at)),
            };
            if let Err(message) = added {
                self.raw.fail_at(&at, ErrorKind::BadValue, message);
            }
        }
    }
}

/// Splits `DATABASE/HOST` or `DATABASE/HOST:PORT`. Both parts may have slashes, so the longest name of a database that
/// exists decides.
pub(crate) fn split_host(key: &str, raw: &Raw) -> Result<(String, HostPoint), String> {
    let Some((database, host)) = split_known(key, raw) else {
        return Err(match key.split_once('/') {
            Some((database, _)) => format!("no database {} in [databases]", quoted(database)),
            None => {
                "a line of [hosts] must be DATABASE/HOST = ... or DATABASE/HOST:PORT = ...".into()
            }
        });
    };
    match HostPoint::parse(host) {
        Ok(point) => Ok((database.to_owned(), point)),
        Err(why) => Err(format!("bad host {}: {why}", quoted(host))),
    }
}

/// Splits `DATABASE/USER`. Both names may have slashes, so the longest name of a database that exists decides. A database
/// of the fallback ends at the first slash.
pub(crate) fn split_pool(key: &str, raw: &Raw) -> Result<(String, String), String> {
    let first = || key.split_once('/');
    match split_known(key, raw).or_else(first) {
        Some((database, user)) => Ok((database.to_owned(), user.to_owned())),
        None => Err("a line of [pools] must be DATABASE/USER = ...".into()),
    }
}

/// Splits a key behind the longest name of a database that exists.
fn split_known<'a>(key: &'a str, raw: &Raw) -> Option<(&'a str, &'a str)> {
    let slashes = key
        .match_indices('/')
        .take_while(|(at, _)| *at <= DATABASE_LEN_MAX);
    let parts = slashes.filter_map(|(at, _)| key.split_at_checked(at));
    let known = parts.filter(|(name, _)| raw.databases.contains_key(*name));
    let (database, rest) = known.last()?;
    Some((database, rest.strip_prefix('/').unwrap_or(rest)))
}

/// Adds a checked entry of `[databases]`, `[users]` or `[peers]` by its name.
pub(crate) fn insert_entry(raw: &mut Raw, scope: Scope, name: String, values: Values, at: &Origin) {
    let entry = (values, at.clone());
    let bytes_max = if scope == Scope::Database {
        DATABASE_LEN_MAX
    } else {
        USER_LEN_MAX
    };
    if name.is_empty() || name.contains('\0') || name.len() > bytes_max {
        let message = format!("a name must have 1 to {bytes_max} bytes and no NUL byte");
        return raw.fail_at(at, ErrorKind::BadValue, message);
    }
    let shown = name.clone();
    let before = match scope {
        Scope::Database => raw.databases.insert(name, entry),
        Scope::Listener => raw.listeners.insert(name, entry),
        Scope::User => raw.users.insert(name, entry),
        Scope::Global | Scope::Host | Scope::Peer | Scope::Pool => {
            match name.parse().ok().filter(|id| (1..=65_535).contains(id)) {
                Some(id) => raw.peers.insert(id, entry),
                None => {
                    let message = format!(
                        "a peer's id must be from 1 to 65535, not {}",
                        quoted(&shown)
                    );
                    return raw.fail_at(at, ErrorKind::BadValue, message);
                }
            }
        }
    };
    if let Some((_, before)) = before {
        raw.repeated(&shown, at, &before);
    }
}

/// Splits `key = value`. The key is `[A-Za-z0-9_.*-]+`, or anything in single quotes with `''` for a quote.
/// Keys may also have the characters of `more`.
fn split_assignment<'a>(line: &'a str, more: &str) -> Result<(String, &'a str), &'static str> {
    let (key, rest) = match line.strip_prefix('\'') {
        Some(rest) => connstr::unquote(rest).ok_or("the single quote of the key does not end")?,
        None => {
            let plain =
                |c: char| c.is_ascii_alphanumeric() || "_.*-".contains(c) || more.contains(c);
            let rest = line.trim_start_matches(plain);
            let key = line.get(..line.len() - rest.len()).unwrap_or_default();
            (key.to_owned(), rest)
        }
    };
    match rest.trim_start().strip_prefix('=') {
        Some(value) if !key.is_empty() => Ok((key, value.trim())),
        _ if line.starts_with('"') => Err("a name is quoted by single quotes, not by double ones"),
        _ => Err("expected key = value, a [section] or a comment"),
    }
}
