//! Cache of where texts may run.

use std::sync::Arc;

use super::generations::Generations;
use crate::access::Access;
use crate::short::Short;

/// Maximum number of verdicts that texts share. Words alone lead to some forty.
const SHARED_MAX: usize = 64;

/// Verdicts by text. Allocates nothing while it is empty.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    /// Verdicts of short texts.
    pub(super) short: Short<Arc<Access>>,
    /// Verdicts that took a parse.
    pub(super) parsed: Generations<Arc<Access>>,
    /// Verdicts that words lead to, so that a text that is new each time allocates nothing.
    shared: Vec<Arc<Access>>,
}

impl Accesses {
    /// Returns a verdict in its shared form.
    pub(super) fn share(&mut self, access: Access) -> Arc<Access> {
        if let Some(known) = self.shared.iter().find(|known| ***known == access) {
            return Arc::clone(known);
        }
        let access = Arc::new(access);
        if self.shared.len() < SHARED_MAX {
            self.shared.push(Arc::clone(&access));
        }
        access
    }
}
