//! Shapes: what is left of a statement without literals, white space and comments.
//!
//! Statements of one shape are counted as one. A shape is found in one pass over the tokens, at a small part of the cost of a
//! parse. PostgreSQL's grammar gives statements about data the same [fingerprint](crate::fingerprint) if they have the same
//! shape. The converse does not hold: other aliases, or a name in quotes, make another shape.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;

use crate::fingerprint::STATEMENT_MAX;
use crate::lex::{Lexer, Reading, Token};
use crate::short::{SHORT_MAX, Short, slot};
use kept::Kept;
use mixer::Mixer;

mod kept;
mod mixer;
mod run;

/// Maximum depth of lists whose repeated items count once. Deeper lists keep their items.
const LISTS_MAX: usize = 4;

/// Maximum number of bytes of a text that its shapes depend on.
pub const SHAPE_MAX: usize = 8 * 1024;

/// Stands for a literal, for a word in quotes, and for a literal of which the end is missing.
const LITERAL: u8 = b'?';
const QUOTED: u8 = b'"';
const OPEN_END: u8 = 0;

/// Key of a shape: a hash with a secret seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeKey(pub u64);

/// Finds shapes, with one seed. A client that does not know the seed cannot make two shapes with one key.
/// Keeps the shapes of one text ([`Shaper::shapes_and_keep`]).
pub struct Shaper {
    mixer: Mixer,
    last: Cell<Option<Box<Kept>>>,
    /// Shapes of short texts ([`Shaper::first`]).
    firsts: Cell<Option<Box<Short<Option<ShapeKey>>>>>,
}

impl Clone for Shaper {
    fn clone(&self) -> Self {
        Self {
            mixer: self.mixer,
            last: Cell::default(),
            firsts: Cell::default(),
        }
    }
}

impl fmt::Debug for Shaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed is secret.
        f.debug_struct("Shaper").finish_non_exhaustive()
    }
}

impl Shaper {
    /// Creates a shaper. Shapers with the same seed find the same keys.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            mixer: Mixer::new(seed),
            last: Cell::default(),
            firsts: Cell::default(),
        }
    }

    /// Calls `visit` with the shape and the place of each statement in a text; statements without a word do not count.
    ///
    /// ```
    /// use weir_sql::Shaper;
    ///
    /// let shaper = Shaper::new(1);
    /// let mut keys = Vec::new();
    /// shaper.shapes(b"SELECT 1; select  2 -- two", true, &mut |key, _| keys.push(key));
    /// assert_eq!(keys[0], keys[1]);
    /// ```
    ///
    /// A text that is not whole, and what follows the first 8 KiB of a text, ends open: such statements have a shape of their
    /// own, which depends on the beginning, and not on the number of rows or items that follow.
    pub fn shapes(
        &self,
        text: &[u8],
        is_whole: bool,
        visit: &mut dyn FnMut(ShapeKey, Range<usize>),
    ) {
        if self.visit_kept(text, is_whole, visit) {
            return;
        }
        let mut walk = self.walk(text, is_whole);
        while let Some((key, range)) = walk.statement() {
            visit(key, range);
        }
    }

    /// Returns the shape of the first statement in a text, as with [`Shaper::shapes`]; `None` if there is none. Keeps the
    /// shapes of short texts: it is meant for texts whose values are parameters, which programs repeat.
    #[must_use]
    #[inline]
    pub fn first(&self, text: &[u8], is_whole: bool) -> Option<ShapeKey> {
        if !is_whole || text.len() > SHORT_MAX {
            return self.find_first(text, is_whole);
        }
        let mut firsts = self.firsts.take().unwrap_or_default();
        let place = slot(text);
        let shape = match firsts.find(place, text) {
            Some(known) => *known,
            None => {
                let shape = self.find_first(text, true);
                firsts.keep(place, text, shape);
                shape
            }
        };
        self.firsts.set(Some(firsts));
        shape
    }

    fn find_first(&self, text: &[u8], is_whole: bool) -> Option<ShapeKey> {
        let mut first = None;
        match self.visit_kept(text, is_whole, &mut |key, _| first = first.or(Some(key))) {
            true => first,
            false => Some(self.walk(text, is_whole).statement()?.0),
        }
    }

    fn walk<'a>(&self, text: &'a [u8], is_whole: bool) -> Walk<'a> {
        let begin = text.get(..SHAPE_MAX);
        self.walk_all(begin.unwrap_or(text), is_whole && begin.is_none())
    }

    /// Walks through a text of any length.
    fn walk_all<'a>(&self, text: &'a [u8], is_whole: bool) -> Walk<'a> {
        let mut walk = Walk::new(text, Reading::Standard, self.mixer);
        walk.is_whole = is_whole;
        walk
    }
}

/// Way to write a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// `?`, for people.
    Mark,
    /// `1` or `''`, which PostgreSQL's grammar accepts wherever it accepts the literal.
    Sample,
    /// `?`, also for parameters, with words in lower case and a space between any two tokens ([`canonical`]).
    Canonical,
}

/// Returns a statement without its literals and comments, with single spaces and with one item of each list of equal ones,
/// cut at about `max` bytes. Where a statement has several readings, the rest is left out, since it may be a literal.
///
/// ```
/// use weir_sql::{Blank, without_literals};
///
/// let text = "SELECT 'secret',\n  1.5 /* trace 7 */ FROM t WHERE a IN (1, 2, 3)";
/// let blank = without_literals(text.as_bytes(), Blank::Mark, 1024);
/// assert_eq!(blank, "SELECT ?, ? FROM t WHERE a IN (?)");
/// ```
#[must_use]
pub fn without_literals(statement: &[u8], blank: Blank, max: usize) -> String {
    let seed = Mixer::new(0);
    write(Walk::new(statement, Reading::Strict, seed), blank, max)
}

/// Returns a statement as [`without_literals`] does with [`Blank::Sample`], up to the length that is parsed. Where a statement
/// has several readings, it is read as with `standard_conforming_strings` on. For a parse only: in another reading, the text
/// may have a part of a literal.
#[must_use]
pub fn sample(statement: &[u8]) -> String {
    let seed = Mixer::new(0);
    write(
        Walk::new(statement, Reading::Standard, seed),
        Blank::Sample,
        STATEMENT_MAX,
    )
}

/// Returns the form of a statement that all statements with other literals, white space, comments, case of words and lengths of
/// lists have too. Unlike a shape and a fingerprint it can be compared for sure: every other token counts. `None` if the text is
/// not exactly one statement that has one reading and an end.
///
/// ```
/// let form = weir_sql::canonical(b"SELECT a FROM t WHERE b=1 AND c IN ($1, $2) -- x").unwrap();
/// assert_eq!(form, "select a from t where b = ? and c in ( ? )");
/// assert_eq!(weir_sql::canonical(form.as_bytes()), Some(form));
/// ```
#[must_use]
pub fn canonical(statement: &[u8]) -> Option<String> {
    let seed = Mixer::new(0);
    let mut walk = Walk::new(statement, Reading::Strict, seed);
    walk.text = Some(Text::new(Blank::Canonical, usize::MAX));
    walk.statement()?;
    let text = walk.text.take().filter(|text| !text.is_cut)?;
    if walk.statement().is_some() {
        return None;
    }
    String::from_utf8(text.out).ok()
}

/// Calls `visit` with the place of each statement in a text of any length, as [`Shaper::shapes`] does for short ones.
pub fn statements(text: &[u8], visit: &mut dyn FnMut(Range<usize>)) {
    let seed = Mixer::new(0);
    let mut walk = Walk::new(text, Reading::Standard, seed);
    while let Some((_, range)) = walk.statement() {
        visit(range);
    }
}

/// True if the whole text is certain to be read as its shape tells, whatever the settings of the server and the encoding of the
/// client. False for most texts with a backslash.
#[must_use]
pub fn is_clear(text: &[u8]) -> bool {
    let has = |wanted: u8| text.contains(&wanted);
    // U&"", whose escapes are told by a literal.
    let may_escape = || has(b'&') && has(b'"');
    let is_short = text.len() <= SHAPE_MAX;
    is_short && !has(b'\\') && !has(0) && (text.is_ascii() || !has(b'$')) && !may_escape()
}

fn write(mut walk: Walk<'_>, blank: Blank, max: usize) -> String {
    walk.text = Some(Text::new(blank, max));
    walk.statement();
    let text = walk.text.take();
    text.map_or_else(String::new, |text| {
        let mut out = String::from_utf8_lossy(&text.out).into_owned();
        if text.is_cut {
            out.push_str("...");
        }
        out
    })
}

/// Text that is written during a walk.
struct Text {
    blank: Blank,
    max: usize,
    out: Vec<u8>,
    is_cut: bool,
}

impl Text {
    fn new(blank: Blank, max: usize) -> Self {
        Self {
            blank,
            max,
            out: Vec::new(),
            is_cut: false,
        }
    }

    /// Writes a space between two tokens.
    fn part(&mut self) {
        if !matches!(self.out.last(), None | Some(b' ')) {
            self.push(b" ");
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.is_cut |= self.out.len() + bytes.len() > self.max;
        if !self.is_cut {
            self.out.extend_from_slice(bytes);
        }
    }
}

/// List of items of which equal neighbours count once: behind IN, or the rows of VALUES.
struct List {
    /// Hash of what precedes the present item.
    outer: Mixer,
    /// Hash of the item before.
    last: Option<u64>,
    is_values: bool,
    /// Depth of parentheses at which commas separate items.
    depth: u32,
    /// Length of the text before the present item and its comma.
    begin: usize,
}

/// Last token, as far as the next one depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    In,
    InOpen,
    Literal,
    Name,
    Other,
    Values,
}

struct Walk<'a> {
    input: &'a [u8],
    lexer: Lexer<'a>,
    /// State of the hash in front of a statement.
    seed: Mixer,
    hasher: Mixer,
    lists: Vec<List>,
    depth: u32,
    last: Last,
    /// True if the statement has a token.
    has_begun: bool,
    begins_with_create: bool,
    /// True in the body of a function in SQL, whose statements do not end the statement.
    is_atomic: bool,
    /// False if the text goes on.
    is_whole: bool,
    text: Option<Text>,
    /// Position of the statement's first token.
    start: usize,
    /// End of the last token.
    end: usize,
}

impl<'a> Walk<'a> {
    fn new(input: &'a [u8], reading: Reading, seed: Mixer) -> Self {
        Self {
            input,
            lexer: Lexer::new(input, reading),
            seed,
            hasher: seed,
            lists: Vec::new(),
            depth: 0,
            last: Last::Nothing,
            has_begun: false,
            begins_with_create: false,
            is_atomic: false,
            is_whole: true,
            text: None,
            start: 0,
            end: 0,
        }
    }

    /// Reads the next statement that is not empty. `None` at the end.
    fn statement(&mut self) -> Option<(ShapeKey, Range<usize>)> {
        self.begin();
        loop {
            self.run();
            match self.lexer.token() {
                Ok(Some(Token::Other(b';'))) if !self.is_atomic => {
                    if self.has_begun {
                        return Some(self.finish());
                    }
                    self.start = self.lexer.at();
                }
                Ok(Some(token)) => {
                    let at = self.lexer.began();
                    if !self.has_begun {
                        self.start = at;
                    }
                    self.token(token, at);
                }
                Ok(None) if !self.is_whole && self.has_begun => return self.open_end(),
                Ok(None) if self.has_begun => return Some(self.finish()),
                Ok(None) => return None,
                Err(_) => return self.open_end(),
            }
        }
    }

    fn begin(&mut self) {
        self.hasher = self.seed;
        self.lists.clear();
        self.depth = 0;
        self.last = Last::Nothing;
        self.has_begun = false;
        self.begins_with_create = false;
        self.is_atomic = false;
        self.start = self.lexer.at();
        self.end = self.start;
    }

    #[inline]
    fn finish(&mut self) -> (ShapeKey, Range<usize>) {
        while !self.lists.is_empty() {
            self.end_list();
        }
        (ShapeKey(self.hasher.finish()), self.start..self.end)
    }

    /// Ends a statement that cannot be read further: PostgreSQL refuses it, or it has several readings.
    #[cold]
    fn open_end(&mut self) -> Option<(ShapeKey, Range<usize>)> {
        // The last item is not complete, and so may differ from the others only in that.
        while self.lists.last().is_some_and(|list| list.last.is_some()) {
            if let Some(list) = self.lists.pop() {
                self.hasher = list.outer;
            }
        }
        self.hasher.byte(OPEN_END);
        if let Some(text) = &mut self.text {
            text.is_cut = true;
        }
        self.end = self.input.len();
        let shape = self.finish();
        self.lexer = Lexer::new(&[], Reading::Strict);
        self.input = &[];
        (!shape.1.is_empty()).then_some(shape)
    }

    #[inline]
    fn token(&mut self, token: Token<'a>, at: usize) {
        let last = self.last;
        if self.meet_list(token, at) {
            self.write(at);
            self.last = Last::Other;
            self.end = self.lexer.at();
            return;
        }
        match token {
            Token::Text(_) => self.literal(at, b"''"),
            Token::Other(byte @ (b'0'..=b'9' | b'$')) => {
                if byte != b'$' {
                    self.lexer.number();
                }
                let is_parameter = byte == b'$' && self.lexer.at() > at + 1;
                match (byte, is_parameter) {
                    (b'$', true) => self.parameter(at),
                    (b'$', false) => self.put_byte(at, b'$', Last::Other),
                    _ => self.literal(at, b"1"),
                }
            }
            Token::Other(b'.') if last != Last::Name && self.lexer.number_follows() => {
                self.lexer.number();
                self.literal(at, b"1");
            }
            Token::Other(byte) => self.other(at, byte, last),
            Token::Word(word) => self.word(at, word),
            Token::Quoted(name) => {
                self.hasher.byte(QUOTED);
                self.put(at, name, Last::Name);
            }
            Token::Unicode => {
                // UESCAPE, a literal, says how the name is read.
                if let Some(text) = &mut self.text {
                    text.is_cut |= text.blank == Blank::Canonical;
                }
                let name = self.input.get(at..self.lexer.at()).unwrap_or_default();
                self.put(at, name, Last::Name);
            }
        }
        self.has_begun = true;
        self.end = self.lexer.at();
    }

    #[inline]
    fn other(&mut self, at: usize, byte: u8, last: Last) {
        match byte {
            b'(' | b'[' => self.depth += 1,
            b')' | b']' => {
                if let Some(list) = self.lists.last()
                    && list.depth == self.depth
                    && !list.is_values
                {
                    self.end_list();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            _ => {}
        }
        let next = match (byte, last) {
            (b'(', Last::In) => Last::InOpen,
            (b')' | b']' | b'*', _) => Last::Name,
            _ => Last::Other,
        };
        self.put_byte(at, byte, next);
    }

    /// Begins a list, or its next item, or ends it, if the token does so. True if the token is a comma between items.
    #[inline]
    fn meet_list(&mut self, token: Token<'a>, at: usize) -> bool {
        let may_begin = matches!(self.last, Last::InOpen | Last::Values);
        (may_begin || !self.lists.is_empty()) && self.meet_some_list(token, at)
    }

    fn meet_some_list(&mut self, token: Token<'a>, at: usize) -> bool {
        match (self.last, token) {
            (Last::InOpen, Token::Word(word)) if begins_query(word) => {}
            (Last::InOpen, _) => self.begin_list(false, at),
            (Last::Values, Token::Other(b'(')) => self.begin_list(true, at),
            _ => {}
        }
        while let Some(list) = self.lists.last()
            && list.depth == self.depth
            && list.is_values
            && !matches!(token, Token::Other(b',' | b'('))
        {
            self.end_list();
        }
        let list = self.lists.last();
        let separates =
            token == Token::Other(b',') && list.is_some_and(|list| list.depth == self.depth);
        if separates {
            self.end_item();
        }
        separates
    }

    fn begin_list(&mut self, is_values: bool, at: usize) {
        if self.lists.len() == LISTS_MAX {
            return;
        }
        self.space(at);
        let begin = self.text.as_ref().map_or(0, |text| text.out.len());
        self.lists.push(List {
            outer: std::mem::replace(&mut self.hasher, self.seed),
            last: None,
            is_values,
            depth: self.depth,
            begin,
        });
    }

    /// Ends the present item. An item that equals the one before leaves nothing behind.
    fn end_item(&mut self) {
        let Some(list) = self.lists.last_mut() else {
            return;
        };
        let item = self.hasher.finish();
        self.hasher = self.seed;
        let is_new = list.last != Some(item);
        if is_new {
            list.outer.item(item);
            list.last = Some(item);
        }
        if let Some(text) = &mut self.text {
            if !is_new && !text.is_cut {
                text.out.truncate(list.begin);
            }
            list.begin = text.out.len();
        }
    }

    fn end_list(&mut self) {
        self.end_item();
        if let Some(list) = self.lists.pop() {
            self.hasher = list.outer;
        }
    }

    fn literal(&mut self, at: usize, sample: &[u8]) {
        // 'a' 'b' on two lines are one constant.
        if self.last == Last::Literal {
            return;
        }
        self.hasher.byte(LITERAL);
        self.space(at);
        if let Some(text) = &mut self.text {
            match text.blank {
                Blank::Canonical | Blank::Mark => text.push(&[LITERAL]),
                Blank::Sample => text.push(sample),
            }
        }
        self.last = Last::Literal;
    }

    /// A parameter is like a literal, but there is nothing to hide.
    fn parameter(&mut self, at: usize) {
        self.hasher.byte(LITERAL);
        match &mut self.text {
            Some(text) if text.blank == Blank::Canonical => {
                text.part();
                text.push(&[LITERAL]);
            }
            _ => self.write(at),
        }
        self.last = Last::Literal;
    }

    #[inline]
    fn word(&mut self, at: usize, word: &[u8]) {
        let next = match word.len() {
            2 if word.eq_ignore_ascii_case(b"in") => Last::In,
            6 if word.eq_ignore_ascii_case(b"values") => Last::Values,
            6 if !self.has_begun && word.eq_ignore_ascii_case(b"create") => {
                self.begins_with_create = true;
                Last::Name
            }
            6 if self.begins_with_create && word.eq_ignore_ascii_case(b"atomic") => {
                self.is_atomic = true;
                Last::Name
            }
            _ => Last::Name,
        };
        self.hasher.folded(word);
        self.write_word(at, word);
        self.last = next;
    }

    fn put(&mut self, at: usize, bytes: &[u8], next: Last) {
        self.hasher.exact(bytes);
        self.write(at);
        self.last = next;
    }

    #[inline]
    fn put_byte(&mut self, at: usize, byte: u8, next: Last) {
        self.hasher.byte(byte);
        self.write(at);
        self.last = next;
    }

    /// Writes the token as it stands in the input.
    #[inline]
    fn write(&mut self, at: usize) {
        if self.text.is_some() {
            self.write_text(at);
        }
    }

    fn write_text(&mut self, at: usize) {
        self.space(at);
        if let Some(text) = &mut self.text {
            text.push(self.input.get(at..self.lexer.at()).unwrap_or_default());
        }
    }

    /// Writes a word as it stands in the input, or in lower case.
    fn write_word(&mut self, at: usize, word: &[u8]) {
        match &mut self.text {
            Some(text) if text.blank == Blank::Canonical => {
                text.part();
                text.push(&word.to_ascii_lowercase());
            }
            _ => self.write(at),
        }
    }

    /// Writes a space if there is anything between the last token and this one.
    fn space(&mut self, at: usize) {
        let Some(text) = &mut self.text else {
            return;
        };
        if text.blank == Blank::Canonical {
            text.part();
        } else if self.has_begun && at > self.end {
            text.push(b" ");
            self.end = at;
        }
    }
}

/// True if a query begins with this word.
fn begins_query(word: &[u8]) -> bool {
    [b"select".as_slice(), b"with", b"values", b"table"]
        .iter()
        .any(|begin| word.eq_ignore_ascii_case(begin))
}

#[cfg(test)]
mod tests;
