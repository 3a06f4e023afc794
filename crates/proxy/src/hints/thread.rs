//! Handles of the threads that read sources.

use std::io;
use std::sync::Mutex;
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Sender, bounded};

use super::http::Http;
use super::{Never, Reader, SourceSpec, lock};

/// Thread that reads a source. Dropping the handle ends the thread, and does not wait for its end: a look-up of a name
/// under way may take seconds. A thread that ends has no effect any more.
struct Running {
    spec: SourceSpec,
    /// Channel that ends to stop the thread. Always there until then.
    stop: Option<Sender<Never>>,
    http: Http,
    thread: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.spec.end_reports();
        drop(self.stop.take());
        self.http.clone().shutdown();
    }
}

/// Threads of all sources.
#[derive(Default)]
pub(crate) struct Sources(Mutex<Vec<Running>>);

impl Sources {
    /// Reads these sources and no others, from now on. Sources that are described as before are read on.
    ///
    /// # Errors
    /// The system has no thread left. Some sources are not read then.
    pub(crate) fn settle(&self, specs: Vec<SourceSpec>) -> io::Result<()> {
        let mut running = lock(&self.0);
        let mut before = std::mem::take(&mut *running);
        let goes_on = |running: &Running, spec: &SourceSpec| {
            running.spec.continues(spec) && !running.thread.is_finished()
        };
        let mut new = Vec::new();
        for spec in specs {
            match before.iter().position(|running| goes_on(running, &spec)) {
                Some(place) => running.push(before.swap_remove(place)),
                None => new.push(spec),
            }
        }
        // First: a source that has changed must not be read twice.
        drop(before);
        for spec in new {
            running.push(start(spec)?);
        }
        Ok(())
    }

    /// Ends all threads.
    pub(crate) fn stop(&self) {
        lock(&self.0).clear();
    }

    /// Number of sources that are read.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let running = lock(&self.0);
        let running = running.iter().filter(|it| !it.thread.is_finished());
        running.count()
    }

    /// Returns the threads that read sources.
    #[cfg(test)]
    pub(super) fn threads(&self) -> Vec<std::thread::ThreadId> {
        let running = lock(&self.0);
        running.iter().map(|it| it.thread.thread().id()).collect()
    }
}

fn start(spec: SourceSpec) -> io::Result<Running> {
    // Nothing is ever sent.
    let (stop, stopped) = bounded(0);
    let http = Http::new(&spec.roots);
    let mut source = spec.adapter(http.clone());
    let reader = Reader::new(spec.clone(), stopped);
    let thread = Builder::new()
        .name("weir-hints".to_owned())
        .spawn(move || reader.run(&mut *source))?;
    Ok(Running {
        spec,
        stop: Some(stop),
        http,
        thread,
    })
}
