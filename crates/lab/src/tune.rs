//! Finding out how many connections a database is worth: what reads the words of its load.

pub mod load;
