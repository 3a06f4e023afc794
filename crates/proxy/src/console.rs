//! What the engine knows of an administration console: a back end that answers messages and gives orders, plugged in by
//! the binary.

use weir_stats::Snapshot;

pub use crate::orders::{Order, Receipt, Refusal};

/// Database names that lead to the console.
pub const DATABASES: [&str; 2] = ["pgbouncer", "weir"];

/// What a user of the console may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look at things (`stats_users`).
    Stats,
    /// Everything (`admin_users`).
    Admin,
}

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// At once.
    Now,
    /// New transactions are refused, running ones may finish within `drain_timeout`.
    WaitForServers,
    /// Clients may stay until they leave, within `drain_timeout`.
    WaitForClients,
}

/// What the console asks of whoever started the engine.
#[derive(Debug)]
pub enum Command {
    /// Read the configuration again.
    Reload(Receipt),
    /// Give an option another value until the next reload.
    Set {
        /// The option's name as it was typed.
        key: String,
        /// Its value.
        value: String,
        /// Where to tell how it went.
        receipt: Receipt,
    },
    /// Stop.
    Shutdown(Shutdown),
}

/// What to do for a message. Bytes are whole protocol messages.
#[derive(Debug)]
pub enum Step {
    /// Send this and close the connection.
    Close(Vec<u8>),
    /// Collect a snapshot of all workers, then ask [`Conversation::gathered`] what to send.
    Gather,
    /// Carry out an order; when that is done, or cannot be done, ask [`Conversation::performed`] what to send.
    Perform(Order),
    /// Send this.
    Reply(Vec<u8>),
    /// Send this and stop the pooler.
    Stop(Shutdown, Vec<u8>),
}

/// A console. One for all workers.
pub trait Console: Send + Sync {
    /// ParameterStatus values to greet a client with.
    fn greeting(&self) -> Vec<(String, String)>;

    /// A client of this role has come.
    fn open(&self, role: Role) -> Box<dyn Conversation>;
}

/// What one client says and hears. It is told one message at a time, the next only when the last is answered.
pub trait Conversation: Send {
    /// Answers a message, whose tag and body these are.
    fn handle(&mut self, tag: u8, body: &[u8]) -> Step;

    /// The answer to the message for which [`Step::Gather`] was wanted.
    fn gathered(&mut self, snapshot: &Snapshot) -> Vec<u8>;

    /// The answer to the message for which [`Step::Perform`] was wanted.
    ///
    /// `outcome` is an error if the order was not carried out; nothing has changed then, unless it says otherwise.
    fn performed(&mut self, outcome: Result<(), Refusal>) -> Vec<u8>;
}
