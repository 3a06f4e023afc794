//! Requirements of clients on their servers, and the history of servers that decides who meets them.

use crate::moment::ClientId;

/// Number of a client or server from one sequence of the process: the greater number is the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Serial(pub u64);

/// Requirement of a client on its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    /// Any server.
    #[default]
    Any,
    /// A server that is like a new connection of this client: no other client has used it, and if this client has not
    /// used it either, its login began after the client came.
    Fresh(Serial),
}

/// Clients that have used a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Users {
    #[default]
    None,
    One(ClientId),
    Several,
}

impl Users {
    /// Returns the users after this client has got the server.
    pub(crate) fn and(self, client: ClientId) -> Self {
        match self {
            Self::None => Self::One(client),
            Self::One(other) if other == client => self,
            Self::One(_) | Self::Several => Self::Several,
        }
    }

    /// Returns the users as another lane sees them: the numbers of its clients are others.
    pub(crate) fn elsewhere(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::One(_) | Self::Several => Self::Several,
        }
    }
}

impl Want {
    /// True if a server with these users, and with this serial number, meets the requirement of this client.
    #[inline]
    pub(crate) fn is_met(self, client: ClientId, users: Users, server: Serial) -> bool {
        match (self, users) {
            (Self::Any, _) => true,
            (Self::Fresh(since), Users::None) => server > since,
            (Self::Fresh(_), Users::One(user)) => user == client,
            (Self::Fresh(_), Users::Several) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_server_or_the_clients_own_meets_what_a_new_connection_would() {
        let (own, other) = (ClientId(1), ClientId(2));
        let want = Want::Fresh(Serial(5));
        for (users, server, is_met) in [
            (Users::None, 4, false),
            (Users::None, 5, false),
            (Users::None, 6, true),
            (Users::None.and(own), 4, true),
            (Users::None.and(own).and(own), 4, true),
            (Users::None.and(other), 6, false),
            (Users::None.and(own).and(other), 6, false),
            (Users::None.and(own).elsewhere(), 6, false),
            (Users::None.elsewhere(), 6, true),
        ] {
            assert_eq!(
                want.is_met(own, users, Serial(server)),
                is_met,
                "{users:?} {server}"
            );
            assert!(Want::Any.is_met(own, users, Serial(server)));
        }
    }
}
