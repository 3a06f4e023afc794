//! Stands in for the engine until it is there. Same names and signatures.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_auth::userlist::UserList;
use weir_config::Settings;
use weir_proxy::console::{Command, Console, Shutdown};

pub(crate) struct Setup {
    pub(crate) settings: Arc<Settings>,
    pub(crate) users: Arc<UserList>,
    pub(crate) console: Arc<dyn Console>,
}

#[derive(Debug)]
pub(crate) struct StartError;

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot start")
    }
}

impl std::error::Error for StartError {}

pub(crate) struct Running {
    setup: Setup,
    is_finished: AtomicBool,
    commands: (Sender<Command>, Receiver<Command>),
}

pub(crate) fn start(setup: Setup) -> Result<Running, StartError> {
    if setup.settings.global.workers == 0 {
        return Err(StartError);
    }
    let is_finished = AtomicBool::new(false);
    let commands = bounded(16);
    Ok(Running {
        setup,
        is_finished,
        commands,
    })
}

impl Running {
    pub(crate) fn shutdown(&self, _how: Shutdown) {
        self.is_finished.store(true, Ordering::Relaxed);
    }

    pub(crate) fn reload(&self, settings: Arc<Settings>, users: Arc<UserList>) {
        drop((
            settings,
            users,
            self.setup.users.len(),
            self.setup.console.greeting(),
        ));
    }

    pub(crate) fn commands(&self) -> Receiver<Command> {
        self.commands.1.clone()
    }

    pub(crate) fn wait(self) {
        drop(self);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Relaxed)
    }
}
