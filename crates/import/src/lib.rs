//! Other poolers' configuration as Weir's. [`import`] takes the texts of the other product's files and returns a
//! `weir.toml`, a user list and a [`Finding`] for each setting: its counterpart here, or the reason for none. Pure: nothing is
//! read, written or connected to. A secret must never get into a finding, and no setting may be dropped without one.
//!
//! ```
//! use weir_import::{Product, Source, import};
//!
//! let text = "[general]\nport = 6432\nautoreload = 5000\n".to_owned();
//! let source = Source { name: "pgcat.toml".to_owned(), text };
//! let imported = import(Product::PgCat, &[source], "userlist.txt").unwrap();
//! assert!(imported.text.contains("pool_mode = \"transaction\""));
//! assert!(imported.findings[0].to_string().starts_with("pgcat.toml:2: general.port = 6432: "));
//! assert!(imported.findings[1].blocks());
//! ```

mod apply;
mod draft;
mod finding;
mod leaf;
mod pgcat;
mod pgdog;

pub use crate::finding::{Finding, Outcome};

use crate::draft::Draft;
use crate::leaf::Leaf;

/// Product whose configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Product {
    /// PgCat 1.3.0, `pgcat.toml`.
    PgCat,
    /// PgDog 0.1.54, `pgdog.toml` and `users.toml`.
    PgDog,
}

impl Product {
    /// Returns name and version that the tables were made for.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::PgCat => "PgCat 1.3.0",
            Self::PgDog => "PgDog 0.1.54",
        }
    }
}

/// A file of the other product.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name for findings.
    pub name: String,
    /// Content.
    pub text: String,
}

/// Result of an import.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// Text of the `weir.toml`, without secrets. Settings that are not mapped stand at its end as comments.
    pub text: String,
    /// Text of the user list, which holds all secrets; empty without users.
    pub userlist: String,
    /// One finding per setting, in the order of the files; defaults of the other product come last.
    pub findings: Vec<Finding>,
}

/// Converts a configuration. `auth_file` is the path under which the user list will be written.
///
/// # Errors
/// A file is not in the product's format. Each text names file, line and problem.
pub fn import(
    product: Product,
    sources: &[Source],
    auth_file: &str,
) -> Result<Imported, Vec<String>> {
    let mut leaves: Vec<Leaf> = Vec::new();
    let mut errors = Vec::new();
    for source in sources {
        match leaf::read_toml(&source.name, &source.text) {
            Ok(read) => leaves.extend(read),
            Err(found) => errors.extend(found),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut draft = Draft::default();
    let mut findings = match product {
        Product::PgCat => pgcat::map(leaves, &mut draft),
        Product::PgDog => pgdog::map(leaves, &mut draft),
    };
    draft.settle();
    // A default of the other product that changes nothing here is no news.
    findings.retain(|finding| finding.line > 0 || finding.is_mapped());
    Ok(Imported {
        text: draft.text(product, auth_file, &findings),
        userlist: draft.userlist(),
        findings,
    })
}
