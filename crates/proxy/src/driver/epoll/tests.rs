//! Tests of the driver on real sockets.

use std::io::Write;

use socket2::{Domain, Socket as RawSocket, Type};

use super::*;
use crate::worker::ServerId;

/// Returns both ends of a connection.
fn pair() -> (Socket, RawSocket) {
    let listener = RawSocket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    listener.bind(&loopback.into()).unwrap();
    listener.listen(1).unwrap();
    let far = RawSocket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    far.connect(&listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    (Socket::Tcp(near.into()), far)
}

fn has_news(socket: Socket) -> bool {
    let (mut driver, _) = Epoll::new(Vec::new(), TcpOptions::default()).unwrap();
    let key = driver
        .add(socket.into(), Owner::Server(ServerId::default()))
        .unwrap();
    driver.has_news(key)
}

#[test]
fn what_came_to_a_server_before_it_was_added_is_known_at_once() {
    let (quiet, _far) = pair();
    assert!(!has_news(quiet));
    let (told, mut far) = pair();
    far.write_all(b"E").unwrap();
    assert!(has_news(told));
    let (ended, far) = pair();
    drop(far);
    assert!(has_news(ended));
}
