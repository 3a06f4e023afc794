//! SQLSTATE codes: five characters that identify an error, and PostgreSQL's names for them.

use std::fmt;

/// Turns the rows of the table into constants and a list of condition names.
macro_rules! codes {
    ($($constant:ident = $code:literal $($name:literal)?;)*) => {
        impl SqlState {
            $(
                #[doc = concat!("SQLSTATE `", $code, "`.")]
                pub const $constant: Self = Self::from_literal($code);
            )*
        }

        /// Codes that have a condition name, in the order of the file.
        pub(super) static CONDITIONS: &[(SqlState, &str)] =
            &[$($((SqlState::$constant, $name),)?)*];
    };
}

mod codes;

/// A SQLSTATE: five ASCII digits or capitals. The constants are PostgreSQL's whole table (manual, appendix "PostgreSQL
/// Error Codes"), named like its `ERRCODE_…` macros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// Returns the code of five digits or capitals; `None` for anything else.
    #[must_use]
    pub const fn from_bytes(code: [u8; 5]) -> Option<Self> {
        let [a, b, c, d, e] = code;
        if is_code(a) && is_code(b) && is_code(c) && is_code(d) && is_code(e) {
            Some(Self(code))
        } else {
            None
        }
    }

    /// Returns a code of the table; an invalid literal does not compile.
    const fn from_literal(code: &str) -> Self {
        let Some(bytes) = code.as_bytes().first_chunk() else {
            panic!("a code has five bytes")
        };
        let Some(state) = Self::from_bytes(*bytes) else {
            panic!("not digits and letters")
        };
        state
    }

    /// Does the same as [`SqlState::from_bytes`] for the value of an error field.
    #[must_use]
    pub fn from_slice(code: &[u8]) -> Option<Self> {
        code.try_into().ok().and_then(Self::from_bytes)
    }

    /// Returns the five characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("both constructors admit ASCII only")
    }

    /// Returns the five characters as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 5] {
        &self.0
    }

    /// Returns the first two characters, which name the class.
    #[must_use]
    pub const fn class(self) -> [u8; 2] {
        let [a, b, ..] = self.0;
        [a, b]
    }

    /// Returns PostgreSQL's condition name, for example `syntax_error`. `None` if its table does not contain the code,
    /// or has no name for it.
    #[must_use]
    pub fn condition(self) -> Option<&'static str> {
        codes::CONDITIONS
            .iter()
            .find(|(code, _)| *code == self)
            .map(|(_, name)| *name)
    }

    /// Returns the five characters of a code in PostgreSQL's table. `None` for an invented code (`RAISE` accepts any),
    /// so that data kept by code is bounded.
    #[must_use]
    pub fn known(self) -> Option<&'static str> {
        codes::CONDITIONS
            .iter()
            .find(|(code, _)| *code == self)
            .map(|(code, _)| code.as_str())
    }
}

const fn is_code(byte: u8) -> bool {
    byte.is_ascii_digit() || byte.is_ascii_uppercase()
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlState({})", self.as_str())
    }
}
