//! Effects that a statement may have on the session it runs in.
//!
//! Step 1, [`is_harmless`], proves in one pass over the bytes that a text cannot change the state of its session. Step
//! 2, [`judge`], parses the texts that step 1 cannot clear with PostgreSQL's own grammar, and returns their
//! [`Effects`]. [`Judge`] does both and caches verdicts by text.
//!
//! **Invariants.** "Harmless" is a proof: a false alarm costs a parse, a missed effect is a bug. No input panics or
//! overflows the stack: beyond the limits of step 2 every effect is assumed. State that no text shows (a function that
//! sets something inside) is not detected here. This crate has no socket, clock or thread.
//!
//! ```
//! use weir_sql::{Asks, Functions, Judge};
//!
//! let mut judge = Judge::new(Functions::default());
//! assert!(judge.effects(b"UPDATE t SET a = 1", false).is_none());
//! let effects = judge.effects(b"SET TIME ZONE 'UTC'", false).unwrap();
//! assert_eq!(effects.asks, Asks::of(["timezone"]));
//! ```

mod access;
mod assigned;
mod cache;
mod catalogue;
mod code;
mod effects;
mod facts;
mod fingerprint;
mod functions;
mod hints;
mod judge;
mod lex;
mod library;
mod literals;
mod parsed;
mod pieces;
mod reason;
mod same_rows;
mod scan;
mod setting;
mod shape;
mod short;
mod sieve;
mod slots;
mod table;
mod tree;
mod words;

#[cfg(test)]
mod tests;

pub use access::{
    Access, BadPattern, BlockEnd, Called, Cause, Isolation, Modes, Names, Nature, Objects, Pattern,
    Relation, Step, Why, access, block_end, step,
};
pub use assigned::assigned;
pub use cache::Judge;
pub use catalogue::{Catalogue, LoadError, load_query, stamp_query};
pub use effects::{Asks, Channel, Definition, Effects, Resets, Return, Sequences};
pub use facts::{Facts, Named, StatementKind};
pub use fingerprint::{BadFingerprint, Fingerprint, normalized};
pub use functions::Functions;
pub use hints::hints;
pub use judge::judge;
pub use literals::{is_control, literals_matter};
pub use pieces::Pieces;
pub use reason::{Reason, Reasons};
pub use same_rows::has_same_rows;
pub use scan::{is_harmless, is_harmless_while_pinned};
pub use shape::{
    Blank, SHAPE_MAX, ShapeKey, Shaper, canonical, is_clear, sample, statements, without_literals,
};
pub use short::{SHORT_MAX, Short, slot};
pub use slots::{Slots, parameter_number};
