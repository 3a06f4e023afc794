//! Access rules: HBA files and ident maps, parsed, matched and explained.
//!
//! [`Hba`] is a file of rules in PostgreSQL's format (manual section 21.1), which is also PgBouncer's `auth_hba_file`;
//! [`IdentMap`] is `auth_ident_file` (section 21.2). [`Hba::decide`] finds the first line that fits a [`Visitor`];
//! [`Hba::explain`] says of every line why it fits or does not. Roles and host names are costly to look up and are not
//! fetched here: the decision names the [`Fact`] it needs, and the caller asks again with the answer in [`Facts`].
//!
//! **Invariants.** Without a matching line no client is admitted. A file with one mistake is refused whole. A fact that
//! could not be found out never admits a client: a `reject` line that depends on it counts as matching, every other
//! line as not matching. Deciding allocates nothing per line. There is no file, socket, clock, thread or global in this
//! crate.
//!
//! ```
//! use weir_access::{Answer, Decision, Fact, Facts, Hba, Method, Origin, Transport, Visitor};
//!
//! let hba = Hba::parse(
//!     "pg_hba.conf",
//!     "host  all  +contractors  all         reject\n\
//!      host  all  all           10.0.0.0/8  scram-sha-256\n",
//! )?;
//! let visitor = Visitor {
//!     user: "ann",
//!     database: "shop",
//!     origin: Origin::Ip { address: [10, 1, 2, 3].into(), interfaces: None },
//!     transport: Transport::Plain,
//!     physical_replication: false,
//! };
//! assert!(matches!(hba.decide(&visitor, &Facts::default()), Decision::Needs(Fact::Roles)));
//!
//! let roles = ["ann".to_owned()];
//! let facts = Facts { roles: Answer::Known(&roles), ..Facts::default() };
//! let Decision::Rule(rule) = hba.decide(&visitor, &facts) else { panic!("a line matches") };
//! assert!(matches!(rule.method(), Method::ScramSha256));
//! # Ok::<(), weir_access::Problems>(())
//! ```

mod address;
mod error;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod hba;
mod ident;
pub mod ldap;
pub mod limits;
mod lines;
mod names;
mod rule;
mod tokens;
mod visitor;

pub use error::{Mistake, Place, Problem, Problems};
pub use files::{FileError, Files, NoFiles};
pub use hba::{Decision, ExplainedLine, Explanation, Hba, Outcome};
pub use ident::{IdentMap, Mapping};
pub use rule::{ClientCertificate, ClientName, Kind, Method, PamOptions, Rule};
pub use visitor::{Answer, Fact, Facts, Interface, Origin, ROLES_QUERY, Transport, Visitor};
