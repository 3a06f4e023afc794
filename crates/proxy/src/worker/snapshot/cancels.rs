//! Cancel requests on their way, as rows of the console.

use weir_session::hello::Replication;
use weir_stats::{ClientRow, ClientState, ServerRow, ServerState, Snapshot};

use super::super::tables::Tables;
use super::Worker;
use crate::driver::Driver;
use crate::worker::cancel::{CancelAsker, Canceller};
use crate::worker::slots::Client;

impl<D: Driver> Worker<D> {
    /// Row of the client that brought a cancel request which is on its way to a server.
    pub(super) fn asker_row(&self, canceller: &Canceller) -> Option<ClientRow> {
        let client = self.tables.asker_of(canceller)?;
        let state = match canceller.is_sent() {
            true => ClientState::ActiveCancelRequest,
            false => ClientState::WaitingCancelRequest,
        };
        let (database, user) = self.tables.name_of_cancel(canceller)?;
        Some(ClientRow {
            database,
            user,
            ..self.client_row(client, state)
        })
    }

    /// Row of a connection that carries a cancel request to a server.
    pub(super) fn canceller_row(&self, canceller: &Canceller) -> Option<ServerRow> {
        let (database, user) = self.tables.name_of_cancel(canceller)?;
        let client = self.tables.asker_of(canceller);
        let remote = canceller.target.endpoint();
        let began_at = self.unix(canceller.began_at());
        Some(ServerRow {
            id: canceller.id,
            user,
            database,
            replication: Replication::None.name(),
            state: ServerState::ActiveCancel,
            local: self.driver.local(canceller.key, remote.port),
            remote,
            connect_time: began_at,
            request_time: began_at,
            close_needed: false,
            link: client.map(|client| client.id),
            remote_pid: 0,
            tls: String::new(),
            application_name: String::new(),
            prepared_statements: 0,
            buffers: self.buffers(canceller.key, &[]),
            worker: self.number,
        })
    }
}

impl Tables {
    fn asker_of(&self, canceller: &Canceller) -> Option<&Client> {
        match canceller.asker()? {
            CancelAsker::Here(client) => self.clients.get(client),
            CancelAsker::Neighbour(..) | CancelAsker::There(_) => None,
        }
    }

    /// Returns the pool of the server that a cancel request is for, as rows name it.
    fn name_of_cancel(&self, canceller: &Canceller) -> Option<(String, String)> {
        let server = self.servers.get(canceller.server()?)?;
        let key = &self.groups.must_get(server.group)?.global.key;
        Some((key.database.to_string(), key.user.to_string()))
    }

    /// Adds the cancel requests that are on their way.
    pub(super) fn show_cancels(&self, snapshot: &mut Snapshot) {
        for (_, canceller) in &self.cancellers {
            let is_sent = canceller.is_sent();
            if let Some(id) = canceller.peer() {
                let row = snapshot.peers.entry(id).or_default();
                row.active += u64::from(is_sent);
                row.waiting += u64::from(!is_sent);
            }
            let Some(name) = self.name_of_cancel(canceller) else {
                continue;
            };
            let counts = &mut snapshot.pools.entry(name).or_default().counts;
            let has_asker = canceller.asker().is_some();
            counts.sv_active_cancel += u64::from(is_sent);
            counts.cl_active_cancel_req += u64::from(is_sent && has_asker);
            counts.cl_waiting_cancel_req += u64::from(!is_sent && has_asker);
        }
    }
}
