//! Shortens a program that shows a difference: clients first, then steps, then statements.

use anyhow::Result;

use crate::play;
use crate::play::Fault;
use crate::play::Outcome;
use crate::program::Act;
use crate::program::Program;
use crate::world::World;

/// Maximum of programs to try.
const TRIES_MAX: usize = 400;

/// Shortest program found, with its fault.
pub(crate) fn shrink(
    world: &mut World,
    program: Program,
    fault: Fault,
) -> Result<(Program, Fault)> {
    let mut shrinker = Shrinker {
        world,
        program,
        fault,
        tries: 0,
    };
    shrinker.cut_end()?;
    shrinker.clients()?;
    shrinker.steps()?;
    shrinker.statements()?;
    shrinker.steps()?;
    shrinker.starts()?;
    Ok((shrinker.program, shrinker.fault))
}

struct Shrinker<'a> {
    world: &'a mut World,
    program: Program,
    fault: Fault,
    tries: usize,
}

impl Shrinker<'_> {
    /// Keeps a shorter program if it still shows a fault.
    fn keep(&mut self, shorter: Program) -> Result<bool> {
        if self.tries >= TRIES_MAX || shorter == self.program {
            return Ok(false);
        }
        self.tries += 1;
        let Outcome::Fault(fault) = play::play(self.world, &shorter)? else {
            return Ok(false);
        };
        (self.program, self.fault) = (shorter, fault);
        Ok(true)
    }

    /// Removes the steps after the difference, which cannot contribute.
    fn cut_end(&mut self) -> Result<()> {
        let mut shorter = self.program.clone();
        shorter.steps.truncate(self.fault.step + 1);
        self.keep(shorter).map(drop)
    }

    fn clients(&mut self) -> Result<()> {
        for client in (0..self.program.clients.len()).rev() {
            let mut shorter = self.program.clone();
            shorter.steps.retain(|step| step.who != Some(client));
            self.keep(shorter)?;
        }
        let mut shorter = self.program.clone();
        shorter.steps.retain(|step| step.who.is_some());
        self.keep(shorter).map(drop)
    }

    /// Removes runs of steps, long ones first.
    fn steps(&mut self) -> Result<()> {
        let mut size = self.program.steps.len().div_ceil(2);
        while size > 0 {
            let mut end = self.program.steps.len();
            while end > 0 {
                let begin = end.saturating_sub(size);
                let mut shorter = self.program.clone();
                shorter.steps.drain(begin..end.min(shorter.steps.len()));
                self.keep(shorter)?;
                end = begin.min(self.program.steps.len());
            }
            size /= 2;
        }
        Ok(())
    }

    /// Removes statements of texts, messages of batches and rows of copies.
    fn statements(&mut self) -> Result<()> {
        for place in (0..self.program.steps.len()).rev() {
            let count = self
                .program
                .steps
                .get(place)
                .map_or(0, |step| parts(&step.act));
            for part in (0..count).rev() {
                let mut shorter = self.program.clone();
                if let Some(step) = shorter.steps.get_mut(place) {
                    leave_out(&mut step.act, part);
                }
                self.keep(shorter)?;
            }
        }
        Ok(())
    }

    /// Removes start-up parameters, and clients without a step.
    fn starts(&mut self) -> Result<()> {
        for client in (0..self.program.clients.len()).rev() {
            let count = self.program.clients.get(client).map_or(0, Vec::len);
            for place in (1..count).rev() {
                let mut shorter = self.program.clone();
                if let Some(start) = shorter.clients.get_mut(client) {
                    start.remove(place);
                }
                self.keep(shorter)?;
            }
            let mut shorter = self.program.clone();
            if shorter.steps.iter().any(|step| step.who == Some(client)) {
                continue;
            }
            shorter.clients.remove(client);
            for step in &mut shorter.steps {
                step.who = step.who.map(|who| who - usize::from(who > client));
            }
            self.keep(shorter)?;
        }
        Ok(())
    }
}

fn parts(act: &Act) -> usize {
    match act {
        Act::Batch(items) => items.len(),
        Act::Cancel(texts) | Act::Query(texts) => texts.len(),
        Act::Copy { data, .. } => data.rows.len(),
        Act::Ask(_) | Act::Leave | Act::Stray | Act::Vanish => 0,
    }
}

/// Removes a part of a step, but never the last one: removing steps is done elsewhere.
fn leave_out(act: &mut Act, part: usize) {
    match act {
        // Replies are counted up to the last message, which stays.
        Act::Batch(items) if part + 1 < items.len() => drop(items.remove(part)),
        Act::Cancel(texts) | Act::Query(texts) if texts.len() > 1 => drop(texts.remove(part)),
        Act::Copy { data, .. } => drop(data.rows.remove(part)),
        _ => {}
    }
}
