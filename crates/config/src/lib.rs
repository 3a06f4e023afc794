//! Configuration: one table of options, from which come the parsers of both file formats, the environment, defaults,
//! ranges, `SHOW CONFIG`, reload and the reference page. Pure: files and environment are arguments.

mod check;
mod connstr;
mod env;
mod error;
mod ini;
mod load;
mod native;
mod options;
mod raw;
mod settings;
mod types;
mod value;

pub use crate::error::{ConfigError, ErrorKind};
pub use crate::load::{Loaded, load, upstream};
pub use crate::options::{Database, Global, Kind, Opt, Peer, Scope, Unit, UserSettings};
pub use crate::raw::Origin;
pub use crate::settings::{FALLBACK, PoolSettings, Settings};
pub use crate::types::{
    AuthType, HostAddr, ListenAddr, LoadBalanceHosts, LogFormat, PoolMode, Secret, SslMode,
};
