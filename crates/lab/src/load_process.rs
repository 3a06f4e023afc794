//! The lab's own generator, run as a process of its own.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::generator::{Generator, Job, Loaded, Watch};

/// A program that reads a plan and makes its load.
#[derive(Clone, Debug)]
pub struct LoadProcess {
    /// It and its first arguments.
    pub command: Vec<String>,
}

impl Generator for LoadProcess {
    fn name(&self) -> &'static str {
        "weir"
    }

    fn run(&self, _job: &Job<'_>, _watch: &mut Watch<'_>) -> Result<Loaded> {
        let _: Option<PathBuf> = None;
        Err(Error::Load {
            name: "weir".to_owned(),
            reason: "not yet".to_owned(),
        })
    }
}
