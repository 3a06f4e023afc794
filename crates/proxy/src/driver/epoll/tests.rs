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

/// Returns the processor time that the thread spends in an idle wait of 50 ms.
fn idle_wait(spin: Duration) -> Duration {
    let (mut driver, _waker) = Epoll::new(Vec::new(), TcpOptions::default()).unwrap();
    driver.set_spin(spin);
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).unwrap()
    };
    let before = clock();
    driver
        .wait(Moment(1), Some(Duration::from_millis(50)))
        .unwrap();
    clock() - before
}

#[test]
fn a_wait_spins_before_it_sleeps() {
    // Other threads may have most of the processor.
    let spun = idle_wait(Duration::from_millis(40));
    assert!(spun > Duration::from_millis(2), "{spun:?}");
    let slept = idle_wait(Duration::ZERO);
    assert!(slept < Duration::from_millis(1), "{slept:?}");
}

#[test]
fn what_comes_while_a_wait_spins_ends_it() {
    let (near, mut far) = pair();
    let (mut driver, _waker) = Epoll::new(Vec::new(), TcpOptions::default()).unwrap();
    let owner = Owner::Server(ServerId::default());
    driver.add(near.into(), owner).unwrap();
    driver.set_spin(Duration::from_secs(60));
    // Reports that the socket can be written.
    driver.wait(Moment(1), Some(Duration::ZERO)).unwrap();
    assert!(driver.next().is_none());
    let writer = std::thread::spawn(move || {
        far.write_all(b"E").unwrap();
        far
    });
    let mut got = None;
    while got.is_none() {
        driver.wait(Moment(1), None).unwrap();
        got = driver.next();
    }
    assert!(matches!(got, Some(Completion::Received(of, _)) if of == owner));
    drop(writer.join());
}
