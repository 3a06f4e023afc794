//! Splits files into lines of fields: continuation lines, comments, `include` and `@file`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::error::{Mistake, Place, Problem, Problems};
use crate::files::{FileError, Files};
use crate::limits::{
    DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX, LINE_BYTES_MAX, PROBLEMS_MAX, TOTAL_BYTES_MAX,
};
use crate::tokens::{Comments, Token, Tokens};

/// A line that is not empty.
pub(crate) struct Line {
    pub(crate) place: Place,
    /// Fields of the line. There is at least one, and none is empty.
    pub(crate) fields: Vec<Vec<Token>>,
    /// Text of the line as written, without the comment and with continuation lines joined.
    pub(crate) text: Zeroizing<String>,
}

/// Collects mistakes up to the limit.
#[derive(Default)]
pub(crate) struct Collected(Vec<Problem>);

impl Collected {
    pub(crate) fn add(&mut self, place: &Place, mistake: Mistake) {
        let mistake = match self.0.len() {
            PROBLEMS_MAX.. => return,
            len if len + 1 == PROBLEMS_MAX => Mistake::TooManyProblems,
            _ => mistake,
        };
        self.0.push(Problem {
            place: place.clone(),
            mistake,
        });
    }

    /// Returns the value, or the mistakes if there were any.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, Problems> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(Problems(self.0)),
        }
    }
}

/// Reads a file and all files that it includes.
pub(crate) fn load(path: &Path, files: &dyn Files, problems: &mut Collected) -> Vec<Line> {
    let mut loader = Loader::new(files, problems);
    let whole = Place {
        file: path.display().to_string().into(),
        line: 0,
    };
    let mut lines = Vec::new();
    if let Err(mistake) = loader.file(path, Missing::IsMistake, &mut lines) {
        loader.problems.add(&whole, mistake);
    }
    lines
}

/// Reads a text. Included files come from `files`, relative to `path`.
pub(crate) fn parse(
    path: &Path,
    text: &str,
    files: &dyn Files,
    problems: &mut Collected,
) -> Vec<Line> {
    let mut lines = Vec::new();
    Loader::new(files, problems).text(path, text, &mut lines);
    lines
}

/// Treatment of a missing file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    IsFine,
    IsMistake,
}

struct Loader<'a> {
    files: &'a dyn Files,
    problems: &'a mut Collected,
    /// The files that are being read, outermost first.
    open: Vec<PathBuf>,
    file_count: usize,
    byte_count: usize,
}

impl<'a> Loader<'a> {
    fn new(files: &'a dyn Files, problems: &'a mut Collected) -> Self {
        Self {
            files,
            problems,
            open: Vec::new(),
            file_count: 0,
            byte_count: 0,
        }
    }

    /// Reads one file. Mistakes inside it are collected; a mistake about the file itself is returned, for the line that
    /// named it.
    fn file(
        &mut self,
        path: &Path,
        missing: Missing,
        lines: &mut Vec<Line>,
    ) -> Result<(), Mistake> {
        let name = || path.display().to_string();
        if self.open.iter().any(|open| open == path) {
            return Err(Mistake::Cycle(name()));
        }
        if self.open.len() > DEPTH_MAX {
            return Err(Mistake::Depth(name()));
        }
        self.file_count += 1;
        if self.file_count > FILES_MAX {
            return Err(Mistake::TooManyFiles);
        }
        let bytes = match self.files.read(path) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(FileError::Missing) if missing == Missing::IsFine => return Ok(()),
            Err(error) => return Err(unreadable(path, &error)),
        };
        let whole = Place {
            file: name().into(),
            line: 0,
        };
        self.byte_count += bytes.len();
        let refused = if bytes.len() > FILE_BYTES_MAX {
            Mistake::FileTooLong
        } else if self.byte_count > TOTAL_BYTES_MAX {
            Mistake::TotalTooLong
        } else {
            match std::str::from_utf8(&bytes) {
                Ok(text) => {
                    self.text(path, text, lines);
                    return Ok(());
                }
                Err(_) => Mistake::NotUtf8,
            }
        };
        self.problems.add(&whole, refused);
        Ok(())
    }

    fn text(&mut self, path: &Path, text: &str, lines: &mut Vec<Line>) {
        self.open.push(path.to_owned());
        let file: Arc<str> = path.display().to_string().into();
        let mut number = 0_u32;
        let mut physical = text.strip_prefix('\u{feff}').unwrap_or(text).split('\n');
        while let Some(joined) = join(&mut physical) {
            let place = Place {
                file: Arc::clone(&file),
                line: number.saturating_add(1),
            };
            number = number.saturating_add(joined.count);
            if let Err(mistake) = self.line(path, &place, &joined, lines) {
                self.problems.add(&place, mistake);
            }
        }
        self.open.pop();
    }

    fn line(
        &mut self,
        path: &Path,
        place: &Place,
        joined: &Joined,
        lines: &mut Vec<Line>,
    ) -> Result<(), Mistake> {
        if joined.text.len() > LINE_BYTES_MAX {
            return Err(Mistake::LineTooLong);
        }
        let mut tokens = Tokens::new(&joined.text, Comments::Hash);
        let mut fields = Vec::new();
        loop {
            let field = self.field(path, &mut tokens)?;
            if field.is_empty() {
                break;
            }
            fields.push(field);
        }
        if let (Some(comment), Some(seam)) = (tokens.comment_at, joined.last_seam)
            && seam > comment
        {
            return Err(Mistake::CommentContinued);
        }
        if fields.is_empty() || self.include(path, &fields, lines)? {
            return Ok(());
        }
        let end = tokens.comment_at.unwrap_or(joined.text.len());
        let written = joined.text.get(..end).unwrap_or_default().trim();
        lines.push(Line {
            place: place.clone(),
            fields,
            text: Zeroizing::new(written.to_owned()),
        });
        Ok(())
    }

    /// Returns the tokens up to the next blank; none at the end of the line.
    fn field(&mut self, path: &Path, tokens: &mut Tokens<'_>) -> Result<Vec<Token>, Mistake> {
        let mut field = Vec::new();
        let mut named_file = false;
        while let Some((token, goes_on)) = tokens.next()? {
            match token.behind('@').filter(|name| !name.is_empty()) {
                Some(name) => {
                    named_file = true;
                    let mut lines = Vec::new();
                    self.file(&beside(path, name), Missing::IsMistake, &mut lines)?;
                    field.extend(lines.into_iter().flat_map(|line| line.fields).flatten());
                }
                None => field.push(token),
            }
            if !goes_on {
                break;
            }
        }
        match named_file && field.is_empty() {
            true => Err(Mistake::Empty("file behind @")),
            false => Ok(field),
        }
    }

    /// Follows an include directive. True if the line was one.
    fn include(
        &mut self,
        path: &Path,
        fields: &[Vec<Token>],
        lines: &mut Vec<Line>,
    ) -> Result<bool, Mistake> {
        let [[directive], [name]] = fields.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] else {
            return Ok(false);
        };
        let target = beside(path, &name.text);
        match directive.text.as_str() {
            "include" => self.file(&target, Missing::IsMistake, lines)?,
            "include_if_exists" => self.file(&target, Missing::IsFine, lines)?,
            "include_dir" => self.directory(&target, lines)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads all `*.conf` files of a directory except hidden ones, in byte order.
    fn directory(&mut self, path: &Path, lines: &mut Vec<Line>) -> Result<(), Mistake> {
        let mut names = self
            .files
            .list(path)
            .map_err(|error| unreadable(path, &error))?;
        names.retain(|name| name.ends_with(".conf") && !name.starts_with('.'));
        names.sort_unstable();
        for name in names {
            self.file(&path.join(name), Missing::IsMistake, lines)?;
        }
        Ok(())
    }
}

/// Resolves a relative name against the directory of the file that names it.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.parent().unwrap_or_else(|| Path::new("")).join(name)
}

fn unreadable(path: &Path, error: &FileError) -> Mistake {
    Mistake::Read {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// A line and its continuation lines, joined at the backslashes.
struct Joined {
    text: Zeroizing<String>,
    /// Number of lines joined.
    count: u32,
    /// Start of the last one, if there were several.
    last_seam: Option<usize>,
}

/// Returns the next line with its continuation lines; `None` at the end of the text.
fn join<'t>(lines: &mut impl Iterator<Item = &'t str>) -> Option<Joined> {
    let mut joined = Joined {
        text: Zeroizing::new(lines.next()?.to_owned()),
        count: 1,
        last_seam: None,
    };
    loop {
        let stripped = joined.text.trim_end_matches('\r').len();
        joined.text.truncate(stripped);
        // A backslash before the last seam belongs to an earlier line and was handled then.
        let seam = joined.last_seam.unwrap_or_default();
        if joined.text.len() <= seam || !joined.text.ends_with('\\') {
            return Some(joined);
        }
        joined.text.pop();
        let Some(next) = lines.next() else {
            return Some(joined);
        };
        joined.last_seam = Some(joined.text.len());
        joined.count = joined.count.saturating_add(1);
        joined.text.push_str(next);
    }
}

#[cfg(test)]
mod tests;
