//! Hints of `weir check`: settings that work, and that cost more than others would. A hint is never a mistake.

use std::path::{Path, PathBuf};

use weir_config::{HostAddr, Settings};

use crate::load::Prepared;

/// Directory of PostgreSQL's sockets in Debian's and Red Hat's packages.
const SOCKETS: &str = "/var/run/postgresql";

/// Returns the hints about a configuration on this machine.
pub(super) fn hints(prepared: &Prepared) -> Vec<String> {
    let mut hints = prepared.transport.hints().to_vec();
    hints.extend(local_servers(&prepared.loaded.settings, Path::exists));
    hints
}

/// Returns a hint for each database whose server is reached by TCP although its unix socket is here.
fn local_servers(settings: &Settings, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut hints = Vec::new();
    for (name, entry) in &settings.databases {
        let socket = PathBuf::from(format!("{SOCKETS}/.s.PGSQL.{}", entry.port));
        let is_cluster = settings
            .pool(name, "")
            .is_none_or(|pool| pool.cluster.is_some());
        // Several hosts have one port and may be one server each, and only one of them is behind the socket.
        let [host] = entry.host.as_slice() else {
            continue;
        };
        if is_cluster || !is_loopback(host) || !exists(&socket) {
            continue;
        }
        hints.push(format!(
            "database \"{name}\": the server {host}:{port} may be the one of {socket}; host = {SOCKETS} saves processor \
             time in each transaction, and needs a `local` line in pg_hba.conf",
            port = entry.port,
            socket = socket.display(),
        ));
    }
    hints
}

fn is_loopback(host: &HostAddr) -> bool {
    match host {
        HostAddr::Ip(ip) => ip.is_loopback(),
        HostAddr::Name(name) => name.eq_ignore_ascii_case("localhost"),
        HostAddr::UnixDir(_) | HostAddr::Abstract(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_loopback_are_hinted_at_if_their_socket_is_here() {
        let text = "[databases]\n\
            near = host=127.0.0.1 port=5433\n\
            named = host=localhost\n\
            six = host=::1 port=5433\n\
            far = host=10.0.0.1 port=5433\n\
            two = host=127.0.0.1,::1 port=5433\n\
            unix = host=/var/run/postgresql port=5433\n\
            [pgbouncer]\nauth_type=any\nlisten_addr=127.0.0.1\n";
        let mut read = |_: &Path| Ok(text.to_owned());
        let loaded = weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty()).unwrap();
        let here = |path: &Path| path == Path::new("/var/run/postgresql/.s.PGSQL.5433");
        let hints = local_servers(&loaded.settings, here);
        let wanted = [
            "database \"near\": the server 127.0.0.1:5433",
            "database \"six\"",
        ];
        assert_eq!(hints.len(), wanted.len(), "{hints:?}");
        for (hint, wanted) in hints.iter().zip(wanted) {
            assert!(hint.starts_with(wanted), "{hint}");
        }
        assert!(local_servers(&loaded.settings, |_| false).is_empty());
    }
}
