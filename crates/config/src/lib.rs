//! Configuration, built from one table of options. The parsers of both file formats, the environment, defaults, ranges,
//! `SHOW CONFIG`, reload and the reference page derive from it. Pure: files and environment are arguments.
//!
//! [`load`] turns a file into [`Loaded`], whose [`Settings`] are plain typed structs. [`Settings::pool`] resolves the
//! settings of a (database, user) pair. [`diff`] lists the changes of a reload; [`show_config`] and [`effective_text`]
//! print. Every mistake is a [`ConfigError`] with file, line and key. The crate must never accept half a configuration,
//! print a secret, or ignore an option if that weakens security.
//!
//! ```
//! use std::path::Path;
//!
//! let text = "
//! [databases]
//! shop = host=10.0.0.5 pool_size=40
//!
//! [pgbouncer]
//! listen_addr = 127.0.0.1
//! auth_file = /etc/weir/userlist.txt
//! pool_mode = transaction
//! ";
//! let env = [("WEIR_WORKERS".to_owned(), "2".to_owned())];
//! let mut read = |_: &Path| Ok(text.to_owned());
//! let loaded = weir_config::load(Path::new("pgbouncer.ini"), &mut read, env.into_iter()).unwrap();
//! assert_eq!(loaded.settings.global.workers, 2);
//! let pool = loaded.settings.pool("shop", "alice").unwrap();
//! assert_eq!((pool.pool_size, pool.pool_mode), (40, weir_config::PoolMode::Transaction));
//!
//! // A mistake is refused with its place and the nearest right key.
//! let mut read = |_: &Path| Ok("[pgbouncer]\npool_modes = session\n".to_owned());
//! let errors = weir_config::load(Path::new("pgbouncer.ini"), &mut read, std::iter::empty()).unwrap_err();
//! assert_eq!(
//!     errors[0].to_string(),
//!     "pgbouncer.ini:2: unknown key \"pool_modes\" in section [pgbouncer]; did you mean \"pool_mode\"?"
//! );
//! ```

mod budget;
mod check;
mod cluster;
mod connstr;
mod convert;
mod diff;
mod directory;
mod env;
mod error;
mod expand;
mod explain;
mod files;
mod hint;
mod ini;
mod load;
mod manual;
mod native;
mod network;
mod options;
mod pattern;
mod point;
mod raw;
mod reference;
mod routing;
mod rules;
mod rules_dir;
mod schema;
mod settings;
mod show;
mod state;
mod statement_lists;
mod tls;
mod types;
mod value;

pub use crate::budget::{CONSOLE_RESERVE, fd_budget};
pub use crate::cluster::{Cluster, ClusterHost, WatchLogin};
pub use crate::convert::{Converted, convert};
pub use crate::diff::{Change, diff};
pub use crate::error::{ConfigError, ErrorKind};
pub use crate::explain::pool_text;
pub use crate::files::Files;
pub use crate::hint::{HintPoint, HintScheme, HintSource, HintTool, Hints};
pub use crate::load::{
    Loaded, Upstream, is_native, load, load_directory, load_what_is_right, upstream,
};
pub use crate::native::{query_rules, rules_of};
pub use crate::network::Network;
pub use crate::options::{
    AUTH_QUERY, Database, Effect, Global, Host, Kind, Listener, Opt, Peer, PoolOptions, Scope,
    Unit, UserSettings,
};
pub use crate::pattern::{FunctionPattern, NamePattern};
pub use crate::point::HostPoint;
pub use crate::raw::Origin;
pub use crate::reference::reference_markdown;
pub use crate::routing::{
    Fence, HostRole, ReadConsistency, ReadFallback, ReadWriteSplit, SplitBegin, SplitBrain, Target,
};
pub use crate::rules::{MIRRORS_MAX, NameMask, QueryRule, RuleClients, action_name};
pub use crate::schema::schema_json;
pub use crate::settings::{AuthLookup, FALLBACK, PoolSettings, Settings, Sizing};
pub use crate::show::{ConfigRow, effective_text, show_config};
pub use crate::state::{FunctionName, StateCheck};
pub use crate::statement_lists::statement_list_text;
pub use crate::tls::{ClientTls, SYSTEM_ROOTS, ServerTls};
pub use crate::types::{
    AuthType, ChannelBinding, HostAddr, Io, ListenAddr, ListenPoint, ListenerRole,
    LoadBalanceHosts, LogFormat, MaxPinned, PgBouncerVersion, PoolMode, PoolSize, Secret,
    SequenceValues, SessionState, SizingGoal, SizingMode, SslMode, SslNegotiation, StatementPolicy,
    SyslogFacility,
};
pub use crate::value::parse_seconds;
