//! Mistakes in a file. Each message says in one line what is wrong and what to do about it.

use std::fmt;
use std::sync::Arc;

use crate::limits::{
    DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX, LINE_BYTES_MAX, PROBLEMS_MAX, REGEXES_MAX,
    TOTAL_BYTES_MAX,
};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file's name, as it was given.
    pub file: Arc<str>,
    /// The line, from 1; the first one of joined lines. 0 means the file as a whole.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {mistake}")]
pub struct Problem {
    /// The line that has the mistake.
    pub place: Place,
    /// The mistake, and what to do about it.
    pub mistake: Mistake,
}

/// All mistakes of a file and of those it includes; never empty. The file is refused whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    /// The mistakes in the order of the lines.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let end_of_last = if index == 0 { "" } else { "\n" };
            write!(f, "{end_of_last}{problem}")?;
        }
        Ok(())
    }
}

/// A mistake. No message ever holds the value of an option that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// A regular expression that is valid but means something else in PostgreSQL.
    #[error(
        "{part} in the regular expression \"{pattern}\" means something else in PostgreSQL; write it another way, with a backslash before a character that stands for itself"
    )]
    AmbiguousRegex {
        /// The expression.
        pattern: String,
        /// The part that differs.
        part: &'static str,
    },
    /// An address that looks like an IP address but is none.
    #[error("bad IP address \"{0}\"; write an IPv4 or IPv6 address such as 10.0.0.0/8 or ::1/128")]
    BadAddress(String),
    /// A bad number behind the slash.
    #[error("bad mask length in \"{0}\"; it must be 0 to 32 for IPv4, 0 to 128 for IPv6")]
    BadCidr(String),
    /// A bad host name.
    #[error(
        "bad host name \"{0}\"; write a name, a suffix such as .example.com, an address with a mask length, all, samehost or samenet"
    )]
    BadHostName(String),
    /// A bad LDAP URL.
    #[error("bad ldapurl: {0}; write ldap://host:port/basedn?attribute?scope?filter")]
    BadLdapUrl(&'static str),
    /// A bad mask in its own column.
    #[error(
        "bad IP mask \"{0}\"; write the length behind the address as in 10.0.0.0/8, or a mask such as 255.0.0.0"
    )]
    BadMask(String),
    /// A regular expression that does not compile.
    #[error(
        "bad regular expression \"{pattern}\": {reason}; the syntax is that of the Rust crate regex, which has no back-references and no look-around"
    )]
    BadRegex {
        /// The expression.
        pattern: String,
        /// The compiler's message, in one line.
        reason: String,
    },
    /// A value that the option does not accept.
    #[error("bad value \"{value}\" for option {option}; it must be {expected}")]
    BadValue {
        /// The option.
        option: &'static str,
        /// The value given.
        value: String,
        /// The values accepted.
        expected: &'static str,
    },
    /// A comment that begins inside an option.
    #[error(
        "the # inside an option begins a comment; put double quotes around the value, or a blank before the comment"
    )]
    CommentInOption,
    /// A comment that would swallow the next line.
    #[error(
        "a comment that ends with a backslash takes the next line with it; remove the backslash"
    )]
    CommentContinued,
    /// A file that includes itself.
    #[error("\"{0}\" includes itself; remove one of the include lines")]
    Cycle(String),
    /// Too many levels of files.
    #[error("\"{0}\" is included too deeply; at most {DEPTH_MAX} levels are read")]
    Depth(String),
    /// An option given twice.
    #[error("option {0} is given twice; keep one of them")]
    DuplicateOption(&'static str),
    /// An empty name.
    #[error("empty {0}; write a name, or all")]
    Empty(&'static str),
    /// A regular expression that matches everything.
    #[error("empty regular expression; write all to mean everything")]
    EmptyRegex,
    /// More fields than an ident line has.
    #[error(
        "an ident line has three fields: map name, system user, database user; put double quotes around a name with blanks"
    )]
    ExtraField,
    /// A file that is too long.
    #[error(
        "the file is longer than {FILE_BYTES_MAX} bytes; use + and a role instead of long lists"
    )]
    FileTooLong,
    /// A host name with a mask.
    #[error("\"{0}\" has a host name and a mask length; leave out the mask length")]
    HostNameWithMask(String),
    /// Options that exclude each other.
    #[error("{0}")]
    LdapConflict(&'static str),
    /// A line that is too long.
    #[error(
        "the line is longer than {LINE_BYTES_MAX} bytes; write the names into a file and use @file"
    )]
    LineTooLong,
    /// An address on a line that has none.
    #[error("a local line has no address; remove it, or write host for TCP")]
    LocalAddress,
    /// An address and a mask of different families.
    #[error("the address and the mask are of different families; both must be IPv4 or both IPv6")]
    MaskFamily,
    /// A method that cannot work on this type of line.
    #[error("method {method} cannot work on a line of type {kind}; {advice}")]
    MethodPlace {
        /// The method.
        method: &'static str,
        /// The type of the line.
        kind: &'static str,
        /// Advice on what to do.
        advice: &'static str,
    },
    /// A method that PostgreSQL has and Weir does not.
    #[error(
        "method {0} is not supported; use one of trust, reject, md5, password, scram-sha-256, cert, peer, ldap, pam"
    )]
    MethodUnsupported(String),
    /// A missing field.
    #[error("the {0} is missing; {1}")]
    Missing(&'static str, &'static str),
    /// Several values where one is expected.
    #[error("several values for the {0}; write one line for each")]
    MultipleValues(&'static str),
    /// Bytes that are not UTF-8.
    #[error("the file is not UTF-8; convert it")]
    NotUtf8,
    /// An option that belongs to other methods or line types.
    #[error("option {option} belongs to {belongs_to} only; remove it")]
    OptionPlace {
        /// The option.
        option: &'static str,
        /// The methods or line types that it belongs to.
        belongs_to: &'static str,
    },
    /// An option without `=`.
    #[error(
        "something that is not name=value stands behind the method; options are written name=value without blanks, or name=\"value\" with them"
    )]
    OptionSyntax,
    /// A file that could not be read.
    #[error("cannot read \"{path}\": {reason}; check the name and the permissions")]
    Read {
        /// The file or directory.
        path: String,
        /// The reason.
        reason: String,
    },
    /// An unquoted name that PgBouncer and PostgreSQL read differently.
    #[error(
        "{0} is a keyword in the database column only; put double quotes around it if a user is called so"
    )]
    ReservedUser(String),
    /// An invisible character.
    #[error(
        "unexpected invisible character U+{0:04X}; replace it by a blank, or put double quotes around the name"
    )]
    StrangeCharacter(u32),
    /// `\1` in the database user although the system user captures nothing.
    #[error(
        "the database user has \\1, but the system user captures nothing; write a regular expression with parentheses, as in /^(.*)@example\\.com$"
    )]
    SubstitutionWithoutCapture,
    /// Too many files.
    #[error("more than {FILES_MAX} files are included; put them together")]
    TooManyFiles,
    /// More mistakes than are reported.
    #[error("more than {PROBLEMS_MAX} mistakes; the rest is not shown")]
    TooManyProblems,
    /// Too many regular expressions.
    #[error("more than {REGEXES_MAX} regular expressions; join some with |")]
    TooManyRegexes,
    /// Too much text in all files together.
    #[error(
        "the files are longer than {TOTAL_BYTES_MAX} bytes together; use + and a role instead of long lists"
    )]
    TotalTooLong,
    /// An unknown type of line.
    #[error(
        "unknown type of line \"{word}\"{}; it must be one of local, host, hostssl, hostnossl, hostgssenc, hostnogssenc, include, include_if_exists, include_dir",
        DidYouMean(.suggestion)
    )]
    UnknownKind {
        /// The word given.
        word: String,
        /// The word that may have been meant.
        suggestion: Option<&'static str>,
    },
    /// An unknown method.
    #[error(
        "unknown method \"{word}\"{}; use one of trust, reject, md5, password, scram-sha-256, cert, peer, ldap, pam",
        DidYouMean(.suggestion)
    )]
    UnknownMethod {
        /// The word given.
        word: String,
        /// The word that may have been meant.
        suggestion: Option<&'static str>,
    },
    /// An unknown option.
    #[error("unknown option \"{word}\"{}; put double quotes around a value that holds commas", DidYouMean(.suggestion))]
    UnknownOption {
        /// The text before the `=`.
        word: String,
        /// The word that may have been meant.
        suggestion: Option<&'static str>,
    },
    /// A quote that is never closed.
    #[error("a double quote is not closed; close it, or write two to mean one")]
    UnterminatedQuote,
}

/// Shows a suggestion if there is one.
struct DidYouMean<'a>(&'a Option<&'static str>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(word) => write!(f, "; did you mean \"{word}\"?"),
            None => Ok(()),
        }
    }
}

/// Returns the known word that is nearest to a mistyped one.
pub(crate) fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    // A long word is no typing error; the bound also keeps the quadratic distance cheap.
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    known
        .iter()
        .map(|name| (strsim::osa_distance(&lower, name), *name))
        .filter(|(steps, name)| *steps <= 1 + name.len().min(word.len()) / 4)
        .min_by_key(|pair| pair.0)
        .map(|(_, name)| name)
}
