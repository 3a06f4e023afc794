//! Attributes notifications to the client that sent them.
//!
//! A client recognises its own notifications by the process id in them. That id must be the one the client got at login
//! (`PQbackendPID`), not the id of the server that ran the NOTIFY.
//!
//! PostgreSQL delivers notifications in the order of their commits. So when a server goes to another client that has
//! subscriptions, Weir first sends a mark on it: a NOTIFY that names the new client. On the listening connection,
//! notifications of that process before the mark belong to other clients. Those after it belong to the new client, as
//! long as it has the server. The client releases the server only when it has received them all.

use weir_wire::backend::NotificationResponse;

use super::{LEASES, Seat, statement};

/// Returns the NOTIFY that is a mark for this client.
pub(super) fn mark(seat: Seat) -> String {
    let mut sql = Vec::new();
    statement("NOTIFY", LEASES, &mut sql);
    let Seat { worker, client } = seat;
    format!("{}, '{worker}.{client}'", String::from_utf8_lossy(&sql))
}

/// Returns the client that a mark names; `None` if the notification is no mark.
pub(super) fn seat(notification: &NotificationResponse<'_>) -> Option<Seat> {
    if notification.channel != LEASES {
        return None;
    }
    let payload = std::str::from_utf8(notification.payload).ok()?;
    let mut numbers = payload.split('.');
    let seat = Seat {
        worker: numbers.next()?.parse().ok()?,
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
            worker: 1,
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
