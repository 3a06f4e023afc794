//! Tables of a worker: its clients and servers, and what they belong to.

use std::collections::HashMap;
use std::sync::Arc;

use weir_session::statement::Registry;
use weir_sql::Shaper;
use weir_stats::Digests;

use super::applications::Applications;
use super::broken::Broken;
use super::cancel::Canceller;
use super::ids::{CancellerId, ClientId, GroupId, LaneId, ServerId, Slots};
use super::slots::{Client, Group, Lane, Server};
use crate::global::GroupKey;

/// See the module's page. Its functions change nothing outside of the tables: they send nothing, arm no timer and end
/// no connection.
pub(super) struct Tables {
    pub(super) clients: Slots<ClientId, Client>,
    pub(super) servers: Slots<ServerId, Server>,
    pub(super) groups: Slots<GroupId, Group>,
    pub(super) group_index: HashMap<GroupKey, GroupId>,
    pub(super) lanes: Slots<LaneId, Lane>,
    pub(super) cancellers: Slots<CancellerId, Canceller>,
    /// Statements that clients of this worker have prepared.
    pub(super) registry: Registry,
    /// Finds the shapes of statements.
    pub(super) shaper: Shaper,
    /// Counters by `application_name`.
    pub(super) applications: Applications,
    /// Digests; none if statements are not counted.
    pub(super) digests: Option<Box<Digests>>,
}

/// A client, the server that it uses, and their group: resolved once, and passed down while an event is handled.
pub(super) struct Link<'t> {
    pub(super) client: &'t mut Client,
    pub(super) server: &'t mut Server,
    pub(super) group: &'t mut Group,
    pub(super) lanes: &'t mut Slots<LaneId, Lane>,
    pub(super) registry: &'t mut Registry,
    pub(super) shaper: &'t Shaper,
    pub(super) applications: &'t mut Applications,
    pub(super) digests: Option<&'t mut Digests>,
}

impl Tables {
    /// Resolves a client and its server. All of them must exist.
    #[inline]
    pub(super) fn link(&mut self, client: ClientId, server: ServerId) -> Option<Link<'_>> {
        let client = self.clients.must_get_mut(client)?;
        let server = self.servers.must_get_mut(server)?;
        let group = self.groups.must_get_mut(client.group)?;
        Some(Link {
            client,
            server,
            group,
            lanes: &mut self.lanes,
            registry: &mut self.registry,
            shaper: &self.shaper,
            applications: &mut self.applications,
            digests: self.digests.as_deref_mut(),
        })
    }

    /// Makes empty tables for one of `workers` workers, whose shapes have this seed. Look-ups that must not fail report to `broken`.
    pub(super) fn new(number: usize, workers: usize, seed: u64, broken: &Arc<Broken>) -> Self {
        Self {
            clients: Slots::new(broken),
            servers: Slots::new(broken),
            groups: Slots::new(broken),
            group_index: HashMap::new(),
            lanes: Slots::new(broken),
            cancellers: Slots::new(broken),
            registry: Registry::new(number, workers),
            shaper: Shaper::new(seed),
            applications: Applications::default(),
            digests: None,
        }
    }
}
