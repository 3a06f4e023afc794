//! Tests of the conditions.
