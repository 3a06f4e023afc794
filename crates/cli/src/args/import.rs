//! Arguments of `weir import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Text behind the options.
pub(crate) const AFTER_HELP: &str = "\
Each setting gets a line on standard error: file and line, key, value, and `mapped to`, `same as default of`, `no meaning \
here` or `not mapped` with the reason. Settings that change what clients see and have no counterpart, and unknown ones, \
refuse the import; with --lenient they become comments of the new file. Passwords go to userlist.txt beside FILE, which \
only its owner may read, and never to the terminal; rules about logins go to hba.conf. For PgBouncer it does what `weir \
convert` does: passwords of the ini stay in the new file. Existing files are not overwritten. Try the result with `weir \
check FILE`.

Files, and versions that were read:
  pgbouncer  pgbouncer.ini (1.25)
  pgcat      pgcat.toml (1.3.0)
  pgdog      pgdog.toml, users.toml (0.1.54)
  pgpool     pgpool.conf, pool_hba.conf, pool_passwd, pcp.conf (4.8), told apart by their names
  odyssey    odyssey.conf, its includes, its HBA file with hba in its name (1.5.3)
  proxysql   proxysql.cnf, its includes (3.0); the pgsql_ sections
  haproxy    haproxy.cfg (3.4); sections in mode tcp that lead to PostgreSQL

Exit codes:
  0  written
  1  a file cannot be read, or settings are not mapped; nothing is written
  2  the command line has mistakes
  3  a file cannot be written";

/// Arguments of `weir import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Product whose files are read
    #[arg(long, value_name = "PRODUCT", value_enum)]
    pub(crate) from: ImportFrom,
    /// Files of the other product
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The file to write, which must not exist
    #[arg(short, long, value_name = "FILE", default_value = "weir.toml")]
    pub(crate) out: PathBuf,
    /// Refuse to write if a setting is not mapped; the default
    #[arg(long, conflicts_with = "lenient")]
    pub(crate) strict: bool,
    /// Write what is mapped, and the rest as comments
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Write nothing: print the configuration, without secrets
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Product that `weir import` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFrom {
    Haproxy,
    Odyssey,
    Pgbouncer,
    Pgcat,
    Pgdog,
    Pgpool,
    Proxysql,
}
