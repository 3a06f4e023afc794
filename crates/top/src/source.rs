//! Asks the console on a thread of its own, so that keys work while it is slow or away. Reconnects with growing pauses.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use crate::clock::Clock;
use crate::console::{Ask, Connect, Lost};
use crate::data::Reply;
use crate::question::Question;
use crate::state::{Event, Plan};

/// Pause before the second attempt to connect; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Reports that wait for the display. The thread waits when there are more.
const REPORTS: usize = 4;
/// Clients that wait to be disconnected.
const ORDERS: usize = 4;

/// Handle of the thread that asks.
pub(crate) struct Source {
    plan: Arc<Mutex<Plan>>,
    /// Wakes the thread after a change of the plan; one wakeup is enough for all changes.
    wake: Sender<()>,
    orders: Sender<String>,
    pub(crate) reports: Receiver<Event>,
}

impl Source {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub(crate) fn start(connect: impl Connect, plan: Plan, clock: Clock) -> io::Result<Self> {
        let plan = Arc::new(Mutex::new(plan));
        let (wake, wakeups) = bounded(1);
        let (orders, ordered) = bounded(ORDERS);
        let (reporter, reports) = bounded(REPORTS);
        let asker = Asker {
            connect,
            clock,
            plan: Arc::clone(&plan),
            wakeups,
            orders: ordered,
            reports: reporter,
        };
        thread::Builder::new()
            .name("top-console".to_owned())
            .spawn(move || asker.run())?;
        Ok(Self {
            plan,
            wake,
            orders,
            reports,
        })
    }

    /// Replaces the plan; its questions are asked at once.
    pub(crate) fn follow(&self, plan: Plan) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
        // A full channel holds a wakeup already.
        let _ = self.wake.try_send(());
    }

    /// Disconnects a client when the console is free.
    ///
    /// # Errors
    /// If too many others wait, or the thread has ended.
    pub(crate) fn kill(&self, id: String) -> Result<(), String> {
        let sent = self.orders.try_send(id);
        let _ = self.wake.try_send(());
        sent.map_err(|error| match error {
            TrySendError::Full(_) => "the console has not answered earlier requests".to_owned(),
            TrySendError::Disconnected(_) => "the console is not asked any more".to_owned(),
        })
    }
}

/// The display has gone.
struct Gone;

struct Asker<C> {
    connect: C,
    clock: Clock,
    plan: Arc<Mutex<Plan>>,
    wakeups: Receiver<()>,
    orders: Receiver<String>,
    reports: Sender<Event>,
}

impl<C: Connect> Asker<C> {
    /// Runs until the display has gone.
    fn run(&self) {
        let mut pause = PAUSE_MIN;
        loop {
            let lost = match self.connect.connect() {
                Ok(mut console) => match self.serve(console.as_mut(), &mut pause) {
                    Ok(lost) => lost,
                    Err(Gone) => return,
                },
                Err(lost) => lost,
            };
            if self.report(Event::Lost(lost)).is_err() || self.pause(pause).is_err() {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Asks by plan until the connection is lost, and returns the reason.
    fn serve(&self, console: &mut dyn Ask, pause: &mut Duration) -> Result<Lost, Gone> {
        // Commands that this console does not know, and versions, are asked once per connection.
        let mut kept = BTreeMap::new();
        loop {
            if let Some(lost) = self.kill_ordered(console)? {
                return Ok(lost);
            }
            let plan = self
                .plan
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let at = self.clock.now();
            match ask_all(console, &plan.questions, &mut kept) {
                Ok(replies) => self.report(Event::Answers(at, replies))?,
                Err(lost) => return Ok(lost),
            }
            *pause = PAUSE_MIN;
            let spent = self.clock.now().since.saturating_sub(at.since);
            self.pause(plan.interval.saturating_sub(spent))?;
        }
    }

    /// Disconnects the clients that the user has named meanwhile.
    fn kill_ordered(&self, console: &mut dyn Ask) -> Result<Option<Lost>, Gone> {
        for id in self.orders.try_iter() {
            let result = match console.ask(&format!("KILL_CLIENT {id}")) {
                Ok(answer) => answer.map(drop),
                Err(lost) => {
                    self.report(Event::Killed(id, Err(lost.to_string())))?;
                    return Ok(Some(lost));
                }
            };
            self.report(Event::Killed(id, result))?;
        }
        Ok(None)
    }

    fn report(&self, event: Event) -> Result<(), Gone> {
        self.reports.send(event).map_err(|_| Gone)
    }

    /// Waits for a change of the plan, at most for this time.
    fn pause(&self, time: Duration) -> Result<(), Gone> {
        match self.wakeups.recv_timeout(time) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }
}

fn ask_all(
    console: &mut dyn Ask,
    questions: &[Question],
    kept: &mut BTreeMap<Question, Reply>,
) -> Result<Vec<(Question, Reply)>, Lost> {
    let mut replies = Vec::with_capacity(questions.len());
    for question in questions {
        let reply = match kept.get(question) {
            Some(reply) => reply.clone(),
            None => console.ask(question.sql())?.map(Arc::new),
        };
        if reply.is_err() || matches!(question, Question::State | Question::Version) {
            kept.insert(*question, reply.clone());
        }
        replies.push((*question, reply));
    }
    Ok(replies)
}

#[cfg(test)]
mod tests;
