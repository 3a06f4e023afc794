//! Hints about failovers: a program or an administrator says that a database may have another primary.
//!
//! A hint only hastens the next probes. The hosts' own answers decide which one takes writes, so a wrong hint, or the same
//! hint many times, does no harm.

use weir_config::{Cluster as Configured, PoolSettings};

use super::{Global, cluster_name};
use crate::orders::Refusal;

impl Global {
    /// Performs `PRIMARY`: has all hosts of a database probed at once.
    pub(crate) fn hint_primary(&self, database: &str, host: &str) -> Result<(), Refusal> {
        let name = self.known_database(database, "probe")?;
        let pool = self.settled().settings.pool(&name, "");
        let pool = pool.ok_or(Refusal::NoDatabase(name))?;
        self.hint_failover(&pool, Some(host))
    }

    /// Has all hosts of a database probed at once. `host` is the one that is said to be the primary.
    pub(crate) fn hint_failover(
        &self,
        pool: &PoolSettings,
        host: Option<&str>,
    ) -> Result<(), Refusal> {
        let Some(cluster) = &pool.cluster else {
            return Err(Refusal::NotRouted(pool.database.clone()));
        };
        if let Some(host) = host.filter(|host| !has_host(cluster, host)) {
            let names = cluster.hosts.iter().map(ToString::to_string);
            return Err(Refusal::NoHost {
                database: pool.database.clone(),
                host: host.to_owned(),
                hosts: names.collect::<Vec<_>>().join(", "),
            });
        }
        self.clusters.of(cluster_name(pool)).suspect();
        Ok(())
    }
}

/// True if a host has this name, as `SHOW HOSTS` shows it.
fn has_host(cluster: &Configured, name: &str) -> bool {
    let mut hosts = cluster.hosts.iter();
    hosts.any(|host| host.name().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn hosts_are_named_as_show_hosts_names_them() {
        let text = "[databases]\nshop = host=Db1 replicas=10.0.0.2:6000,[::1] watch_user=weir\n\
                    [pgbouncer]\nauth_type = any\n";
        let mut read = |_: &Path| Ok(text.to_owned());
        let loaded = weir_config::load(Path::new("weir.ini"), &mut read, std::iter::empty());
        let pool = loaded.unwrap().settings.pool("shop", "").unwrap();
        let cluster = pool.cluster.unwrap();
        for name in ["db1:5432", "DB1:5432", "10.0.0.2:6000", "[::1]:5432"] {
            assert!(has_host(&cluster, name), "{name}");
        }
        for name in ["", "db1", "db1:5433", "10.0.0.2:5432", "::1:5432"] {
            assert!(!has_host(&cluster, name), "{name}");
        }
    }
}
