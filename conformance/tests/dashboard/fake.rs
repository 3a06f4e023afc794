//! A dashboard in this process over a made-up pooler, for states that a real one reaches too slowly: 200 pools, every
//! severity, an hour of history.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use rustls::ServerConfig;
use weir_conformance::tools;
use weir_dashboard::Action;
use weir_dashboard::Column;
use weir_dashboard::Dashboard;
use weir_dashboard::Denied;
use weir_dashboard::Kind;
use weir_dashboard::Line;
use weir_dashboard::Missing;
use weir_dashboard::Options;
use weir_dashboard::Role;
use weir_dashboard::Scope;
use weir_dashboard::Series;
use weir_dashboard::Source;
use weir_dashboard::Table;
use weir_dashboard::Who;

/// Name that would run a script if it were not text.
pub(crate) const HOSTILE: &str = "<img src=x onerror=alert(1)>";
/// Time of the first figures.
const BEGAN: i64 = 1_700_000_000;
/// Length of the history in seconds.
const HISTORY: i64 = 900;

/// See the module's page.
pub(crate) struct Made {
    pub(crate) address: SocketAddr,
    dashboard: Option<Dashboard>,
}

struct Pooler {
    pools: usize,
    /// Number of times that someone asked for the time, which passes by a second each time.
    asked: AtomicI64,
}

impl Made {
    pub(crate) fn start(pools: usize) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", tools::free_port()?))?;
        let address = listener.local_addr()?;
        let pooler = Pooler {
            pools,
            asked: AtomicI64::new(0),
        };
        let dashboard = weir_dashboard::start(vec![listener], Arc::new(pooler))?;
        Ok(Self {
            address,
            dashboard: Some(dashboard),
        })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(dashboard) = self.dashboard.take() {
            dashboard.stop();
        }
    }
}

/// Makes a table. Names with `#` in front are of numbers.
fn table(columns: &str, rows: Vec<Vec<String>>) -> Table {
    let columns = columns.split(' ').map(|name| Column {
        name: name.trim_start_matches('#').to_owned(),
        kind: match name.starts_with('#') {
            true => Kind::Number,
            false => Kind::Text,
        },
    });
    let rows = rows.into_iter();
    Table {
        columns: columns.collect(),
        rows: rows
            .map(|row| row.into_iter().map(Some).collect())
            .collect(),
    }
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn conditions() -> Table {
    table(
        "condition severity scope since #seconds evidence advice command",
        vec![
            row(&[
                "pool full of idle transactions",
                "critical",
                "shop/app",
                "2023-11-14 22:10:00 UTC",
                "200",
                "waiting 12; 20 of 20 servers assigned; 14 idle in transaction",
                "14 of 20 servers sit in open transactions of billing, oldest 48 s. End them or set idle_transaction_timeout.",
                "KILL_CLIENT 4711",
            ]),
            row(&[
                "certificate ends",
                "warning",
                "/etc/weir/server.crt",
                "2023-11-14 00:00:00 UTC",
                "80000",
                "days_left 12",
                "The certificate ends in 12 days; a reload reads a new one.",
                "RELOAD",
            ]),
            row(&[
                "pool too large",
                "info",
                "blog/app",
                "2023-11-14 22:00:00 UTC",
                "800",
                "20 servers, knee at 9",
                "9 servers give the same throughput.",
                "SET default_pool_size = 9",
            ]),
        ],
    )
}

impl Pooler {
    fn pools(&self) -> Table {
        let rows = (0..self.pools).map(|number| {
            let name = match number {
                0 => HOSTILE.to_owned(),
                number => format!("shop_{number:03}"),
            };
            let waiting = if number % 7 == 0 { number } else { 0 };
            let [waiting, active] = [waiting, number % 20].map(|count| count.to_string());
            let mut cells = vec![
                name,
                "app".to_owned(),
                active.clone(),
                waiting,
                "1".to_owned(),
            ];
            cells.extend(row(&[
                "234567", "1250", "830", &active, "3", "20", "1", "0",
            ]));
            cells
        });
        table(
            "database user #cl_active #cl_waiting #maxwait #maxwait_us #wait_p99 #query_p99 #sv_active #sv_idle #size \
             #cl_pinned #paused",
            rows.collect(),
        )
    }

    fn clients(&self) -> Table {
        let rows = (0..40).map(|number| {
            let states = ["active", "waiting", "idle"];
            let state = states[number % 3];
            let id = (4_700 + number).to_string();
            row(&[
                &id, HOSTILE, "shop_001", "app", "10.0.0.7", state, "query", "48000000", "0", "0",
                "",
            ])
        });
        table(
            "#id application_name database user addr state activity #activity_us #wait #wait_us wait_reason",
            rows.collect(),
        )
    }
}

impl Source for Pooler {
    fn table(&self, name: &str) -> Result<Table, Missing> {
        Ok(match name {
            "CLIENTS" => self.clients(),
            "DIAGNOSIS" => conditions(),
            "EXTENDED POOLS" => self.pools(),
            "HOSTS" => table(
                "database host role state writes reads #lag_bytes #lag_ms last_error",
                vec![
                    row(&[
                        "shop",
                        "10.0.0.1:5432",
                        "primary",
                        "up",
                        "yes",
                        "no",
                        "0",
                        "0",
                        "",
                    ]),
                    row(&[
                        "shop",
                        "10.0.0.2:5432",
                        "replica",
                        "down",
                        "no",
                        "no",
                        "1048576",
                        "12000",
                        "connection refused",
                    ]),
                ],
            ),
            "LIMITS" => table(
                "name scope #used #maximum #percent",
                vec![
                    row(&["max_client_conn", "", "1960", "2000", "98"]),
                    row(&["max_db_connections", "shop", "3", "30", "10"]),
                ],
            ),
            "RULES" => table(
                "name action state #hits",
                vec![
                    row(&["slow", "limit", "live", "3"]),
                    row(&["copy", "mirror", "dry", "0"]),
                ],
            ),
            "STATE" => table(
                "key value",
                vec![row(&["active", "yes"]), row(&["paused", "no"])],
            ),
            "APPLICATIONS" | "EVENTS" => return Err(Missing::Unknown(format!("SHOW {name}"))),
            _ => table("name value", Vec::new()),
        })
    }

    fn history(&self, scope: &Scope, _: u32) -> Result<Series, Missing> {
        let names: &[&str] = match scope {
            Scope::Process => &["clients", "cpu", "memory"],
            Scope::Pool { .. } => &[
                "tps",
                "qps",
                "waiting",
                "oldest_wait_us",
                "wait_p99_us",
                "query_p99_us",
                "servers",
                "leased",
                "idle_in_transaction",
                "clients",
                "errors",
                "bytes",
            ],
        };
        let from = BEGAN + self.asked.load(Ordering::SeqCst) - HISTORY;
        let lines = names.iter().zip(1_u32..).map(|(name, number)| {
            let value = |second: i64| {
                let phase = f64::from(i32::try_from(second % 120).unwrap_or(0)) / 120.0;
                Some(((phase * std::f64::consts::TAU).sin() + 1.2) * 1_000.0 * f64::from(number))
            };
            Line {
                name: (*name).to_owned(),
                values: (from..from + HISTORY).map(value).collect(),
            }
        });
        Ok(Series {
            from,
            step: 1,
            lines: lines.collect(),
            marks: vec![(from + HISTORY / 2, "reload".to_owned())],
        })
    }

    fn act(&self, _: &Action, _: &Who) -> Result<String, String> {
        Ok("done".to_owned())
    }

    fn sign_in(&self, user: &str, _: &[u8], _: IpAddr) -> Result<Role, Denied> {
        self.role(user).ok_or(Denied::Wrong(Duration::ZERO))
    }

    fn role(&self, user: &str) -> Option<Role> {
        (user == "ann").then_some(Role::Admin)
    }

    fn options(&self) -> Options {
        Options {
            hosts: Vec::new(),
            has_actions: true,
        }
    }

    fn tls(&self) -> Option<Arc<ServerConfig>> {
        None
    }

    fn unix(&self) -> i64 {
        BEGAN + self.asked.fetch_add(1, Ordering::SeqCst)
    }
}
