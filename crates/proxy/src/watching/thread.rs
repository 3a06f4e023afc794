//! Handle of the watching thread. The thread starts when the configuration first has a database with several hosts.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use super::Watcher;
use super::message::{MESSAGES_MAX, Message, WatcherMailbox};
use super::spec::ClusterSpec;
use crate::driver::Epoll;
use crate::global::{Clusters, Global, lock};
use crate::mailbox::channel::mailbox;
use crate::socket::TcpOptions;

/// Thread that runs.
struct Running {
    mailbox: WatcherMailbox,
    thread: JoinHandle<()>,
}

/// See the module's page.
#[derive(Default)]
pub(crate) struct Watching(Mutex<Option<Running>>);

impl Watching {
    /// Watches these clusters and no others, from now on.
    ///
    /// # Errors
    /// The system has no thread or descriptors for the first cluster. Nothing is watched then.
    pub(crate) fn settle(
        &self,
        global: &Arc<Global>,
        clusters: &Clusters,
        specs: Vec<ClusterSpec>,
    ) -> io::Result<()> {
        let mut running = lock(&self.0);
        if running.is_none() && specs.is_empty() {
            return Ok(());
        }
        if running.is_none() {
            *running = Some(start(global, clusters)?);
        }
        if let Some(running) = &*running {
            running.mailbox.send_waiting(Message::Settings(specs));
        }
        clusters.forget_unused();
        Ok(())
    }

    /// Ends the thread and waits for its end.
    pub(crate) fn stop(&self) {
        let Some(running) = lock(&self.0).take() else {
            return;
        };
        running.mailbox.send_waiting(Message::Stop);
        if running.thread.join().is_err() {
            tracing::error!("the watching thread ended by a panic; the log has its text");
        }
    }
}

fn start(global: &Arc<Global>, clusters: &Clusters) -> io::Result<Running> {
    let options = TcpOptions::new(&global.settled().settings.global);
    let (driver, waker) = Epoll::new(Vec::new(), options)?;
    let (mailbox, inbox) = mailbox(MESSAGES_MAX, Arc::clone(&waker));
    clusters.wakeup().set(waker);
    let workers = Arc::clone(global);
    let watcher = Watcher::new(
        Arc::clone(global),
        driver,
        (mailbox.clone(), inbox),
        Box::new(move || workers.wake_all()),
    );
    let thread = Builder::new()
        .name("weir-watch".to_owned())
        .spawn(move || {
            if let Err(error) = watcher.run() {
                tracing::error!("hosts are not watched any more: {error}");
            }
        })?;
    Ok(Running { mailbox, thread })
}
