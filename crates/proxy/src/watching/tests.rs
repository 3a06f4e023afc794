//! Tests of the watching thread without a thread: scripted hosts answer its connections, and only the tests move the
//! clock.

mod hosts;
mod leaders;
mod names;
mod probing;
mod protection;
mod settling;
mod specs;
mod threads;
mod world;
