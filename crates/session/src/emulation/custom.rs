//! Names of settings that applications define (`app.tenant`). PostgreSQL's catalogues do not list them, so a query for
//! all settings of a server must name them.

use std::sync::{Arc, PoisonError, RwLock};

/// Maximum number of names kept for a database.
const NAMES_MAX: usize = 256;

/// Maximum length of a kept name in bytes. PostgreSQL's identifiers have 63; `set_config` accepts longer names.
const NAME_MAX: usize = 256;

/// Names of custom settings seen in a database: in statements, start-up packets and the catalogue.
///
/// Shared by all workers. Names are only added, never removed. Workers take the lock when they ask a server about
/// custom settings, and never hold it while they wait for a server.
#[derive(Debug, Default)]
pub struct CustomNames {
    known: RwLock<Arc<Known>>,
}

/// Snapshot of the custom names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) names: Vec<Box<str>>,
    /// True if there were more names than are kept, so a query for these misses some.
    pub(crate) is_partial: bool,
}

/// True if only an application or an extension can have defined this name.
pub(crate) fn is_custom(name: &str) -> bool {
    name.contains('.')
}

impl CustomNames {
    /// Adds those of `names` that are custom.
    pub fn add<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let mut known = None;
        for name in names.into_iter().filter(|name| is_custom(name)) {
            let known = known.get_or_insert_with(|| self.known());
            if known.is_partial || known.names.iter().any(|known| **known == *name) {
                continue;
            }
            self.insert(name);
            *known = self.known();
        }
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn insert(&self, name: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.names.iter().any(|known| **known == *name) {
            return;
        }
        let known = Arc::make_mut(&mut known);
        if known.names.len() >= NAMES_MAX || name.len() > NAME_MAX {
            known.is_partial = true;
        } else {
            known.names.push(name.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_names_are_kept_once() {
        let names = CustomNames::default();
        names.add(["app.tenant", "work_mem", "app.tenant", "app.user"]);
        let known = names.known();
        assert_eq!(*known.names, ["app.tenant".into(), "app.user".into()]);
        assert!(!known.is_partial);
    }

    #[test]
    fn at_the_bound_it_says_that_names_are_missing() {
        let names = CustomNames::default();
        for number in 0..=NAMES_MAX {
            names.add([format!("app.n{number}").as_str()]);
        }
        assert_eq!(names.known().names.len(), NAMES_MAX);
        assert!(names.known().is_partial);
        let names = CustomNames::default();
        names.add([format!("app.{}", "x".repeat(NAME_MAX)).as_str()]);
        assert!(names.known().is_partial);
    }
}
