//! Interface to an administration console: a back end, plugged in by the binary, that answers messages and gives
//! orders.

use weir_stats::Snapshot;

use crate::neighbours::Side;

pub use crate::orders::{Order, Receipt, Refusal, RuleOrder};

/// Names of the virtual database that leads to the console.
pub const DATABASES: [&str; 2] = ["pgbouncer", "weir"];

/// Rights of a console user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read-only commands (`stats_users`).
    Stats,
    /// All commands (`admin_users`).
    Admin,
}

/// Kind of shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Stop at once.
    Now,
    /// Refuse new transactions; running ones may finish within `drain_timeout`.
    WaitForServers,
    /// Wait until the clients have left, within `drain_timeout`.
    WaitForClients,
}

/// Command from the console to the program that started the engine.
#[derive(Debug)]
pub enum Command {
    /// Read the configuration again.
    Reload {
        /// Process of an upgrade that orders it; none if it comes from here.
        from: Option<Side>,
        /// Receives the outcome.
        receipt: Receipt,
    },
    /// Change an option until the next reload.
    Set {
        /// The option's name as it was typed.
        key: String,
        /// New value of the option.
        value: String,
        /// Process of an upgrade that orders it; none if it comes from here.
        from: Option<Side>,
        /// Receives the outcome.
        receipt: Receipt,
    },
    /// Stop the pooler.
    Shutdown(Shutdown),
}

/// Question where a text would run (`EXPLAIN ROUTE`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteQuestion {
    /// Database of the clients; none = the only one that has several hosts.
    pub database: Option<String>,
    /// User of the clients; none = any.
    pub user: Option<String>,
    /// Text of a query.
    pub text: Vec<u8>,
}

/// Answer to a [`RouteQuestion`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteAnswer {
    /// `primary`, `replica`, `host` (of a role that is not known), `waits` or `refused`.
    pub verdict: &'static str,
    /// Host that would run the text, unless the verdict is another.
    pub host: Option<String>,
    /// Reason in a sentence.
    pub reason: String,
    /// Rules in force.
    pub rules: String,
    /// Sentence about each host.
    pub hosts: Vec<String>,
    /// Assumptions, and facts that are missing.
    pub notes: Vec<String>,
}

/// Next step after a console message. Bytes are whole protocol messages.
#[derive(Debug)]
pub enum Step {
    /// Send these bytes and close the connection.
    Close(Vec<u8>),
    /// Find out where a text would run, then ask [`Conversation::explained`] what to send.
    Explain(RouteQuestion),
    /// Collect a snapshot of all workers, then ask [`Conversation::gathered`] what to send.
    Gather {
        /// True if the snapshot needs digests, which cost some megabytes.
        digests: bool,
    },
    /// Carry out an order. When it has succeeded or failed, ask [`Conversation::performed`] what to send.
    Perform(Order),
    /// Send these bytes.
    Reply(Vec<u8>),
    /// Send these bytes and stop the pooler.
    Stop(Shutdown, Vec<u8>),
}

/// Administration console, shared by all workers.
pub trait Console: Send + Sync {
    /// Returns the ParameterStatus values that greet a client.
    fn greeting(&self) -> Vec<(String, String)>;

    /// Opens a conversation with a client of this role.
    fn open(&self, role: Role) -> Box<dyn Conversation>;
}

/// Conversation with one client. Messages arrive one at a time, the next only after the last was answered.
pub trait Conversation: Send {
    /// Answers a message with this tag and body.
    fn handle(&mut self, tag: u8, body: &[u8]) -> Step;

    /// Returns the answer to the message for which [`Step::Explain`] was requested; not called without such a step.
    fn explained(&mut self, answer: Result<RouteAnswer, Refusal>) -> Vec<u8> {
        drop(answer);
        Vec::new()
    }

    /// Returns the answer to the message for which [`Step::Gather`] was requested.
    fn gathered(&mut self, snapshot: &Snapshot) -> Vec<u8>;

    /// Returns the answer to the message for which [`Step::Perform`] was requested.
    ///
    /// `outcome` is an error if the order was not carried out; nothing has changed then, unless the error says
    /// otherwise.
    fn performed(&mut self, outcome: Result<(), Refusal>) -> Vec<u8>;
}
