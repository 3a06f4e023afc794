//! Arguments of `weir statements`.

use clap::{Args, Subcommand};

/// Questions about the statements that users may run.
#[derive(Debug, Subcommand)]
pub(crate) enum Statements {
    /// Print the list of a user, with the statements that a running pooler has learnt, as a file of statement_list_dir
    #[command(
        after_help = "Asks the console of a running Weir by SHOW LISTED_STATEMENTS, as a user of admin_users; the password is read \
        from PGPASSWORD. What is printed replaces the file of the user in statement_list_dir: it has the statements of the list, \
        and those that the user has run besides under statement_policy = learn or warn. Statements are sorted, so that a comparison \
        with the last version shows what is new. Review that before the list is enforced.\n\nExit codes:\n  0  done\n  3  no console \
        answers\n  4  the console refused the question, or the connection was lost, or the user has no statement_policy"
    )]
    Export(StatementsExport),
}

/// Arguments of `weir statements export`.
#[derive(Debug, Args)]
pub(crate) struct StatementsExport {
    /// The user whose statements are printed
    #[arg(value_name = "USER")]
    pub(crate) of: String,
    /// Address of the running Weir, or the path of its unix socket
    #[arg(value_name = "HOST:PORT", default_value = crate::console::ADDRESS)]
    pub(crate) address: String,
    /// User of the console; by default PGUSER, else USER
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Print statements too that were refused
    #[arg(long)]
    pub(crate) refused: bool,
}
