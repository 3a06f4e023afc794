//! Differential fuzzer: random programs of several clients run directly and through Weir, and every answer is
//! compared.
//!
//! A program runs one step at a time, each step on PostgreSQL first and then on Weir, on two clusters with the same
//! content. Weir does transaction pooling with one to three servers and one to four workers. Each answer must be
//! equal: messages, rows, tags, errors, the status in `ReadyForQuery`, reported settings and notifications. Queries
//! also compare each session, the state that new clients find on the servers, and at the end every row of every
//! table. `differential/known.rs` lists the differences that the documentation names.
//!
//! | variable | meaning |
//! |---|---|
//! | `DIFFERENTIAL_SEED` | plays only the program of this seed, and prints it |
//! | `DIFFERENTIAL_PROGRAM` | plays only the program in this file |
//! | `DIFFERENTIAL_SECONDS` | length of a run, 60 by default: fixed seeds first, then fresh ones |
//! | `DIFFERENTIAL_FROM` | first of the fresh seeds, to repeat a run: a seed is a program for one choice of topics |
//! | `DIFFERENTIAL_WITHOUT`, `DIFFERENTIAL_ONLY` | topics to leave out or to take, as `roles,types` |
//! | `DIFFERENTIAL_FAULTS` | faults after which a run ends, 1 by default |
//! | `DIFFERENTIAL_THREADS` | pairs of clusters, each at work on every n-th seed, 1 by default |
//!
//! A program with a difference is shortened and printed in a form that can be put into `differential/found.rs`.

#[path = "differential/batches.rs"]
mod batches;
#[path = "differential/client.rs"]
mod client;
#[path = "differential/found.rs"]
mod found;
#[path = "differential/generate.rs"]
mod generate;
#[path = "differential/known.rs"]
mod known;
#[path = "differential/play.rs"]
mod play;
#[path = "differential/probe.rs"]
mod probe;
#[path = "differential/program.rs"]
mod program;
#[path = "differential/run.rs"]
mod run;
#[path = "differential/shrink.rs"]
mod shrink;
#[path = "differential/statements.rs"]
mod statements;
#[path = "differential/topics.rs"]
mod topics;
#[path = "differential/world.rs"]
mod world;
