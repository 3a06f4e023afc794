//! What the engine knows of an administration console: a back end that answers queries, plugged in by the binary.

use weir_stats::Snapshot;

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

/// What the console asks of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Read the configuration again.
    Reload,
    /// Stop.
    Shutdown(Shutdown),
}

/// Turns a snapshot into the messages for the client.
pub type Render = Box<dyn FnOnce(&Snapshot) -> Vec<u8> + Send>;

/// What to do for a query. Bytes are whole protocol messages up to and including ReadyForQuery.
pub enum Step {
    /// Send this.
    Reply(Vec<u8>),
    /// Collect a snapshot of all workers, then send what this makes of it.
    Gather(Render),
    /// Send this and carry out the command.
    Act(Command, Vec<u8>),
    /// Send this and close the connection.
    Close(Vec<u8>),
}

/// A console. One for all workers; holds no state of a session.
pub trait Console: Send + Sync {
    /// ParameterStatus values to greet a client with.
    fn greeting(&self) -> Vec<(String, String)>;

    /// Answers one simple Query; `sql` is its text without the NUL.
    fn query(&self, role: Role, sql: &[u8]) -> Step;

    /// Answers a message that is not a simple Query (its tag), for example of the extended protocol.
    fn unsupported(&self, tag: u8) -> Step;
}
