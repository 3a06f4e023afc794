//! Effects of a statement about data that passes in pieces, so that its text is never complete in memory.
//!
//! Only single words are read, wherever they stand. A constant or a comment counts like the rest, so that no context is
//! needed. This finds at least what a reader of the whole text would find. It rarely finds more: only in data that
//! contains the name of a function which changes settings.

use crate::code;
use crate::effects::Effects;
use crate::functions::{Functions, Kind, Meaning, NAME_MAX};
use crate::reason::Reason;
use crate::table::PerByte;
use crate::words;

/// Maximum length of a character in bytes; PostgreSQL truncates names between characters.
const LETTER_MAX: usize = 4;

/// Bytes of words: 1 if a word may begin with the byte, 2 if it may only continue one.
const WORD: PerByte<u8> = {
    let mut table = PerByte::new([0; 256]);
    let mut byte = 0_u8;
    loop {
        if byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii() {
            table.set(byte, 1);
        } else if byte.is_ascii_digit() {
            table.set(byte, 2);
        }
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// Reads a text by its words, piece by piece.
#[derive(Clone, Debug)]
pub struct Pieces {
    /// Beginning of a word that was cut by the end of the last piece.
    cut: [u8; NAME_MAX],
    /// Length of that word in bytes, including those that did not fit into `cut`.
    length: usize,
    /// Number of bytes of `U&"` just read.
    escape: u8,
    is_first: bool,
}

impl Default for Pieces {
    fn default() -> Self {
        Self {
            cut: [0; NAME_MAX],
            length: 0,
            escape: 0,
            is_first: true,
        }
    }
}

impl Pieces {
    /// Returns the effects of the words that end in this piece. The text must end in a byte that belongs to no word,
    /// such as the protocol's NUL.
    pub(crate) fn read(&mut self, piece: &[u8], functions: &Functions) -> Option<Effects> {
        let mut found = Effects::default();
        if std::mem::take(&mut self.is_first) {
            let always = functions.catalogue().always();
            found = always.cloned().unwrap_or_default().of_objects();
            if functions.has_nameless() {
                found.leaves(Reason::Function);
            }
        }
        let mut rest = piece;
        while let Some((&first, behind)) = rest.split_first() {
            let kind = WORD.at(first);
            if kind == 1 || kind == 2 && self.length > 0 {
                let (word, behind) = rest.split_at(word_length(rest));
                rest = behind;
                if self.length > 0 || rest.is_empty() {
                    self.keep(word);
                } else if functions.may_mean(word) || word.len() == 1 || word.len() > NAME_MAX {
                    self.word(word, functions, &mut found);
                }
                continue;
            }
            rest = behind;
            if self.length > 0 {
                self.end_word(functions, &mut found);
            }
            if self.escape > 0 {
                self.escape = match (self.escape, first) {
                    (1, b'&') => 2,
                    (2, b'"') => {
                        found.leaves(Reason::Unknown);
                        0
                    }
                    _ => 0,
                };
            }
        }
        (!found.is_harmless()).then_some(found)
    }

    fn keep(&mut self, more: &[u8]) {
        let room = self.cut.iter_mut().skip(self.length);
        room.zip(more).for_each(|(place, byte)| *place = *byte);
        self.length += more.len();
    }

    /// Handles the end of a word that was cut by the end of the last piece.
    fn end_word(&mut self, functions: &Functions, found: &mut Effects) {
        let length = std::mem::take(&mut self.length);
        // A word that exceeds `cut` is longer than any name.
        let cut = self.cut;
        self.word(cut.get(..length).unwrap_or(&cut), functions, found);
    }

    fn word(&mut self, word: &[u8], functions: &Functions, found: &mut Effects) {
        self.escape = u8::from(matches!(word, b"u" | b"U"));
        meant(word, functions, found);
    }
}

fn word_length(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| WORD.at(*byte) == 0);
    end.unwrap_or(text.len())
}

/// Adds the effects that a use of the word may have.
#[inline]
fn meant(word: &[u8], functions: &Functions, found: &mut Effects) {
    let name = word.get(..NAME_MAX).unwrap_or(word);
    if name.len() == NAME_MAX && !name.is_ascii() {
        (0..LETTER_MAX).for_each(|cut| {
            let name = name.get(..NAME_MAX - cut).unwrap_or(name);
            add(name, functions, found);
        });
    } else if functions.may_mean(name) {
        add(name, functions, found);
    }
}

#[cold]
fn add(name: &[u8], functions: &Functions, found: &mut Effects) {
    if functions.is_in_quotes(name) {
        found.leaves(Reason::Function);
    }
    let effects = match functions.meaning(name) {
        Some(Meaning::Catalogued) => functions.catalogue().any(name),
        Some(Meaning::Call(Kind::RunsText)) => code::anything(),
        Some(Meaning::Call(kind)) => {
            let mut effects = Effects::default();
            words::call(kind, &mut effects);
            effects
        }
        Some(Meaning::Listed | Meaning::Unknown) => {
            let mut effects = Effects::default();
            effects.leaves(Reason::Function);
            effects
        }
        Some(Meaning::Statistics) => {
            found.reads_statistics = true;
            return;
        }
        // The server can report the rest.
        _ => return,
    };
    let (sequences, before) = (effects.sequences, std::mem::take(found));
    *found = before.join(effects.of_objects());
    found.sequences(sequences);
}

/// Returns the longest word of a name that needs quotes, in lower case; it occurs wherever the name does. `None` if the
/// name is itself a word.
pub(crate) fn word_in(name: &[u8]) -> Option<Box<[u8]>> {
    let is_word = name.first().is_some_and(|first| WORD.at(*first) == 1);
    if is_word && word_length(name) == name.len() {
        return None;
    }
    let runs = name.split(|byte| WORD.at(*byte) == 0);
    let words = runs.map(|run| {
        let digits = run.iter().take_while(|byte| WORD.at(**byte) == 2).count();
        run.get(digits..).unwrap_or_default()
    });
    let longest = words.max_by_key(|word| word.len()).unwrap_or_default();
    Some(longest.to_ascii_lowercase().into())
}
