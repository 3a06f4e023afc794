//! Start of the dashboard, if the configuration has addresses for it.

use std::error::Error;
use std::net::TcpListener;
use std::sync::Arc;

use weir_admin::Shared;
use weir_config::ListenPoint;
use weir_dashboard::Dashboard;
use weir_proxy::Running;

/// Opens the sockets of `dashboard_listen` and serves them.
pub(crate) fn open(
    points: &[ListenPoint],
    running: &Running,
    shared: &Shared,
) -> Result<Option<Dashboard>, Box<dyn Error>> {
    start(weir_proxy::monitor::open(points)?, running, shared)
}

/// Serves these sockets. Without any there is no thread.
pub(crate) fn start(
    sockets: Vec<TcpListener>,
    running: &Running,
    shared: &Shared,
) -> Result<Option<Dashboard>, Box<dyn Error>> {
    if sockets.is_empty() {
        return Ok(None);
    }
    for socket in &sockets {
        let address = socket.local_addr()?;
        let scheme = match address.ip().to_canonical().is_loopback() {
            true => "http",
            false => "https",
        };
        tracing::info!("dashboard on {scheme}://{address}");
    }
    let source = weir_admin::dashboard(shared.clone(), super::run::VERSION, running.inspector());
    Ok(Some(weir_dashboard::start(sockets, Arc::new(source))?))
}
