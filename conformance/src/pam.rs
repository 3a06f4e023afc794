//! A PAM stack in a directory of its own: `/etc/pam.d` and the system's accounts are not touched.
//!
//! Debian's `libpam-wrapper` makes PAM read its services from a given directory, in processes that are started with
//! [`Pam::env`]. Its module `pam_matrix` checks passwords against a text file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;

use crate::TempDir;
use crate::tools;

/// Users, passwords, and the service that each user may use.
const PASSWORDS: &str = "alice:alice's secret:pgbouncer\nalice:alice's secret:closed\n\
                         bob:bob's secret:elsewhere\n";

/// PAM services. `pgbouncer` records its requests; `talkative` sends many messages; `closed` refuses everybody;
/// `visible` has a prompt with echo; `broken` names a module that does not exist.
const SERVICES: &[(&str, &str)] = &[
    (
        "pgbouncer",
        "auth optional pam_exec.so quiet HERE/note\n\
         auth required MODULES/pam_matrix.so passdb=HERE/passwords\n\
         account required MODULES/pam_matrix.so passdb=HERE/passwords\n",
    ),
    (
        "talkative",
        "auth optional MODULES/pam_chatty.so num_lines=40 info error\n\
         auth required MODULES/pam_matrix.so passdb=HERE/passwords verbose\n\
         account required pam_permit.so\n",
    ),
    (
        "closed",
        "auth required MODULES/pam_matrix.so passdb=HERE/passwords\naccount required pam_deny.so\n",
    ),
    (
        "visible",
        "auth required MODULES/pam_matrix.so passdb=HERE/passwords echo\naccount required pam_permit.so\n",
    ),
    (
        "broken",
        "auth required pam_of_nobody.so\naccount required pam_permit.so\n",
    ),
];

/// Files of the stack, which are removed when this is dropped.
#[derive(Debug)]
pub struct Pam {
    directory: TempDir,
}

/// Complaint of pam_wrapper that has looked for a free directory name and finds it taken when it creates it.
const RACE: &str = "Failed to create pam_wrapper config dir";
/// Number of directory names that pam_wrapper tries.
const WRAPPERS_MAX: usize = 36;

impl Pam {
    /// Writes the services.
    ///
    /// # Errors
    /// When the wrapper is not installed, or the files cannot be written.
    pub fn new() -> Result<Self> {
        let modules = modules()?;
        let directory = TempDir::new()?;
        let here = directory.path().to_string_lossy().into_owned();
        for name in ["services", "runtime"] {
            fs::create_dir(directory.path().join(name))?;
        }
        directory.write("passwords", PASSWORDS)?;
        let line = "\"$PAM_TYPE $PAM_SERVICE $PAM_USER $PAM_RHOST\"";
        let note = directory.write("note", &format!("#!/bin/sh\necho {line} >> {here}/asked\n"))?;
        fs::set_permissions(&note, fs::Permissions::from_mode(0o755))?;
        for (name, text) in SERVICES {
            let text = text.replace("HERE", &here);
            let text = text.replace("MODULES", &modules.to_string_lossy());
            directory.write(&format!("services/{name}"), &text)?;
        }
        // All other services.
        directory.write(
            "services/other",
            "auth required pam_deny.so\naccount required pam_deny.so\n",
        )?;
        Ok(Self { directory })
    }

    /// Environment that makes a process use this stack.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let path = |name| {
            self.directory
                .path()
                .join(name)
                .to_string_lossy()
                .into_owned()
        };
        let pairs = [
            ("LD_PRELOAD", "libpam_wrapper.so".to_owned()),
            ("PAM_WRAPPER", "1".to_owned()),
            ("PAM_WRAPPER_SERVICE_DIR", path("services")),
            ("PAM_WRAPPER_RUNTIME_DIR", path("runtime")),
            // Otherwise the wrapper's messages would appear between the program's lines.
            ("PAM_WRAPPER_USE_SYSLOG", "1".to_owned()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).into()
    }

    /// Requests to service `pgbouncer`, one line `auth SERVICE USER HOST` each.
    #[must_use]
    pub fn asked(&self) -> String {
        fs::read_to_string(self.directory.path().join("asked")).unwrap_or_default()
    }

    /// Runs `program` on this stack and returns what it printed.
    ///
    /// # Errors
    /// When the program fails.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.args(arguments).envs(self.env());
        let is_race = |error: &anyhow::Error| error.to_string().contains(RACE);
        // Of processes that begin at the same time, one takes the name, and the others find the next one free.
        let lost = (0..WRAPPERS_MAX).map(|_| tools::run(&mut command));
        let mut told = lost.skip_while(|outcome| outcome.as_ref().is_err_and(is_race));
        told.next().context("every attempt met another process")?
    }
}

/// Directory of the wrapper's modules, such as `/usr/lib/x86_64-linux-gnu/pam_wrapper`.
fn modules() -> Result<PathBuf> {
    let places = fs::read_dir("/usr/lib")
        .context("/usr/lib")?
        .flatten()
        .map(|entry| entry.path());
    places
        .chain([PathBuf::from("/usr/lib64"), PathBuf::from("/usr/lib")])
        .map(|place| place.join("pam_wrapper"))
        .find(|place| place.join("pam_matrix.so").is_file())
        .context("no pam_matrix.so: apt-get install libpam-wrapper")
}
