//! Nothing at run time. The build script of this crate fails the build on a machine without libclang, before the C code
//! of PostgreSQL's grammar is compiled, which takes minutes.
//!
//! Cargo starts what most of the others wait for. Therefore `weir-wire`, which nearly all crates of the workspace use,
//! depends on this one, and not only `weir-sql`.
