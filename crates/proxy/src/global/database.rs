//! Facts about a database that all its pools share, whoever logs in.

use weir_session::custom::CustomNames;

/// Facts about one database, as all workers know it.
#[derive(Debug, Default)]
pub(crate) struct DatabaseState {
    /// Names of custom settings that were seen in it.
    pub(crate) names: CustomNames,
}
