//! Query rules: which of them a statement meets, in the order of the file.
//!
//! A rule has conditions. Those about the client are decided once per client and stand here as a set of rules ([`Fits`]).
//! Those about the shape of a statement (kind, tables, functions, fingerprint) are decided once per shape ([`Book::plan`]),
//! so thousands of rules by fingerprint cost one look-up. Those about the text (a regular expression, keys in comments)
//! are decided for each text, if the others hold ([`Book::met`]).
//!
//! **Invariants.** The first rule in the file that is met decides, unless it says to go on. A text costs time linear in its
//! length for each rule that asks for it. This crate decides and counts; it carries nothing out.

mod allow;
mod book;
mod bulkhead;
mod conditions;
mod rewrite;
mod rule;
mod rules;
mod text;
mod verdict;

pub use allow::{
    AllowList, BadEntry, BadKnown, Entry as StatementEntry, Form, Known, News, Policy, Record,
    Recorded, Standing, StatementList, Totals,
};
pub use book::{Book, Fits, Plan, RuleId};
pub use bulkhead::{Bulkhead, Entry, Full, Occupancy, Permit, Waiter};
pub use conditions::Conditions;
pub use rewrite::{BadRewriting, Rewriting};
pub use rule::{ALWAYS, Action, Concurrency, Mirroring, Rejection, RouteTo, Rule};
pub use rules::{Hits, Now, Rules, Statement};
pub use text::{BadText, CommentPattern, TextPattern};
pub use verdict::{Limit, Stage, Verdict, Watch, Wish};
