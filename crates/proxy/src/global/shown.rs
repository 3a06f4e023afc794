//! Settings of a pool in PgBouncer's words.

use weir_config::{LoadBalanceHosts, PoolMode, PoolSettings};

/// Returns the name that PgBouncer's SHOW uses.
pub(crate) fn mode_name(mode: PoolMode) -> &'static str {
    mode.as_str()
}

pub(crate) fn balance_name(pool: &PoolSettings) -> &'static str {
    match pool.load_balance_hosts {
        _ if pool.hosts.len() < 2 => "",
        LoadBalanceHosts::Disable => "disable",
        LoadBalanceHosts::RoundRobin => "round-robin",
    }
}
