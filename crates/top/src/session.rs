//! The running display: takes keys, answers and signals, and carries out what the state asks for.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write, stdout};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use jiff::tz::TimeZone;
use ratatui::crossterm::event::{self, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::clock::Clock;
use crate::console::Connect;
use crate::source::Source;
use crate::state::{Effect, Event, Key, Settings, State};
use crate::terminal::Screen;

/// Time after which the display is drawn again without news: ages grow.
const TICK: Duration = Duration::from_millis(200);
/// Keys that wait for the display.
const KEYS: usize = 64;

/// Reason for which the display could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopError {
    /// Standard output is no terminal.
    #[error("standard output is no terminal: use --once, or --once --json for scripts")]
    NoTerminal,
    /// The terminal or the operating system failed.
    #[error("the terminal failed: {0}")]
    Terminal(#[from] io::Error),
    /// A thread has ended by a panic, which has printed its message.
    #[error("the display ended by a defect")]
    Thread,
}

/// Draws until the user quits or a signal ends it. The terminal is restored in any case.
///
/// # Errors
/// If there is no terminal, or it fails.
pub fn run(connect: impl Connect, settings: Settings) -> Result<(), TopError> {
    if !stdout().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let clock = Clock::start();
    let signals = signals()?;
    let mut screen = Screen::take()?;
    let (mut state, plan) = State::new(settings, clock.now(), TimeZone::system());
    let source = Source::start(connect, plan, clock)?;
    let keys = keys()?;
    let (columns, lines) = screen.size()?;
    state.handle(clock.now(), Event::Size(columns, lines));
    loop {
        screen.draw(&state)?;
        let event = select! {
            recv(keys) -> event => event.map_err(|_| TopError::Thread)??,
            recv(source.reports) -> event => event.map_err(|_| TopError::Thread)?,
            recv(signals) -> signal => return signal.map_err(|_| TopError::Thread),
            default(TICK) => Event::Tick,
        };
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in state.handle(clock.now(), event) {
                match effect {
                    Effect::Quit => return Ok(()),
                    Effect::Plan(plan) => source.follow(plan),
                    Effect::Copy(text) => screen.copy(&text)?,
                    Effect::Save { name, text } => events.push(Event::Saved(save(name, &text))),
                    Effect::Kill(id) => {
                        if let Err(error) = source.kill(id.clone()) {
                            events.push(Event::Killed(id, Err(error)));
                        }
                    }
                }
            }
        }
    }
}

/// Writes a new file in the present directory.
fn save(name: String, text: &str) -> Result<String, String> {
    let file = OpenOptions::new().write(true).create_new(true).open(&name);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => Ok(name),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Starts a thread that tells of signals that end the program.
fn signals() -> io::Result<Receiver<()>> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let (sender, receiver) = bounded(1);
    thread::Builder::new()
        .name("top-signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                // One is enough.
                let _ = sender.try_send(());
            }
        })?;
    Ok(receiver)
}

/// Starts a thread that reads keys and changes of the size.
fn keys() -> io::Result<Receiver<io::Result<Event>>> {
    let (sender, receiver) = bounded(KEYS);
    thread::Builder::new()
        .name("top-keys".to_owned())
        .spawn(move || read_keys(&sender))?;
    Ok(receiver)
}

fn read_keys(sender: &Sender<io::Result<Event>>) {
    loop {
        let (event, is_last) = match event::read() {
            Ok(event) => match translated(event) {
                Some(event) => (Ok(event), false),
                None => continue,
            },
            Err(error) => (Err(error), true),
        };
        if sender.send(event).is_err() || is_last {
            return;
        }
    }
}

fn translated(event: event::Event) -> Option<Event> {
    let key = match event {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => key,
        event::Event::Paste(text) => return Some(Event::Paste(text)),
        event::Event::Resize(columns, lines) => return Some(Event::Size(columns, lines)),
        _ => return None,
    };
    let key = match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(_)
            if key
                .modifiers
                .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) =>
        {
            return None;
        }
        #[cfg(feature = "debug-panic")]
        KeyCode::F(12) => panic!("the key that panics in test builds"),
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Char(character) => Key::Char(character),
        KeyCode::Down => Key::Down,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Home => Key::Home,
        KeyCode::Left => Key::Left,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        _ => return None,
    };
    Some(Event::Key(key))
}
