//! Ids of clients, servers, pools, cancels and listeners, and the tables that give them out.
//!
//! An id has a generation: once its object is gone, the id finds nothing, never the object that got the place. So an id
//! may be kept by other threads, timers and other connections, and must never be compared by its place alone.

use slotmap::{Key, KeyData, SlotMap, new_key_type};
use weir_pool::{ClientId as PoolClient, ServerId as PoolServer};

new_key_type! {
    /// A connection of this worker that carries a cancel request.
    pub(crate) struct CancellerId;

    /// A client of this worker.
    pub(crate) struct ClientId;

    /// A connection of this worker that listens for the clients of a database.
    pub(crate) struct ListenerId;

    /// This worker's part of a pool. The null id means "no pool yet": a client has it until it has logged in.
    pub(crate) struct PoolId;

    /// A server connection of this worker.
    pub(crate) struct ServerId;
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

/// An object that stands in a pool's queue. All waiters of one pool are of one kind, by the pool's purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    Client(ClientId),
    Listener(ListenerId),
}

impl Waiter {
    /// Reads the number of a waiter of a pool whose waiters are listeners, or are not.
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
#[derive(Debug)]
pub(super) struct Slots<K: Key, V> {
    map: SlotMap<K, V>,
}

impl<K: Key, V> Slots<K, V> {
    pub(super) fn new() -> Self {
        Self {
            map: SlotMap::with_key(),
        }
    }

    /// Adds the object that is made for the new id; nothing is added if that fails.
    pub(super) fn try_insert<E>(&mut self, make: impl FnOnce(K) -> Result<V, E>) -> Result<K, E> {
        self.map.try_insert_with_key(make)
    }

    pub(super) fn insert(&mut self, value: V) -> K {
        self.map.insert(value)
    }

    pub(super) fn get_mut(&mut self, id: K) -> Option<&mut V> {
        self.map.get_mut(id)
    }

    pub(super) fn remove(&mut self, id: K) -> Option<V> {
        self.map.remove(id)
    }

    pub(super) fn iter_mut(&mut self) -> slotmap::basic::IterMut<'_, K, V> {
        self.map.iter_mut()
    }

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

impl<'a, K: Key, V> IntoIterator for &'a Slots<K, V> {
    type Item = (K, &'a V);
    type IntoIter = slotmap::basic::Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K: Key, V> IntoIterator for &'a mut Slots<K, V> {
    type Item = (K, &'a mut V);
    type IntoIter = slotmap::basic::IterMut<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_never_finds_the_object_that_took_the_place() {
        let mut slots: Slots<ClientId, &str> = Slots::new();
        let first = slots.insert("first");
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get(second), Some(&"second"));
        assert_eq!(slots.get(ClientId::default()), None);
    }

    #[test]
    fn an_id_survives_as_a_number() {
        let mut slots: Slots<ServerId, ()> = Slots::new();
        let gone = slots.insert(());
        slots.remove(gone);
        let id = slots.insert(());
        assert_eq!(ServerId::from(PoolServer::from(id)), id);
        assert_ne!(PoolServer::from(id), PoolServer::from(gone));
        let client = ClientId::from(number(id));
        assert_eq!(Waiter::new(client.into(), false), Waiter::Client(client));
    }
}
