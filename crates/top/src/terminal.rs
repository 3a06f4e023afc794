//! The terminal: taken at the start, restored at the end, by a panic too.

use std::io::{self, Stdout, Write, stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::screen;
use crate::state::State;

/// True after a panic: the terminal belongs to others again, while threads still end.
static IS_GONE: AtomicBool = AtomicBool::new(false);

/// The terminal while it belongs to us.
pub(crate) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes the terminal: raw mode, the alternate screen, and pasted texts told apart from keys.
    ///
    /// # Errors
    /// If standard output is no terminal.
    pub(crate) fn take() -> io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        let taken = execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())))
            .and_then(|mut terminal| terminal.clear().map(|()| terminal));
        if taken.is_err() {
            restore();
        }
        taken.map(Self)
    }

    /// Columns and lines.
    pub(crate) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.0.size()?;
        Ok((size.width, size.height))
    }

    pub(crate) fn draw(&mut self, state: &State) -> io::Result<()> {
        if IS_GONE.load(Ordering::Acquire) {
            return Ok(());
        }
        self.0.draw(|frame| screen::draw(frame, state)).map(drop)
    }

    /// Puts a text into the clipboard by OSC 52, which terminals without it ignore.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        let out = self.0.backend_mut();
        write!(out, "\x1b]52;c;{}\x07", STANDARD.encode(text))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back. A failure is ignored: then there is no terminal any more.
fn restore() {
    let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Restores the terminal before the message of a panic is printed, in whichever thread it happens.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            IS_GONE.store(true, Ordering::Release);
            restore();
            before(info);
        }));
    });
}
