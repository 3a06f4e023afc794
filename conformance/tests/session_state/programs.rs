//! Random programs of two clients with one pool: settings, savepoints, errors, pipelines (COR-37).
//!
//! `SESSION_STATE_SEED` repeats a run. A program with a difference at the target is shortened as long as the
//! difference stays, and printed.

use std::env;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::random::Random;

use crate::program;
use crate::program::Program;
use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::session::Session;
use crate::world::World;

/// Number of programs in a run.
const PROGRAMS: u64 = 200;
/// Maximum of steps of a program.
const STEPS_MAX: usize = 30;
/// Maximum of attempts to shorten a program.
const SHORTER_MAX: usize = 300;

/// Default seed, always the same, so that only changes of Weir can break the test. This one once found a custom
/// setting that was set again after a DISCARD ALL and then lost.
const SEED: u64 = 24_714_074_142;

#[test]
fn cor_37_random_programs_of_two_clients_are_answered_as_by_postgresql() -> Result<()> {
    let seed = env::var("SESSION_STATE_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(SEED);
    eprintln!("SESSION_STATE_SEED={seed}");
    let pools = [
        on_one_server("turns", "A simple: select 1"),
        on_two_servers("free", "A simple: select 1"),
    ];
    let world = World::start("programs", program::FIXTURE, &pools, &[])?;
    let mut faults = Vec::new();
    for number in 0..PROGRAMS {
        let mut random = Random::new(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9)));
        let in_turns = number % 2 == 0;
        let program = program::random(&mut random, in_turns, STEPS_MAX);
        if let Some(fault) = fault(&world, &program)? {
            let (program, fault) = shortest(&world, program, fault)?;
            world.close_servers()?;
            faults.push(format!("program {number}:\n{program}{fault}"));
        }
        if faults.len() == 3 {
            break;
        }
    }
    ensure!(
        faults.is_empty(),
        "SESSION_STATE_SEED={seed}\n{}",
        faults.join("\n")
    );
    Ok(())
}

/// Removes single steps as long as the program still shows a difference.
fn shortest(world: &World, mut program: Program, mut fault: String) -> Result<(Program, String)> {
    let mut tries = 0;
    let mut at = program.steps.len();
    while at > 0 && tries < SHORTER_MAX {
        at -= 1;
        tries += 1;
        let mut shorter = program.clone();
        shorter.steps.remove(at);
        // State that an earlier attempt left on a server must not affect this one.
        world.close_servers()?;
        if let Some(found) = self::fault(world, &shorter)? {
            (program, fault) = (shorter, found);
            at = at.min(program.steps.len());
        }
    }
    Ok((program, fault))
}

/// Runs a program on both sides; returns the difference, if there is one.
fn fault(world: &World, program: &Program) -> Result<Option<String>> {
    let (oracle, database) = world.oracle();
    let expected = play(oracle, database, program, &[])?;
    let pool = if program.in_turns {
        "s0_simple"
    } else {
        "s1_simple"
    };
    let (port, database) = world.target(pool);
    let found = play(port, database, program, &expected)?;
    let mut pairs = expected.iter().zip(&found);
    let differing = pairs.find(|(expected, found)| expected != found);
    Ok(differing.map(|(expected, found)| {
        format!(
            "  PostgreSQL: {}\n  target:     {}",
            expected.text, found.text
        )
    }))
}

/// Result that a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    client: usize,
    text: String,
}

/// Runs to the end, or to the first result that differs from `expected`.
fn play(port: u16, database: &str, program: &Program, expected: &[Told]) -> Result<Vec<Told>> {
    let mut sessions = Vec::new();
    for start in &program.starts {
        sessions.push(Session::connect(port, database, start)?);
    }
    let mut told = Vec::new();
    for step in &program.steps {
        // With one server the client that holds it acts.
        let busy = sessions.iter().position(|session| !session.is_idle());
        let client = busy.filter(|_| program.in_turns).unwrap_or(step.client);
        let mut texts = Vec::new();
        if let Some(session) = sessions.get_mut(client) {
            let start = program.starts.get(client).map_or(&[][..], Vec::as_slice);
            texts.push(format!(
                "{step} -> {}",
                step.run(session, port, database, start)
            ));
            texts.push(program::report(session));
            if step.probes {
                texts.push(program::probe(session));
            }
        }
        for text in texts {
            let text = format!("{client}: {text}");
            let same = expected
                .get(told.len())
                .is_none_or(|expected| expected.text == text);
            told.push(Told { client, text });
            if !same {
                sessions.into_iter().for_each(Session::leave);
                return Ok(told);
            }
        }
    }
    sessions.into_iter().for_each(Session::leave);
    told.extend(newcomers(port, database, program)?);
    Ok(told)
}

/// State that new clients find on the pool's servers.
fn newcomers(port: u16, database: &str, program: &Program) -> Result<Vec<Told>> {
    let mut sessions = Vec::new();
    let mut told = Vec::new();
    let count = if program.in_turns { 1 } else { 2 };
    for client in 2..2 + count {
        let mut session = Session::connect(port, database, &[])?;
        // Each client has a server of its own.
        session.simple("begin")?;
        let text = format!("{client}, who is new: {}", program::probe(&mut session));
        told.push(Told { client, text });
        sessions.push(session);
    }
    sessions.into_iter().for_each(Session::leave);
    Ok(told)
}
