//! A real Prometheus (Debian: `prometheus`), and its tool for rules and pages. The service of the package is not used.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_conformance::child::{Guarded, Runner};
use weir_conformance::{TempDir, http, tools, wait_until};

/// Time limit for starting up; a busy machine takes a while.
const START_MAX: Duration = Duration::from_secs(60);
const PACKAGE: &str = "prometheus";

/// A running Prometheus; dropping it stops it and removes its data.
pub(crate) struct Prometheus {
    // Dropped before the directory of its files.
    server: Guarded,
    _directory: TempDir,
    port: u16,
}

/// A rule as Prometheus has read it.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) expression: String,
    /// `ok`, `err`, or `unknown` before the first evaluation.
    pub(crate) health: String,
}

impl Prometheus {
    /// Starts a Prometheus that reads the page at this port and evaluates these rules each second.
    pub(crate) fn start(target: u16, rules: &Path) -> Result<Self> {
        let directory = TempDir::new()?;
        let port = tools::free_port()?;
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n\
             - job_name: weir\n  \
               static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n",
            rules.display()
        );
        let config = directory.write("prometheus.yml", &config)?;
        let program = tools::require("prometheus", PACKAGE)?;
        let data = directory.path().join("data");
        let command = [
            program.to_string_lossy().into_owned(),
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", data.display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let log = directory.path().join("prometheus.log");
        let server = Guarded::start(Runner::Ourselves, "TERM", &command, &[], &log)?;
        let mut prometheus = Self {
            server,
            _directory: directory,
            port,
        };
        prometheus.wait_ready()?;
        Ok(prometheus)
    }

    fn wait_ready(&mut self) -> Result<()> {
        let (server, port) = (&mut self.server, self.port);
        wait_until("Prometheus' start", START_MAX, || {
            server.check_running()?;
            let answer = http::request_1_0(port, "GET /-/ready");
            Ok(answer.is_ok_and(|(status, _)| status == 200))
        })
        .with_context(|| server.log())
    }

    /// Output of the server so far.
    pub(crate) fn log(&self) -> String {
        self.server.log()
    }

    /// Returns the current values of an expression, one for each series.
    pub(crate) fn values(&self, expression: &str) -> Result<Vec<f64>> {
        let query: String = expression
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let answer = self.get(&format!("/api/v1/query?query={query}"))?;
        let series = answer["data"]["result"].as_array();
        let series = series.with_context(|| format!("{expression}: {answer}"))?;
        let value = |series: &Value| {
            let text = series["value"][1].as_str();
            Ok(text.context("a sample without a value")?.parse()?)
        };
        series.iter().map(value).collect()
    }

    /// Returns all rules.
    pub(crate) fn rules(&self) -> Result<Vec<Rule>> {
        let answer = self.get("/api/v1/rules")?;
        let groups = answer["data"]["groups"].as_array().context("no groups")?;
        let rules = groups.iter().flat_map(|group| group["rules"].as_array());
        let text = |rule: &Value, key: &str| {
            let text = rule[key].as_str().map(str::to_owned);
            text.with_context(|| format!("no {key} in {rule}"))
        };
        rules
            .flatten()
            .map(|rule| {
                Ok(Rule {
                    name: text(rule, "name")?,
                    expression: text(rule, "query")?,
                    health: text(rule, "health")?,
                })
            })
            .collect()
    }

    fn get(&self, path: &str) -> Result<Value> {
        let (status, body) = http::request_1_0(self.port, &format!("GET {path}"))?;
        ensure!(status == 200, "{path}: {status} {body}");
        Ok(serde_json::from_str(&body)?)
    }
}

/// Runs promtool, with a file as its input if one is given; its output and true if it is content.
pub(crate) fn promtool(arguments: &[&str], input: Option<&Path>) -> Result<(String, bool)> {
    let mut command = Command::new(tools::require("promtool", PACKAGE)?);
    command.args(arguments);
    if let Some(path) = input {
        command.stdin(File::open(path)?);
    }
    tools::run_any(&mut command)
}
