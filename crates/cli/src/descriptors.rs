//! Limit of open files: every client and server connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_config::Settings;

/// Raises the soft limit to what the settings may need, as far as the hard limit allows, and logs the result as
/// PgBouncer does.
pub(crate) fn prepare(settings: &Settings) {
    let needed = weir_config::fd_budget(settings);
    let limit = getrlimit(Resource::Nofile);
    if let Some(current) = wanted(limit, needed) {
        let new = Rlimit {
            current: Some(current),
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, new) {
            tracing::warn!("cannot raise the file descriptor limit to {current}: {error}");
        }
    }
    let now = getrlimit(Resource::Nofile);
    tracing::info!(
        "kernel file descriptor limit: {} (hard: {}); max_client_conn: {}, max expected fd use: {needed}",
        shown(now.current),
        shown(now.maximum),
        settings.global.max_client_conn,
    );
    if now.current.is_some_and(|current| current < needed) {
        tracing::warn!(
            "file descriptor limit too low: these settings need {needed}; connections beyond the limit are refused; \
             raise LimitNOFILE or ulimit -n"
        );
    }
}

/// Returns the new soft limit, if raising it helps. `None` in a limit means unlimited.
fn wanted(limit: Rlimit, needed: u64) -> Option<u64> {
    let current = limit.current.filter(|current| *current < needed)?;
    let best = limit.maximum.map_or(needed, |maximum| needed.min(maximum));
    (best > current).then_some(best)
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_rises_to_what_is_needed_but_not_beyond_the_hard_one() {
        let limit = |current, maximum| Rlimit { current, maximum };
        assert_eq!(wanted(limit(Some(1024), Some(4096)), 2000), Some(2000));
        assert_eq!(wanted(limit(Some(1024), Some(4096)), 9000), Some(4096));
        assert_eq!(wanted(limit(Some(1024), None), 9000), Some(9000));
        assert_eq!(wanted(limit(Some(1024), Some(1024)), 9000), None);
        assert_eq!(wanted(limit(Some(1024), Some(4096)), 100), None);
        assert_eq!(wanted(limit(None, None), 9000), None);
    }
}
