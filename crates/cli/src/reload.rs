//! Changes that a reload may make, and settings that keep their value until a restart.

use weir_config::{Change, Settings, diff};

/// Restores the values in force where a reload cannot change them; returns all differences found before that. No
/// reader of the settings, neither the engine nor SHOW CONFIG, sees a value that is not in force.
pub(crate) fn merge(old: &Settings, new: &mut Settings) -> Vec<Change> {
    let changes = diff(old, new);
    keep_listeners(old, new);
    let (old, new) = (&old.global, &mut new.global);
    macro_rules! keep {
        ($($field:ident),+ $(,)?) => { $( new.$field.clone_from(&old.$field); )+ };
    }
    keep!(
        dashboard_listen,
        disable_pqexec,
        io,
        listen_addr,
        listen_backlog,
        listen_port,
        log_format,
        metrics_listen,
        pidfile,
        pkt_buf,
        resolv_conf,
        job_name,
        so_reuseport,
        track_extra_parameters,
        unix_socket_dir,
        unix_socket_group,
        unix_socket_mode,
        user,
        workers,
    );
    changes
}

/// Keeps the listeners that are open. A reload changes the pool modes and roles of their clients.
fn keep_listeners(old: &Settings, new: &mut Settings) {
    let wanted = std::mem::take(&mut new.listeners);
    new.listeners.clone_from(&old.listeners);
    for (name, open) in &mut new.listeners {
        if let Some(wanted) = wanted.get(name) {
            (open.pool_mode, open.role) = (wanted.pool_mode, wanted.role);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn settings(text: &str) -> Settings {
        let mut read = |_: &Path| {
            Ok(format!(
                "[databases]\nshop =\n[pgbouncer]\nauth_type=any\n{text}"
            ))
        };
        weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty())
            .unwrap()
            .settings
    }

    /// A different value for every option that a reload cannot change, according to the table of options.
    const FIXED: &str = "disable_pqexec=1\nio=epoll\nlisten_addr=127.0.0.1\nlisten_backlog=7\nlisten_port=7\n\
        log_format=json\ndashboard_listen=127.0.0.1:8\nmetrics_listen=127.0.0.1:7\npidfile=/x\npkt_buf=8192\nresolv_conf=/x\njob_name=x\nso_reuseport=1\n\
        track_extra_parameters=search_path\nunix_socket_dir=/x\nunix_socket_group=x\nunix_socket_mode=0700\n\
        user=x\nworkers=7\n";

    #[test]
    fn what_needs_a_restart_stays_and_is_told() {
        let old = settings("");
        let mut new = settings(&format!("{FIXED}verbose=2\n"));
        let changes = merge(&old, &mut new);
        let fixed = weir_config::Scope::Global.options().iter();
        let fixed = fixed.filter(|opt| !opt.reloadable).count();
        let told = changes.iter().filter(|change| !change.is_reloadable());
        assert_eq!(told.count(), fixed, "{changes:?}");
        let left: Vec<_> = diff(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(left, ["verbose: \"0\" to \"2\""]);
    }

    #[test]
    fn the_ports_of_listeners_stay_and_their_modes_change() {
        let old =
            settings("[listeners]\na = listen_port=7001 role=replica\nb = listen_port=7002\n");
        let wanted =
            "[listeners]\na = listen_port=7003 pool_mode=statement\nc = listen_port=7004\n";
        let mut new = settings(wanted);
        let told: Vec<_> = merge(&old, &mut new)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "listeners.a.listen_port: \"7001\" to \"7003\" (needs a restart)",
                "listeners.a.pool_mode: \"\" to \"statement\"",
                "listeners.a.role: \"replica\" to \"\"",
                "listeners.b removed (needs a restart)",
                "listeners.c added (needs a restart)",
            ]
        );
        let names: Vec<_> = new.listeners.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "b"]);
        let own = &new.listeners["a"];
        assert_eq!((own.listen_port, own.role), (7001, None));
        assert_eq!(own.pool_mode, Some(weir_config::PoolMode::Statement));
    }
}
