//! Whose a notification is: a client knows its own by the process id in it, which has to be the number that it was given
//! at login (`PQbackendPID`), not that of the server on which it was said.
//!
//! PostgreSQL hands notifications out in the order of their commits. So, where a server goes from one client to another
//! that listens, a mark is said on it in front of the new one's requests: on the connection that listens for all, what
//! came from that process before the mark was said by others, and what comes behind it by the client, for as long as it
//! has the server. It gives it back only when it has heard everything.

use weir_wire::backend::NotificationResponse;

use super::{LEASES, Seat, statement};

/// The statement that is a mark.
pub(super) fn mark(seat: Seat) -> String {
    let mut sql = Vec::new();
    statement("NOTIFY", LEASES, &mut sql);
    let Seat { lane, client } = seat;
    format!("{}, '{lane}.{client}'", String::from_utf8_lossy(&sql))
}

/// Whose mark a notification is, if it is one.
pub(super) fn seat(notification: &NotificationResponse<'_>) -> Option<Seat> {
    if notification.channel != LEASES {
        return None;
    }
    let payload = std::str::from_utf8(notification.payload).ok()?;
    let mut numbers = payload.split('.');
    let seat = Seat {
        lane: numbers.next()?.parse().ok()?,
        client: numbers.next()?.parse().ok()?,
    };
    numbers.next().is_none().then_some(seat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_seat_and_nothing_else_does() {
        let own = Seat {
            lane: 1,
            client: 300,
        };
        let sql = mark(own);
        assert_eq!(sql, "NOTIFY \"weir_lease\", '1.300'");
        let said = |channel, payload| {
            seat(&NotificationResponse {
                pid: 7,
                channel,
                payload,
            })
        };
        assert_eq!(said(LEASES, b"1.300"), Some(own));
        assert_eq!(said(b"news", b"1.300"), None);
        for payload in ["", "1", "1.20.300", "1.-2", "a.b"] {
            assert_eq!(said(LEASES, payload.as_bytes()), None, "{payload}");
        }
    }
}
