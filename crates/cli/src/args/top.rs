//! Arguments of `weir top`.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValue;
use weir_top::{INTERVAL_MAX, INTERVAL_MIN};

/// Text after the help.
pub(super) const AFTER_HELP: &str = "\
Asks the console by its own protocol, as a user of admin_users or stats_users; the password is read from PGPASSWORD. \
PgBouncer's console works too, with fewer columns. Nothing is changed but by the key K, which disconnects a client after \
a confirmation and needs a user of admin_users.

Keys:
  1 to 8        views: diagnoses, pools, clients, servers, pins, errors, hosts, statements
  j k, arrows   move; Enter shows all columns of the row, Esc goes back
  < > r         sort by the column to the left or right, reverse the order
  / n           filter rows by a regular expression (! in front inverts it), no filter
  space         pause the display
  + -           longer or shorter interval
  w i t         wide, hide what is idle, choose the time that is shown
  y s           copy the row, save the view to a file
  K             disconnect the client of the row
  ? q           all keys, quit

Exit codes:
  0  done, or ended by a signal
  3  no console answers, or standard output is no terminal
  4  the console refused the question, or the connection or the terminal was lost";

/// Arguments of `weir top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Address of the running Weir or PgBouncer, or the path of its unix socket
    #[arg(value_name = "HOST:PORT", default_value = crate::console::ADDRESS)]
    pub(crate) address: String,
    /// User of the console; by default PGUSER, else USER
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// View to begin with, and the one that --once prints; diagnoses by default
    #[arg(long, value_enum)]
    pub(crate) view: Option<View>,
    /// Seconds between two refreshes, 0.5 to 10
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print the view once as a plain table, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one JSON object with the tables of the view, or of all views without --view
    #[arg(long, requires = "once")]
    pub(crate) json: bool,
    /// Refuse the key that disconnects a client
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Use no colours; the environment variable NO_COLOR does the same
    #[arg(long)]
    pub(crate) no_color: bool,
}

/// View by its name on the command line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View(pub(crate) weir_top::View);

impl clap::ValueEnum for View {
    fn value_variants<'a>() -> &'a [Self] {
        const VIEWS: [View; weir_top::View::ALL.len()] = {
            let [a, b, c, d, e, f, g, h] = weir_top::View::ALL;
            [
                View(a),
                View(b),
                View(c),
                View(d),
                View(e),
                View(f),
                View(g),
                View(h),
            ]
        };
        &VIEWS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let mistake = || {
        let [min, max] = [INTERVAL_MIN, INTERVAL_MAX].map(|limit| limit.as_secs_f64());
        format!("must be a number of seconds from {min} to {max}")
    };
    let seconds: f64 = text.parse().map_err(|_| mistake())?;
    let interval = Duration::try_from_secs_f64(seconds).map_err(|_| mistake())?;
    let is_allowed = (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval);
    is_allowed.then_some(interval).ok_or_else(mistake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("10"), Ok(Duration::from_secs(10)));
        for text in ["0.4", "11", "-1", "NaN", "inf", "x", ""] {
            let expected = "must be a number of seconds from 0.5 to 10";
            assert_eq!(interval(text), Err(expected.to_owned()), "{text}");
        }
    }
}
