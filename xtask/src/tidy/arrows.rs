//! Permitted dependencies between crates, and packages that must not occur below the pure crates.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use weir_lab::process::run_to_end;

use crate::tidy::Finding;
use crate::workspace::cargo;

/// Each crate, with the crates of this workspace that it may use. A new crate gets its row with its first
/// commit.
const ARROWS: &[(&str, &[&str])] = &[
    ("weir-needs", &[]),
    ("weir-wire", &["weir-needs"]),
    ("weir-auth", &["weir-wire"]),
    (
        "weir-session",
        &[
            "weir-wire",
            "weir-auth",
            "weir-rules",
            "weir-sql",
            "weir-stats",
        ],
    ),
    ("weir-sql", &["weir-needs"]),
    ("weir-pool", &[]),
    ("weir-ring", &[]),
    ("weir-access", &["weir-wire"]),
    ("weir-watch", &["weir-pool"]),
    ("weir-route", &["weir-pool", "weir-sql", "weir-watch"]),
    ("weir-stats", &[]),
    ("weir-advisor", &[]),
    ("weir-diagnosis", &["weir-stats"]),
    ("weir-tls", &[]),
    ("weir-directory", &["weir-auth", "weir-access"]),
    ("weir-command", &[]),
    ("weir-dashboard", &[]),
    ("weir-config", &["weir-access", "weir-rules", "weir-sql"]),
    ("weir-rules", &["weir-sql"]),
    ("weir-import", &["weir-access", "weir-config"]),
    (
        "weir-proxy",
        &[
            "weir-diagnosis",
            "weir-wire",
            "weir-auth",
            "weir-session",
            "weir-sql",
            "weir-pool",
            "weir-ring",
            "weir-route",
            "weir-rules",
            "weir-watch",
            "weir-access",
            "weir-stats",
            "weir-config",
            "weir-advisor",
            "weir-tls",
            "weir-directory",
        ],
    ),
    (
        "weir-admin",
        &[
            "weir-diagnosis",
            "weir-wire",
            "weir-rules",
            "weir-sql",
            "weir-stats",
            "weir-config",
            "weir-advisor",
            "weir-dashboard",
            "weir-proxy",
        ],
    ),
    (
        "weir-lab",
        &[
            "weir-wire",
            "weir-auth",
            "weir-session",
            "weir-stats",
            "weir-advisor",
            "weir-tls",
        ],
    ),
    (
        "weir-cli",
        &[
            "weir-admin",
            "weir-advisor",
            "weir-auth",
            "weir-command",
            "weir-config",
            "weir-dashboard",
            "weir-import",
            "weir-proxy",
            "weir-access",
            "weir-rules",
            "weir-session",
            "weir-sql",
            "weir-top",
            "weir-wire",
        ],
    ),
    ("weir-top", &["weir-proxy"]),
    ("weir-lab-cli", &["weir-command", "weir-lab"]),
    (
        "weir-testkit",
        &[
            "weir-wire",
            "weir-auth",
            "weir-session",
            "weir-pool",
            "weir-access",
            "weir-stats",
        ],
    ),
    (
        "weir-conformance",
        &[
            "weir-auth",
            "weir-dashboard",
            "weir-directory",
            "weir-lab",
            "weir-access",
            "weir-sql",
            "weir-testkit",
            "weir-tls",
            "weir-wire",
        ],
    ),
    (
        "xtask",
        &["weir-admin", "weir-config", "weir-diagnosis", "weir-lab"],
    ),
];

/// Crate that all tests may use, but no other code.
const TEST_ONLY: &str = "weir-testkit";

/// Crates below which there may be no socket, event loop or runtime.
const PURE: &[&str] = &[
    "weir-wire",
    "weir-auth",
    "weir-session",
    "weir-sql",
    "weir-pool",
    "weir-access",
    "weir-route",
    "weir-stats",
    "weir-advisor",
    "weir-diagnosis",
    "weir-watch",
];
const IMPURE: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "rustls",
    "async-std",
    "smol",
    "polling",
];

/// Packages that are banned everywhere, even as a dependency of tests: a second TLS stack, in C, with
/// vulnerabilities of its own (hazard SEC-69).
const BANNED: &[&str] = &["boring", "native-tls", "openssl", "openssl-sys"];

/// Part of the output of `cargo metadata --format-version 1`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; none for a normal dependency.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

pub(super) fn check() -> Result<Vec<Finding>> {
    let metadata = read()?;
    let mut findings = metadata.direct();
    findings.extend(metadata.trees());
    findings.extend(metadata.banned());
    Ok(findings)
}

fn read() -> Result<Metadata> {
    let version = run_to_end(Command::new("rustc").arg("-vV"))?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or_else(|| anyhow!("rustc -vV names no host"))?;
    // Without the filter cargo would download the dependencies of all other systems.
    let mut command = cargo();
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--filter-platform",
        host,
    ]);
    serde_json::from_str(&run_to_end(&mut command)?).context("cargo metadata changed its format")
}

impl Metadata {
    fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Compares direct dependencies with the table.
    fn direct(&self) -> Vec<Finding> {
        let ours: BTreeSet<&str> = self
            .members()
            .map(|package| package.name.as_str())
            .collect();
        let mut findings = Vec::new();
        for package in self.members() {
            let manifest = manifest(&package.name);
            let row = ARROWS.iter().find(|(name, _)| *name == package.name);
            let Some((_, allowed)) = row else {
                let instead = "add its row to xtask/src/tidy/arrows.rs";
                findings.push(Finding::new(
                    &manifest,
                    1,
                    "no row in the table of arrows",
                    instead,
                ));
                continue;
            };
            for dependency in &package.dependencies {
                let name = dependency.name.as_str();
                let test_only = dependency.kind.as_deref() == Some("dev") && name == TEST_ONLY;
                if ours.contains(name) && !allowed.contains(&name) && !test_only {
                    let what = format!("{} must not know {name}", package.name);
                    let instead = "pass in what it needs, or move the code to the side that may";
                    findings.push(Finding::new(&manifest, 1, what, instead));
                }
            }
        }
        findings
    }

    /// Checks all dependencies of the pure crates, except those of tests.
    fn trees(&self) -> Vec<Finding> {
        let names: BTreeMap<&str, &str> = self
            .packages
            .iter()
            .map(|package| (package.id.as_str(), package.name.as_str()))
            .collect();
        let mut findings = Vec::new();
        for package in self
            .members()
            .filter(|package| PURE.contains(&package.name.as_str()))
        {
            for id in self.below(&package.id) {
                let name = names.get(id).copied().unwrap_or_default();
                if IMPURE.contains(&name) {
                    let what = format!("{name} is in the tree of {}", package.name);
                    let instead = "keep sockets and runtimes in proxy; cargo tree -i names the way";
                    findings.push(Finding::new(&manifest(&package.name), 1, what, instead));
                }
            }
        }
        findings
    }

    /// Checks all packages that are built.
    fn banned(&self) -> Vec<Finding> {
        let found = self
            .resolve
            .nodes
            .iter()
            .filter_map(|node| self.packages.iter().find(|package| package.id == node.id))
            .filter(|package| BANNED.contains(&package.name.as_str()));
        let tell = |package: &Package| {
            let what = format!("{} is in the tree", package.name);
            let instead = "use rustls with aws-lc-rs; cargo tree -i names the way";
            Finding::new("Cargo.lock", 1, what, instead)
        };
        found.map(tell).collect()
    }

    fn below<'a>(&'a self, root: &'a str) -> BTreeSet<&'a str> {
        let nodes: BTreeMap<&str, &Node> = self
            .resolve
            .nodes
            .iter()
            .map(|node| (node.id.as_str(), node))
            .collect();
        let mut seen = BTreeSet::new();
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let edges = nodes.get(id).map_or(&[][..], |node| node.deps.as_slice());
            let normal = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
            open.extend(edges.iter().filter(normal).map(|edge| edge.pkg.as_str()));
        }
        seen
    }
}

fn manifest(package: &str) -> String {
    match package.strip_prefix("weir-") {
        Some("conformance") => "conformance/Cargo.toml".to_owned(),
        Some(name) => format!("crates/{name}/Cargo.toml"),
        None => format!("{package}/Cargo.toml"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(dependency: &str, kind: Option<&str>) -> Metadata {
        let kind = kind.map_or_else(|| "null".to_owned(), |kind| format!("\"{kind}\""));
        let text = format!(
            r#"{{
            "packages": [
              {{"id": "w", "name": "weir-wire",
                "dependencies": [{{"name": "{dependency}", "kind": {kind}}}]}},
              {{"id": "d", "name": "{dependency}", "dependencies": []}}
            ],
            "workspace_members": ["w", "d"],
            "resolve": {{"nodes": [
              {{"id": "w", "deps": [{{"pkg": "d", "dep_kinds": [{{"kind": {kind}}}]}}]}},
              {{"id": "d", "deps": []}}
            ]}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn an_arrow_upwards_is_found() {
        assert_eq!(metadata("weir-proxy", None).direct().len(), 1);
        assert_eq!(metadata("weir-proxy", Some("dev")).direct().len(), 1);
        assert_eq!(metadata("weir-testkit", Some("dev")).direct(), vec![]);
        assert_eq!(metadata("weir-testkit", None).direct().len(), 1);
    }

    #[test]
    fn sec_69_a_second_tls_stack_is_found_wherever_it_is() {
        assert_eq!(metadata("openssl-sys", Some("dev")).banned().len(), 1);
        assert_eq!(metadata("rustls", None).banned(), vec![]);
    }

    #[test]
    fn a_runtime_below_a_pure_crate_is_found_unless_for_tests() {
        assert_eq!(metadata("tokio", None).trees().len(), 1);
        assert_eq!(metadata("tokio", Some("dev")).trees(), vec![]);
    }
}
