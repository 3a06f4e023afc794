//! The admin console: the virtual database that answers `SHOW` and a few commands, in PgBouncer's words and columns.
//!
//! [`console`] creates the back end that the engine calls; through [`Shared`] the binary informs it of a reload. One
//! table lists all commands with their roles and descriptions: parser, `SHOW HELP`, authorisation and the reference
//! page ([`reference_markdown`]) come from it.
//!
//! The crate must never show a secret, act for a user whose role does not allow it, or panic at a query.
//!
//! ```
//! use std::path::Path;
//! use weir_proxy::console::{Console, Role, Step};
//!
//! let text = "[databases]\nshop = host=10.0.0.5\n[pgbouncer]\nauth_type = any\n";
//! let mut read = |_: &Path| Ok(text.to_owned());
//! let loaded = weir_config::load(Path::new("pgbouncer.ini"), &mut read, std::iter::empty()).unwrap();
//! let shared = weir_admin::Shared::new(loaded.settings.into(), Vec::new());
//! let console = weir_admin::console(shared, "0.1.0");
//!
//! let mut client = console.open(Role::Stats);
//! assert!(matches!(client.handle(b'Q', b"show config;\0"), Step::Reply(_)));
//! assert!(matches!(client.handle(b'Q', b"SHOW POOLS\0"), Step::Gather { digests: false }));
//! let mut client = console.open(Role::Admin);
//! assert!(matches!(client.handle(b'Q', b"RECONNECT shop\0"), Step::Perform(_)));
//! ```

mod answer;
mod check;
mod command;
mod dashboard;
mod digests;
mod explain;
mod metrics;
mod reference;
mod reply;
mod rule;
mod shared;
mod show;
mod statement;
mod talk;
mod token;

pub use crate::answer::{PGBOUNCER_VERSION, console};
pub use crate::dashboard::dashboard;
pub use crate::metrics::{alert_rules_yaml, grafana_board_json, metrics, metrics_markdown};
pub use crate::reference::reference_markdown;
pub use crate::shared::Shared;
