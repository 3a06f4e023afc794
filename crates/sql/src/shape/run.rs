//! Runs of the tokens that most statements consist of, read and hashed in one go.
//!
//! Walks that write no text spend most of their time here. A run has words, numbers, parameters, operators and white space. It adds to the hash what [`Walk::token`] adds for the same
//! tokens, and must stop in front of each token that it does not know: quotes, comments, and words that the walk looks for.

use super::mixer::{Mixer, WORD, folded};
use super::{LITERAL, Last, Walk};
use crate::lex::{IDENTIFIER, number_end};
use crate::table::PerByte;

/// Kind of token that a byte begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Close,
    Comma,
    Digit,
    Dollar,
    Dot,
    MinusOrSlash,
    Open,
    Operator,
    Space,
    Stop,
    Word,
}

static STEPS: PerByte<Step> = steps();

const fn step(byte: u8) -> Step {
    match byte {
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Step::Space,
        b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80..=0xff => Step::Word,
        b'0'..=b'9' => Step::Digit,
        b'$' => Step::Dollar,
        b'.' => Step::Dot,
        b',' => Step::Comma,
        b'(' | b'[' => Step::Open,
        b')' | b']' => Step::Close,
        b'-' | b'/' => Step::MinusOrSlash,
        0 | b'\'' | b'"' | b';' => Step::Stop,
        _ => Step::Operator,
    }
}

const fn steps() -> PerByte<Step> {
    let mut table = PerByte::new([Step::Stop; 256]);
    let mut byte = u8::MAX;
    while byte > 0 {
        table.set(byte, step(byte));
        byte -= 1;
    }
    table
}

/// Words that the walk looks for, as [`folded`] has them.
const CREATE: u64 = short(b"create");
const ATOMIC: u64 = short(b"atomic");
const IN: u64 = short(b"in");
const VALUES: u64 = short(b"values");

const fn short(word: &[u8]) -> u64 {
    match word {
        [] => 0,
        [first, rest @ ..] => *first as u64 | short(rest) << 8,
    }
}

/// State of a walk as far as a run changes it.
struct Run<'a> {
    /// Text that has not been read yet.
    rest: &'a [u8],
    /// Length of `rest` behind the last token, where white space may follow.
    end: usize,
    mixer: Mixer,
    last: Last,
    depth: u32,
    is_in_list: bool,
}

impl Walk<'_> {
    /// Reads tokens up to the first one that only [`Walk::token`] knows, if the text is hashed only. There may be none.
    #[inline]
    pub(super) fn run(&mut self) {
        let list = self.lists.last();
        // Only a parenthesis or a comma lets such a list go on.
        let is_between_rows = list.is_some_and(|list| list.is_values && list.depth == self.depth);
        let may_begin_list = matches!(self.last, Last::InOpen | Last::Values);
        if self.text.is_some() || is_between_rows || may_begin_list {
            return;
        }
        let rest = without_spaces(self.lexer.rest());
        let mut run = Run {
            rest,
            end: rest.len(),
            mixer: self.hasher,
            last: self.last,
            depth: self.depth,
            is_in_list: list.is_some(),
        };
        run.read();
        if run.end == rest.len() {
            return;
        }
        if !self.has_begun {
            self.has_begun = true;
            self.start = self.input.len() - rest.len();
        }
        self.end = self.input.len() - run.end;
        self.lexer.go_to(self.end);
        self.hasher = run.mixer;
        self.last = run.last;
        self.depth = run.depth;
    }
}

impl Run<'_> {
    #[inline(always)]
    fn read(&mut self) {
        while let Some(byte) = self.rest.first().copied() {
            let is_read = match STEPS.at(byte) {
                Step::Word => self.word(),
                Step::Space => {
                    self.rest = without_spaces(self.rest);
                    true
                }
                Step::Operator if byte == b'*' => self.sign(byte, Last::Name),
                Step::Operator => self.sign(byte, Last::Other),
                Step::Digit => self.number(),
                Step::Comma if !self.is_in_list => self.sign(byte, Last::Other),
                Step::Dot if self.last == Last::Name => self.sign(byte, Last::Other),
                Step::Dollar => self.parameter(),
                Step::Open if !self.is_in_list && self.last != Last::In => {
                    self.depth += 1;
                    self.sign(byte, Last::Other)
                }
                Step::Close if !self.is_in_list => {
                    self.depth = self.depth.saturating_sub(1);
                    self.sign(byte, Last::Name)
                }
                // Not a comment.
                Step::MinusOrSlash if !matches!(self.rest.get(1), Some(b'-' | b'*')) => {
                    self.sign(byte, Last::Other)
                }
                _ => false,
            };
            if !is_read {
                break;
            }
            if let [b' ', behind @ ..] = self.rest {
                self.rest = behind;
            }
        }
    }

    #[inline(always)]
    fn skip(&mut self, len: usize) {
        self.rest = self.rest.get(len..).unwrap_or_default();
        self.end = self.rest.len();
    }

    #[inline(always)]
    fn sign(&mut self, byte: u8, next: Last) -> bool {
        self.mixer.byte(byte);
        self.last = next;
        self.skip(1);
        true
    }

    /// Reads an identifier. False if the walk has to look at the word, or a quote follows that may belong to it.
    #[inline(always)]
    fn word(&mut self) -> bool {
        let mut rest = self.rest;
        let (mut word, mut len) = part(rest);
        let may_quote = || matches!(rest.get(1), Some(b'\'' | b'&'));
        if len < WORD && (matches!(word, ATOMIC | CREATE | IN | VALUES) || len == 1 && may_quote())
        {
            return false;
        }
        while len == WORD {
            self.mixer.word(word);
            rest = rest.get(WORD..).unwrap_or_default();
            (word, len) = part(rest);
        }
        self.mixer.last(word, len);
        self.rest = rest.get(len..).unwrap_or_default();
        self.end = self.rest.len();
        self.last = Last::Name;
        true
    }

    #[inline(always)]
    fn number(&mut self) -> bool {
        let digits = self.rest.iter().skip(1);
        let len = 1 + digits.take_while(|byte| byte.is_ascii_digit()).count();
        self.skip(number_end(self.rest, len));
        // As in the walk, neighbours count once.
        if self.last != Last::Literal {
            self.mixer.byte(LITERAL);
        }
        self.last = Last::Literal;
        true
    }

    /// Reads `$1`. False if no number follows.
    #[inline(always)]
    fn parameter(&mut self) -> bool {
        let digits = self.rest.iter().skip(1);
        let len = digits.take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            return false;
        }
        self.mixer.byte(LITERAL);
        self.last = Last::Literal;
        self.skip(len + 1);
        true
    }
}

/// Returns up to eight bytes of an identifier at the beginning of a text, [`folded`] and with zeros behind them, and their number.
///
/// Compares byte by byte, since the processor guesses the end and goes on. A number computed from all eight bytes has to be
/// waited for, and was slower.
#[inline(always)]
fn part(text: &[u8]) -> (u64, usize) {
    let Some(bytes) = text.first_chunk::<WORD>() else {
        return short_part(text);
    };
    let word = folded(u64::from_le_bytes(*bytes));
    match bytes.iter().position(|byte| !IDENTIFIER.at(*byte)) {
        None => (word, WORD),
        Some(len) => (word & !(u64::MAX << (8 * len)), len),
    }
}

/// Does the same as [`part`] for a text of fewer than eight bytes.
#[inline(never)]
fn short_part(text: &[u8]) -> (u64, usize) {
    let mut bytes = [0; WORD];
    bytes
        .iter_mut()
        .zip(text)
        .for_each(|(to, from)| *to = *from);
    part(&bytes)
}

/// Returns a text without the white space at its beginning.
#[inline(always)]
fn without_spaces(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let [byte, behind @ ..] = rest
        && STEPS.at(*byte) == Step::Space
    {
        rest = behind;
    }
    rest
}
