//! Both steps, and the verdicts of the second by text.

use std::collections::HashMap;
use std::sync::Arc;

use crate::effects::Effects;
use crate::functions::Functions;
use crate::judge::judge;
use crate::scan::{is_harmless, is_harmless_while_pinned};

/// Entries, and bytes of text, that are remembered.
const ENTRIES_MAX: usize = 1024;
const BYTES_MAX: usize = 1 << 20;

/// Judges texts, and remembers the verdicts of the second step.
#[derive(Debug)]
pub struct Judge {
    functions: Functions,
    verdicts: HashMap<Box<[u8]>, (u64, Arc<Effects>)>,
    bytes: usize,
    tick: u64,
}

impl Judge {
    /// With an empty memory.
    pub fn new(functions: Functions) -> Self {
        Self {
            functions,
            verdicts: HashMap::new(),
            bytes: 0,
            tick: 0,
        }
    }

    /// Nothing if the text is harmless. `pinned`: whether what ends a pin is of interest too.
    pub fn effects(&mut self, text: &[u8], pinned: bool) -> Option<Arc<Effects>> {
        let harmless = if pinned {
            is_harmless_while_pinned(text, &self.functions)
        } else {
            is_harmless(text, &self.functions)
        };
        if harmless {
            return None;
        }
        let effects = self.verdict(text);
        let of_interest = pinned || !effects.is_harmless_unpinned();
        (of_interest && !effects.is_harmless()).then_some(effects)
    }

    fn verdict(&mut self, text: &[u8]) -> Arc<Effects> {
        self.tick += 1;
        if let Some((used, effects)) = self.verdicts.get_mut(text) {
            *used = self.tick;
            return Arc::clone(effects);
        }
        let effects = Arc::new(judge(text, &self.functions));
        if text.len() <= BYTES_MAX / 16 {
            while self.verdicts.len() >= ENTRIES_MAX || self.bytes + text.len() > BYTES_MAX {
                self.forget_oldest();
            }
            self.bytes += text.len();
            self.verdicts
                .insert(text.into(), (self.tick, Arc::clone(&effects)));
        }
        effects
    }

    fn forget_oldest(&mut self) {
        let oldest = self.verdicts.iter().min_by_key(|(_, (used, _))| *used);
        if let Some(text) = oldest.map(|(text, _)| text.clone()) {
            self.bytes -= text.len();
            self.verdicts.remove(&text);
        }
    }
}
