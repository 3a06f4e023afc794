//! Matrix of logins: every method of `auth_hba_file` with every kind of stored secret, both sources, every kind of
//! database, every transport and every kind of credential. Each case really connects (SEC-41, SEC-42).
//!
//! Only `matrix/oracle.rs` states the expected results: under 100 lines, without code of Weir, refusal unless a rule
//! accepts.

#[path = "matrix/case.rs"]
mod case;
#[path = "matrix/oracle.rs"]
mod oracle;
#[path = "matrix/world.rs"]
mod world;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use anyhow::Result;
use anyhow::ensure;
use case::Case;
use world::World;

/// Number of simultaneous connections.
const THREADS: usize = 4;

#[test]
fn sec_41_every_combination_of_login_is_judged_as_by_the_oracle() -> Result<()> {
    let world = World::start()?;
    let cases = Case::all();
    ensure!(cases.len() >= 2_000, "only {} cases", cases.len());
    let faults = Mutex::new(Vec::new());
    let accepted = Mutex::new(0);
    let size = cases.len().div_ceil(THREADS);
    thread::scope(|scope| {
        for part in cases.chunks(size) {
            let (world, faults, accepted) = (&world, &faults, &accepted);
            scope.spawn(move || {
                for case in part {
                    let wanted = oracle::lets_in(case);
                    let fault = match world.attempt(case) {
                        Ok(got) if got.is_in == wanted => None,
                        Ok(got) => Some(format!("{case:?}: in {}, {}", got.is_in, got.text)),
                        Err(error) => Some(format!("{case:?}: {error:#}")),
                    };
                    *accepted.lock().unwrap_or_else(PoisonError::into_inner) += usize::from(wanted);
                    let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
                    faults.extend(fault);
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap_or_else(PoisonError::into_inner);
    let accepted = accepted
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    eprintln!(
        "{} cases: {accepted} to be let in, {} to be refused",
        cases.len(),
        cases.len() - accepted
    );
    // A matrix without accepted logins would agree with a listener that does not work.
    ensure!(accepted > 300, "only {accepted} cases are to be let in");
    let count = faults.len();
    let some: Vec<_> = faults.into_iter().take(40).collect();
    ensure!(
        count == 0,
        "{count} cases judged otherwise:\n{}",
        some.join("\n")
    );
    world.check_healthy()
}
