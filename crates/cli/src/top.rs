//! `weir top`: connects the display to the console of a running Weir or PgBouncer.

use std::env;
use std::time::Duration;

use weir_command::exit::{self, Exit, complain};
use weir_proxy::blocking::Table;
use weir_top::{Ask, Connect, Lost, Once, OnceError, Settings, TopError, View};

use crate::args::Top;
use crate::console::{Console, Target};

/// Maximum time to wait for a connection, and for each part of an answer. The display tells of a console that is silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Console of a running pooler.
struct Pooler(Target);

impl Connect for Pooler {
    fn connect(&self) -> Result<Box<dyn Ask>, Lost> {
        match Console::open(&self.0) {
            Ok(console) => Ok(Box::new(Connection(console))),
            Err(error) => Err(Lost::new(error)),
        }
    }
}

struct Connection(Console);

impl Ask for Connection {
    fn ask(&mut self, sql: &str) -> Result<Result<Table, String>, Lost> {
        self.0.ask_table(sql).map_err(Lost::new)
    }
}

/// Shows a pooler until the user quits, or prints a view once.
pub(crate) fn show(args: &Top) -> Exit {
    let pooler = Pooler(Target {
        address: args.address.clone(),
        user: args.user.clone(),
        // Weir's console has this name too.
        database: "pgbouncer",
        program: "weir top",
        patience: PATIENCE,
    });
    if args.once {
        return print(args, &pooler);
    }
    let settings = Settings {
        address: args.address.clone(),
        view: args.view.map_or_else(View::default, |view| view.0),
        interval: args.interval,
        is_read_only: args.read_only,
        // https://no-color.org: any value but the empty one.
        has_color: !args.no_color && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    match weir_top::run(pooler, settings) {
        Ok(()) => Exit::Ok,
        Err(error @ TopError::NoTerminal) => {
            complain(error);
            Exit::Start
        }
        Err(error) => {
            complain(error);
            Exit::Failed
        }
    }
}

fn print(args: &Top, pooler: &Pooler) -> Exit {
    let what = match (args.json, args.view) {
        (true, Some(view)) => Once::Json(vec![view.0]),
        (true, None) => Once::Json(View::ALL.to_vec()),
        (false, view) => Once::Table(view.map_or_else(View::default, |view| view.0)),
    };
    match weir_top::once(pooler, &what) {
        Ok(text) => {
            exit::print(&text);
            Exit::Ok
        }
        Err(error) => {
            complain(format_args!("console at {}: {error}", args.address));
            match error {
                OnceError::Connect(_) => Exit::Start,
                _ => Exit::Failed,
            }
        }
    }
}
