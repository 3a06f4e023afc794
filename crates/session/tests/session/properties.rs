//! Random pipelines.
