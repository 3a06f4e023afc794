//! Other poolers' configuration as Weir's. [`import`] takes the texts of the other product's files and returns a
//! `weir.toml`, a user list and a [`Finding`] for each setting: its counterpart here, or the reason for none. Pure: nothing is
//! read, written or connected to. A secret must never get into a finding, and no setting may be dropped without one.
//!
//! ```
//! use weir_import::{FileNames, Product, Source, import};
//!
//! let text = "[general]\nport = 6432\nautoreload = 5000\n".to_owned();
//! let source = Source { name: "pgcat.toml".to_owned(), text };
//! let imported = import(Product::PgCat, &[source], &FileNames::default()).unwrap();
//! assert!(imported.text.contains("pool_mode = \"transaction\""));
//! assert!(imported.findings[0].to_string().starts_with("pgcat.toml:2: general.port = 6432: "));
//! assert!(imported.findings[1].blocks());
//! ```

mod apply;
mod cursor;
mod draft;
mod finding;
mod haproxy;
mod hba;
mod leaf;
mod odyssey;
mod pgcat;
mod pgdog;
mod pgpool;
mod proxysql;
mod verify;

pub use crate::cursor::SyntaxError;
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
    /// Pgpool-II 4.8, `pgpool.conf`, `pool_hba.conf`, `pool_passwd` and `pcp.conf`, told apart by their names.
    Pgpool,
    /// Odyssey 1.5.3, `odyssey.conf`, its includes, and its HBA file, which has `hba` in its name.
    Odyssey,
    /// ProxySQL 3.0, `proxysql.cnf`.
    ProxySql,
    /// HAProxy 3.4, `haproxy.cfg`.
    HaProxy,
}

impl Product {
    /// Returns name and version that the tables were made for.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::PgCat => "PgCat 1.3.0",
            Self::PgDog => "PgDog 0.1.54",
            Self::Pgpool => "Pgpool-II 4.8",
            Self::Odyssey => "Odyssey 1.5.3",
            Self::ProxySql => "ProxySQL 3.0",
            Self::HaProxy => "HAProxy 3.4",
        }
    }

    fn read(self, source: &Source) -> Result<Vec<Leaf>, SyntaxError> {
        let (name, text) = (source.name.as_str(), source.text.as_str());
        match self {
            Self::PgCat | Self::PgDog => leaf::read_toml(name, text),
            Self::Pgpool => pgpool::read(name, text),
            Self::Odyssey => odyssey::read(name, text),
            Self::ProxySql => proxysql::read(name, text),
            Self::HaProxy => haproxy::read(name, text),
        }
    }
}

/// Names under which the files that belong to the `weir.toml` will be written.
#[derive(Clone, Copy, Debug)]
pub struct FileNames<'a> {
    /// User list.
    pub auth_file: &'a str,
    /// HBA file.
    pub hba_file: &'a str,
}

impl Default for FileNames<'_> {
    fn default() -> Self {
        Self {
            auth_file: "userlist.txt",
            hba_file: "hba.conf",
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
    /// Text of the HBA file; empty if the configuration needs none. May hold passwords of LDAP.
    pub hba: String,
    /// Remarks about the configuration as a whole.
    pub notes: Vec<String>,
    /// Findings, at least one per setting, in the order of the files; defaults of the other product come last.
    pub findings: Vec<Finding>,
}

/// Converts a configuration. `names` are those of the files that will stand beside it. `weir check` accepts the result: an
/// option that it would refuse is taken out, and the finding says why.
///
/// # Errors
/// Files are not in the product's format. One error per file names the place and what was expected there.
pub fn import(
    product: Product,
    sources: &[Source],
    names: &FileNames<'_>,
) -> Result<Imported, Vec<SyntaxError>> {
    let mut leaves: Vec<Leaf> = Vec::new();
    let mut errors = Vec::new();
    for source in sources {
        match product.read(source) {
            Ok(read) => leaves.extend(read),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut draft = Draft::default();
    let mut findings = match product {
        Product::PgCat => pgcat::map(leaves, &mut draft),
        Product::PgDog => pgdog::map(leaves, &mut draft),
        Product::Pgpool => pgpool::map(leaves, &mut draft),
        Product::Odyssey => odyssey::map(leaves, &mut draft),
        Product::ProxySql => proxysql::map(leaves, &mut draft),
        Product::HaProxy => haproxy::map(leaves, &mut draft),
    };
    draft.settle();
    verify::verify(product, names, &mut draft, &mut findings);
    // A default of the other product that changes nothing here is no news.
    findings.retain(|finding| finding.line > 0 || finding.is_mapped() || finding.blocks());
    Ok(Imported {
        text: draft.text(product, names, &findings).text,
        userlist: draft.userlist(),
        hba: draft.hba_file(),
        notes: draft.notes(),
        findings,
    })
}
