//! Generated pages and files for monitoring, from the tables in the code and from kept results of benchmarks, and the check that the
//! committed pages are up to date.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::workspace;

mod benchmarks;

/// A generated page: its path from the root, and its text.
struct Page {
    path: String,
    text: String,
}

/// Returns all generated pages.
fn pages() -> Result<Vec<Page>> {
    let mut pages = vec![
        Page {
            path: "docs/reference/configuration.md".to_owned(),
            text: weir_config::reference_markdown(),
        },
        Page {
            path: "docs/reference/weir.schema.json".to_owned(),
            text: weir_config::schema_json(),
        },
        Page {
            path: "docs/reference/console.md".to_owned(),
            text: weir_admin::reference_markdown(),
        },
        Page {
            path: "docs/reference/metrics.md".to_owned(),
            text: weir_admin::metrics_markdown(),
        },
        Page {
            path: "docs/reference/conditions.md".to_owned(),
            text: weir_diagnosis::reference_markdown(),
        },
        Page {
            path: "contrib/monitoring/grafana-dashboard.json".to_owned(),
            text: weir_admin::grafana_board_json(),
        },
        Page {
            path: "contrib/monitoring/alerts.yml".to_owned(),
            text: weir_admin::alert_rules_yaml(),
        },
    ];
    pages.extend(benchmarks::pages()?);
    Ok(pages)
}

/// Writes every page.
pub(crate) fn write() -> Result<()> {
    for page in pages()? {
        let path = page.full_path();
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&path, &page.text).with_context(|| format!("cannot write {}", page.path))?;
        println!("wrote {}", page.path);
    }
    Ok(())
}

/// Fails if a committed page differs from the generated one.
pub(crate) fn check() -> Result<()> {
    let stale = stale()?;
    if stale.is_empty() {
        return Ok(());
    }
    bail!(
        "{} not what the code says; run: cargo xtask docs",
        stale.join(", ")
    );
}

/// Pages that are missing or differ.
pub(crate) fn stale() -> Result<Vec<String>> {
    let mut pages = pages()?;
    pages.retain(|page| {
        fs::read_to_string(page.full_path()).ok().as_deref() != Some(page.text.as_str())
    });
    Ok(pages.into_iter().map(|page| page.path).collect())
}

impl Page {
    fn full_path(&self) -> PathBuf {
        workspace::root().join(&self.path)
    }
}
