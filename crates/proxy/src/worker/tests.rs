//! Tests of whole workers in one thread, without sockets, and with a clock that only the tests move. Real session, pool
//! and worker code runs between scripted clients and model servers.

mod again;
mod cancel;
mod conversation;
mod digests;
mod fairness;
mod fence;
mod flow;
mod fresh;
mod goodbye;
mod hosts;
mod inquiry;
mod keeping;
mod lanes;
mod lifecycle;
mod listening;
mod login;
mod measure;
mod names;
mod options;
mod orders;
mod outliving;
mod peers;
mod postgres;
mod proxied;
mod replication;
mod restart;
mod roles;
mod ruling;
mod secure;
mod silent;
mod simulator;
mod sizing;
mod statement_lists;
mod throttle;
mod trials;
mod unsent;
mod upgrade;
mod vanish;
mod world;

pub(crate) use secure::CONFIG;
