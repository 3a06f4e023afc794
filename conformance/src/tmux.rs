//! A terminal whose content can be read: a pane of tmux with a shell in it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::SOON;
use crate::TempDir;
use crate::child::Guarded;
use crate::child::Runner;
use crate::tools;
use crate::wait_until;

/// A shell in a terminal of its own. Dropping it ends the terminal with all programs in it.
#[derive(Debug)]
pub struct Tmux {
    _server: Guarded,
    directory: TempDir,
    program: PathBuf,
}

/// Options of the server. Programs may set the clipboard; a lone Esc is a key at once.
const OPTIONS: &str =
    "set -s set-clipboard on\nset -s escape-time 0\nset -g default-shell /bin/sh\n";

/// Prompt of the shell.
const PROMPT: &str = "ready> ";

impl Tmux {
    /// Opens a terminal of this size, with these variables in the environment of its shell.
    ///
    /// # Errors
    /// When tmux is not installed or does not start.
    pub fn start(columns: u16, lines: u16, env: &[(&str, &str)]) -> Result<Self> {
        let program = tools::require("tmux", "tmux")?;
        let directory = TempDir::new()?;
        let options = directory.write("tmux.conf", OPTIONS)?;
        let socket = directory.path().join("tmux");
        let command = [
            &*program.to_string_lossy(),
            "-D",
            "-u",
            "-S",
            &*socket.to_string_lossy(),
            "-f",
            &*options.to_string_lossy(),
        ];
        let log = directory.path().join("tmux.log");
        let mut server = Guarded::start(Runner::Ourselves, "TERM", &command, &[], &log)?;
        wait_until("the socket of tmux", SOON, || {
            server.check_running()?;
            Ok(socket.exists())
        })?;
        let tmux = Self {
            _server: server,
            directory,
            program,
        };
        let size = [columns.to_string(), lines.to_string()];
        let directory = tmux.directory.path().to_string_lossy().into_owned();
        let mut arguments = vec!["new-session", "-d", "-x", &size[0], "-y", &size[1]];
        arguments.extend(["-c", directory.as_str()]);
        let mut env: Vec<_> = env
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        env.push(format!("PS1={PROMPT}"));
        for variable in &env {
            arguments.extend(["-e", variable.as_str()]);
        }
        arguments.push("exec sh");
        tmux.ask(&arguments)?;
        tmux.wait_for(PROMPT)?;
        Ok(tmux)
    }

    /// Runs a command of tmux and returns its output.
    ///
    /// # Errors
    /// When tmux refuses it.
    pub fn ask(&self, arguments: &[&str]) -> Result<String> {
        let socket = self.directory.path().join("tmux");
        let mut command = Command::new(&self.program);
        command.arg("-u").arg("-S").arg(socket).args(arguments);
        tools::run(&mut command)
    }

    /// Directory in which the shell was started.
    #[must_use]
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Types a text, as it is.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub fn type_text(&self, text: &str) -> Result<()> {
        self.ask(&["send-keys", "-l", "--", text]).map(drop)
    }

    /// Presses a key by tmux's name of it, such as `Enter`, `Escape` or `F12`.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub fn press(&self, key: &str) -> Result<()> {
        self.ask(&["send-keys", key]).map(drop)
    }

    /// Types a command into the shell.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub fn run(&self, command: &str) -> Result<()> {
        self.type_text(command)?;
        self.press("Enter")
    }

    /// Content of the screen.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub fn screen(&self) -> Result<String> {
        self.ask(&["capture-pane", "-p", "-J"])
    }

    /// Waits until the screen holds a text, and returns the screen.
    ///
    /// # Errors
    /// When it does not within a generous time limit; the error holds the screen.
    pub fn wait_for(&self, text: &str) -> Result<String> {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits until a condition on the screen holds, and returns the screen.
    ///
    /// # Errors
    /// When it does not within a generous time limit; the error holds the screen.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> Result<String> {
        let mut screen = String::new();
        let waited = wait_until(what, SOON, || {
            screen = self.screen()?;
            Ok(holds(&screen))
        });
        waited.with_context(|| format!("the screen:\n{screen}"))?;
        Ok(screen)
    }

    /// Fails unless the terminal is as a shell needs it: the main screen, a cursor, and lines that are edited and echoed.
    ///
    /// # Errors
    /// When it is not within a generous time limit.
    pub fn check_restored(&self) -> Result<()> {
        wait_until("the main screen with its cursor", SOON, || {
            let flags = self.ask(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"])?;
            Ok(flags.trim() == "0 1")
        })?;
        self.run("clear; stty -a; echo shown")?;
        let screen = self.wait_until("modes", |screen| screen.contains("\nshown"))?;
        for mode in ["icanon", "echo", "isig", "opost"] {
            if !screen.split_whitespace().any(|word| word == mode) {
                bail!("{mode} is off:\n{screen}");
            }
        }
        Ok(())
    }
}
