//! Ids of clients, servers, groups, lanes, cancels and listeners, and the tables that give them out.
//!
//! An id has a generation: once its object is gone, the id finds nothing, never the object that got the place. So an id
//! may be kept by other threads, timers and other connections, and must never be compared by its place alone.

use std::sync::Arc;

use slotmap::{Key, KeyData, SlotMap, new_key_type};
use weir_pool::{ClientId as PoolClient, ServerId as PoolServer};

use super::broken::{Broken, Missing};

new_key_type! {
    /// A connection of this worker that carries a cancel request.
    pub(crate) struct CancellerId;

    /// A client of this worker.
    pub(crate) struct ClientId;

    /// A connection of this worker that listens for the clients of a database.
    pub(crate) struct ListenerId;

    /// This worker's part of a group. The null id means "no group yet": a client has it until it has logged in.
    pub(crate) struct GroupId;

    /// This worker's servers of a group at one host. The null id means "no group yet".
    pub(crate) struct LaneId;

    /// A server connection of this worker.
    pub(crate) struct ServerId;
}

/// Ids of one kind of objects.
pub(super) trait Id: Key {
    /// Name of the kind in reports of look-ups that found nothing.
    const KIND: Missing;
}

impl Id for CancellerId {
    const KIND: Missing = Missing::Canceller;
}

impl Id for ClientId {
    const KIND: Missing = Missing::Client;
}

impl Id for ListenerId {
    const KIND: Missing = Missing::Listener;
}

impl Id for GroupId {
    const KIND: Missing = Missing::Group;
}

impl Id for LaneId {
    const KIND: Missing = Missing::Lane;
}

impl Id for ServerId {
    const KIND: Missing = Missing::Server;
}

/// Gives an id as a number, for crates that know nothing of this one.
pub(super) fn number(id: impl Key) -> u64 {
    id.data().as_ffi()
}

impl From<u64> for ClientId {
    fn from(number: u64) -> Self {
        KeyData::from_ffi(number).into()
    }
}

impl From<ServerId> for PoolServer {
    fn from(id: ServerId) -> Self {
        Self(number(id))
    }
}

impl From<PoolServer> for ServerId {
    fn from(PoolServer(number): PoolServer) -> Self {
        KeyData::from_ffi(number).into()
    }
}

/// Object in a pool's queue. The pool's purpose decides the kind of all its waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    Client(ClientId),
    Listener(ListenerId),
}

impl Waiter {
    /// Reads the number of a waiter. `is_listener` is true if the pool's waiters are listeners.
    pub(super) fn new(PoolClient(number): PoolClient, is_listener: bool) -> Self {
        let id = KeyData::from_ffi(number);
        match is_listener {
            true => Self::Listener(id.into()),
            false => Self::Client(id.into()),
        }
    }
}

impl From<ClientId> for PoolClient {
    fn from(id: ClientId) -> Self {
        Self(number(id))
    }
}

impl From<ListenerId> for PoolClient {
    fn from(id: ListenerId) -> Self {
        Self(number(id))
    }
}

/// Objects of one kind, by id.
///
/// `must_get`, `must_get_mut` and `must_remove` are for ids whose object must exist: a missing object is a bug and is
/// reported. `get` and `get_mut` are for ids whose object may be gone.
#[derive(Debug)]
pub(super) struct Slots<K: Id, V> {
    map: SlotMap<K, V>,
    broken: Arc<Broken>,
}

impl<K: Id, V> Slots<K, V> {
    pub(super) fn new(broken: &Arc<Broken>) -> Self {
        Self {
            map: SlotMap::with_key(),
            broken: Arc::clone(broken),
        }
    }

    /// Adds the object that is made for the new id; nothing is added if that fails.
    pub(super) fn try_insert<E>(&mut self, make: impl FnOnce(K) -> Result<V, E>) -> Result<K, E> {
        self.map.try_insert_with_key(make)
    }

    pub(super) fn insert(&mut self, value: V) -> K {
        self.map.insert(value)
    }

    #[inline]
    #[track_caller]
    pub(super) fn must_get_mut(&mut self, id: K) -> Option<&mut V> {
        let found = self.map.get_mut(id);
        if found.is_none() {
            self.broken.report(K::KIND);
        }
        found
    }

    #[track_caller]
    pub(super) fn must_remove(&mut self, id: K) -> Option<V> {
        let found = self.map.remove(id);
        if found.is_none() {
            self.broken.report(K::KIND);
        }
        found
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: K) -> Option<&mut V> {
        self.map.get_mut(id)
    }

    pub(super) fn iter_mut(&mut self) -> slotmap::basic::IterMut<'_, K, V> {
        self.map.iter_mut()
    }

    #[inline]
    #[track_caller]
    pub(super) fn must_get(&self, id: K) -> Option<&V> {
        let found = self.map.get(id);
        if found.is_none() {
            self.broken.report(K::KIND);
        }
        found
    }

    #[inline]
    pub(super) fn get(&self, id: K) -> Option<&V> {
        self.map.get(id)
    }

    pub(super) fn contains(&self, id: K) -> bool {
        self.map.contains_key(id)
    }

    pub(super) fn iter(&self) -> slotmap::basic::Iter<'_, K, V> {
        self.map.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub(super) fn capacity(&self) -> usize {
        self.map.capacity()
    }
}

impl<'a, K: Id, V> IntoIterator for &'a Slots<K, V> {
    type Item = (K, &'a V);
    type IntoIter = slotmap::basic::Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K: Id, V> IntoIterator for &'a mut Slots<K, V> {
    type Item = (K, &'a mut V);
    type IntoIter = slotmap::basic::IterMut<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn an_id_never_finds_the_object_that_took_the_place() {
        let mut slots: Slots<ClientId, &str> = Slots::new(&Arc::default());
        let first = slots.insert("first");
        assert_eq!(slots.must_remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get(second), Some(&"second"));
        assert_eq!(slots.get(ClientId::default()), None);
    }

    #[test]
    fn a_look_up_that_must_succeed_is_reported_if_it_does_not() {
        let broken = Arc::new(Broken::default());
        let mut slots: Slots<ServerId, ()> = Slots::new(&broken);
        let id = slots.insert(());
        assert_eq!(slots.must_get(id), Some(&()));
        assert_eq!(slots.must_get_mut(id), Some(&mut ()));
        assert_eq!(slots.must_remove(id), Some(()));
        assert_eq!(broken.count(), 0);
        let look = AssertUnwindSafe(|| slots.must_get(id).is_some());
        assert!(catch_unwind(look).is_err(), "a report panics in tests");
        assert_eq!(broken.count(), 1);
    }

    #[test]
    fn an_id_survives_as_a_number() {
        let mut slots: Slots<ServerId, ()> = Slots::new(&Arc::default());
        let gone = slots.insert(());
        slots.must_remove(gone);
        let id = slots.insert(());
        assert_eq!(ServerId::from(PoolServer::from(id)), id);
        assert_ne!(PoolServer::from(id), PoolServer::from(gone));
        let client = ClientId::from(number(id));
        assert_eq!(Waiter::new(client.into(), false), Waiter::Client(client));
    }
}
