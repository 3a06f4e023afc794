//! Names of hosts whose addresses change: which host gets what depends on the hosts' roles.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Cluster, Config, Faulty, Names, Weir, tools, wait_until};

use super::support::{NOTICED, marked, state};

const WRITER: &str = "writer.test";
const READER: &str = "reader.test";

/// Address at which host 0 listens.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
/// Address at which host 1 listens.
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A primary and a replica with a name each, on one port, and Weir in front of them.
struct Named {
    // Dropped first: its servers end before the hosts do.
    weir: Weir,
    _paths: [Faulty; 2],
    names: Names,
    cluster: Cluster,
}

impl Named {
    fn start() -> Result<Self> {
        let cluster = Cluster::start(1, &["log_statement = all"])?;
        let port = tools::free_port()?;
        let paths = [
            Faulty::at(FIRST, port, cluster.host(0).port())?,
            Faulty::at(SECOND, port, cluster.host(1).port())?,
        ];
        let names = Names::new(&[(WRITER, FIRST), (READER, SECOND)])?;
        let entry = format!(
            "host={WRITER} port={port} dbname=postgres replicas={READER}:{port} read_write_split=auto watch_user=postgres \
             read_consistency=eventual"
        );
        let config = Config::new()
            .set("min_time_between_holds", "0")
            .set("dns_max_ttl", "1")
            .database(&format!("shop = {entry}"))
            .database(&format!("shop_ro = {entry} target=read-only"));
        let config = names
            .env()
            .iter()
            .fold(config, |config, (key, value)| config.env(key, value));
        let named = Self {
            weir: Weir::start(&config)?,
            _paths: paths,
            names,
            cluster,
        };
        Ok(named)
    }

    /// Waits until Weir writes to the host of one name and reads from that of the other.
    fn until(&self, writer: &str, reader: &str) -> Result<()> {
        let mut console = self.weir.connect("pgbouncer")?;
        let mut last = Vec::new();
        let shown = wait_until("the roles of the names", NOTICED.saturating_mul(2), || {
            last = console.query_named("SHOW HOSTS")?;
            let is = |name: &str, column: &str| {
                let of_name = |host: &&HashMap<String, String>| {
                    host.get("host").is_some_and(|host| host.starts_with(name))
                };
                let mut hosts = last.iter().filter(of_name);
                hosts.all(|host| host.get(column).is_some_and(|value| value == "yes"))
            };
            Ok(!last.is_empty() && is(writer, "writes") && is(reader, "reads"))
        });
        shown.with_context(|| format!("{last:?}\n{}", self.weir.log()))
    }

    /// Checks that new and old clients write to the primary and read from the replica.
    fn check(&self, phase: &str, replica: usize) -> Result<()> {
        let mut old = self.weir.connect("shop")?;
        for round in 0..20 {
            let mut new = self.weir.connect("shop")?;
            let mut reader = self.weir.connect("shop_ro")?;
            for client in [&mut old, &mut new] {
                let told = state(client, &marked("INSERT INTO t VALUES (1)", phase))?;
                ensure!(
                    told.is_none(),
                    "{phase}, round {round}: {told:?}\n{}",
                    self.weir.log()
                );
                client.query(&marked("SELECT count(*) FROM t", phase))?;
            }
            let in_recovery = reader.query_one("SELECT pg_is_in_recovery()")?;
            ensure!(in_recovery == "t", "{phase}: read-only runs on a primary");
            new.terminate();
            reader.terminate();
        }
        let mark = format!("/* {phase}. */ SELECT");
        let [on_primary, on_replica] = [self.cluster.primary(), self.cluster.host(replica)]
            .map(|host| host.count_statements(&mark));
        ensure!(
            on_replica > 0 && on_primary + on_replica == 40,
            "{phase}: {on_primary} reads on the primary, {on_replica} on the replica"
        );
        Ok(())
    }
}

#[test]
fn rt_45_names_that_change_their_hosts_change_no_role() -> Result<()> {
    let mut named = Named::start()?;
    named.cluster.primary().query("CREATE TABLE t (a int)")?;
    named.cluster.wait_until_replayed(1)?;
    named.until(WRITER, READER)?;
    named.check("before", 1)?;

    // The hosts change their roles, then each name follows its role.
    named.cluster.promote(1)?;
    named.cluster.rejoin(0)?;
    named.until(READER, WRITER)?;
    named.check("promoted", 0)?;
    named.names.set(&[(WRITER, SECOND), (READER, FIRST)])?;
    named.until(WRITER, READER)?;
    named.check("followed", 0)?;

    // The names change without a reason: the hosts keep their roles.
    named.names.set(&[(WRITER, FIRST), (READER, SECOND)])?;
    named.until(READER, WRITER)?;
    named.check("moved", 0)
}
