//! The contract of [`Driver`], for both drivers over real sockets.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use weir_pool::Moment;
use weir_ring::{Options, Ring};

use super::*;
use crate::listen::{self, Listener};
use crate::socket::Socket;
use crate::tls::stub;

mod trouble;

/// Waits for an event before a test gives up, in turns of [`TURN`].
const TURNS: usize = 1000;
const TURN: Duration = Duration::from_millis(20);

/// Driver with a clock, and the events that a test has not looked at.
pub(super) struct Bench<D> {
    driver: D,
    now: u64,
}

impl<D: Driver> Bench<D> {
    fn new(driver: D) -> Self {
        Self { driver, now: 1 }
    }

    /// Runs turns until `look` has found something.
    fn until<T>(&mut self, mut look: impl FnMut(&mut D, Completion) -> Option<T>) -> T {
        for _ in 0..TURNS {
            self.now += 1_000_000;
            self.driver.wait(Moment(self.now), Some(TURN)).unwrap();
            while let Some(completion) = self.driver.next() {
                if let Some(found) = look(&mut self.driver, completion) {
                    return found;
                }
            }
        }
        panic!("the event does not come");
    }

    /// Runs some turns; nothing may be reported.
    fn is_silent(&mut self) {
        for _ in 0..5 {
            self.now += 1_000_000;
            self.driver
                .wait(Moment(self.now), Some(Duration::from_millis(2)))
                .unwrap();
            if let Some(completion) = self.driver.next() {
                panic!("{completion:?}");
            }
        }
    }

    /// Receives until so many bytes have come.
    fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        self.until(|driver, completion| {
            match completion {
                Completion::Received(_, chunk) => {
                    all.extend_from_slice(&chunk);
                    driver.recycle(chunk);
                }
                Completion::Drained(_) => {}
                other => panic!("{other:?}"),
            }
            (all.len() >= count).then_some(())
        });
        all
    }

    fn ending(&mut self) -> Ending {
        self.until(|_, completion| match completion {
            Completion::Ended(_, ending) => Some(ending),
            Completion::Drained(_) => None,
            other => panic!("{other:?}"),
        })
    }

    fn detached(&mut self) -> Box<Stream> {
        self.until(|_, completion| match completion {
            Completion::Detached(_, stream) => Some(stream),
            Completion::Drained(_) => None,
            other => panic!("{other:?}"),
        })
    }
}

fn epoll(listeners: Vec<Listener>) -> Bench<Epoll> {
    Bench::new(Epoll::new(listeners, TcpOptions::default()).unwrap().0)
}

/// True if this system offers io_uring. Containers often refuse it, and there the tests have nothing to test.
fn has_ring() -> bool {
    let refusal = Ring::probe(&Options::default()).err();
    if let Some(refusal) = &refusal {
        println!("nothing was tested: {refusal}");
    }
    refusal.is_none()
}

fn uring(listeners: Vec<Listener>) -> Bench<Uring> {
    let ring = Ring::new(&Options::default()).unwrap();
    Bench::new(Uring::new(ring, listeners, TcpOptions::default()).0)
}

/// A server, so that what came before is known at once.
fn owner() -> Owner {
    Owner::Server(ServerId::default())
}

/// Returns both ends of a TCP connection.
fn pair() -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    (Socket::accepted(near, &TcpOptions::default()).into(), far)
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i % 251).to_le_bytes()[0]).collect()
}

fn bytes_go_both_ways_in_order(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    assert_eq!(bench.driver.send(key, b"one "), Flow::On);
    assert_eq!(bench.driver.send(key, b"two"), Flow::On);
    far.write_all(b"three").unwrap();
    assert_eq!(bench.receive(5), b"three");
    let mut got = [0; 7];
    far.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"one two");
    assert!(bench.driver.is_drained(key));
    bench.is_silent();
}

fn a_peer_that_does_not_read_fills_the_connection_until_it_reads(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    let part = pattern(64 * 1024);
    let mut parts = 1;
    while bench.driver.send(key, &part) == Flow::On {
        parts += 1;
        bench
            .driver
            .wait(Moment(bench.now), Some(Duration::ZERO))
            .unwrap();
        while bench.driver.next().is_some() {}
        assert!(parts < 1000, "nothing is ever full");
    }
    assert!(bench.driver.is_full(key) && !bench.driver.is_drained(key));
    assert!(bench.driver.unsent(key) > 0);
    let reader = thread::spawn(move || {
        let mut got = vec![0; parts * 64 * 1024];
        far.read_exact(&mut got).unwrap();
        (got, far)
    });
    bench.until(|_, completion| matches!(completion, Completion::Drained(_)).then_some(()));
    assert_eq!(bench.driver.unsent(key), 0);
    assert!(!bench.driver.is_full(key));
    let (got, _far) = reader.join().unwrap();
    assert!(got.chunks(part.len()).all(|chunk| chunk == part));
}

fn a_stopped_connection_reports_nothing_until_it_goes_on(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    bench.driver.stop(key, Why::Partner);
    bench.driver.stop(key, Why::Owed);
    far.write_all(b"first").unwrap();
    bench.is_silent();
    far.write_all(b"second").unwrap();
    bench.is_silent();
    bench.driver.go(key, Why::Partner);
    bench.is_silent();
    assert!(bench.driver.reasons(key).has(Why::Owed));
    bench.driver.go(key, Why::Owed);
    assert_eq!(bench.receive(11), b"firstsecond");
    far.write_all(b"third").unwrap();
    assert_eq!(bench.receive(5), b"third");
}

fn a_stopped_connection_that_breaks_is_reported(mut bench: Bench<impl Driver>) {
    for has_bytes in [false, true] {
        let (near, mut far) = pair();
        let key = bench.driver.add(near, owner()).unwrap();
        bench.driver.stop(key, Why::Partner);
        if has_bytes {
            far.write_all(b"unread").unwrap();
            bench.is_silent();
        }
        // Unread bytes at the far end make its close a reset.
        bench.driver.send(key, b"never read");
        bench.is_silent();
        drop(far);
        let ending = bench.ending();
        assert!(ending.error.is_some() && ending.reasons.has(Why::Partner));
        assert!(bench.driver.has_news(key), "the key is gone");
    }
}

fn the_end_comes_behind_all_bytes(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    bench.driver.stop(key, Why::Flush);
    far.write_all(&pattern(200_000)).unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    bench.is_silent();
    bench.driver.clear_reasons(key);
    assert_eq!(bench.receive(200_000), pattern(200_000));
    let ending = bench.ending();
    assert!(ending.error.is_none(), "{ending:?}");
}

fn a_connection_leaves_with_what_was_not_reported(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    bench.is_silent();
    bench.driver.stop(key, Why::Flush);
    far.write_all(b"early ").unwrap();
    bench.is_silent();
    bench.driver.send(key, b"last words");
    bench.driver.begin_detach(key);
    bench.driver.begin_detach(key);
    let stream = bench.detached();
    let mut got = [0; 10];
    far.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"last words");
    far.write_all(b"late").unwrap();
    let key = bench.driver.add(*stream, owner()).unwrap();
    assert!(bench.driver.has_news(key));
    assert_eq!(bench.receive(10), b"early late");
    // It can leave again, without anything having happened.
    bench.driver.begin_detach(key);
    assert!(bench.detached().received.is_empty());
}

fn a_connection_that_is_closed_or_breaks_never_leaves(mut bench: Bench<impl Driver>) {
    let (near, far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    bench.driver.begin_detach(key);
    bench.driver.abort(key);
    bench.is_silent();
    drop(far);
    bench.is_silent();
}

fn closing_sends_everything_first(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    bench.driver.send(key, &pattern(3_000_000));
    bench.driver.close(key);
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        got
    });
    while !reader.is_finished() {
        bench.now += 1_000_000;
        bench.driver.wait(Moment(bench.now), Some(TURN)).unwrap();
        assert!(bench.driver.next().is_none());
    }
    assert_eq!(reader.join().unwrap(), pattern(3_000_000));
}

fn last_words_are_sent_though_the_driver_ends(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let (other, mut far_other) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    let other = bench.driver.add(other, owner()).unwrap();
    bench.is_silent();
    bench.driver.send(key, b"last words");
    bench.driver.close(key);
    bench.driver.send(other, b"the end");
    drop(bench);
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"last words");
    got.clear();
    far_other.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"the end");
}

fn close_with_sends_a_message_and_ends_at_once(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    far.write_all(b"unread by us").unwrap();
    bench.receive(12);
    bench.driver.close_with(key, b"farewell");
    bench.is_silent();
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"farewell");
}

fn connecting_succeeds_or_says_why_not(mut bench: Bench<impl Driver>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = Target::Tcp(address, None);
    let key = bench.driver.connect(&target, owner()).unwrap();
    bench.until(|_, completion| match completion {
        Completion::Connected(_) => Some(()),
        other => panic!("{other:?}"),
    });
    bench.driver.send(key, b"hello");
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(b"there").unwrap();
    assert_eq!(bench.receive(5), b"there");
    bench.driver.abort(key);
    drop(listener);
    let outcome = bench.driver.connect(&target, owner());
    let error = match outcome {
        Err(error) => error,
        Ok(_) => bench.until(|_, completion| match completion {
            Completion::ConnectFailed(_, error) => Some(error),
            other => panic!("{other:?}"),
        }),
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

fn unix_sockets_connect_and_break(mut bench: Bench<impl Driver>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let key = bench
        .driver
        .add(Socket::Unix(near).into(), owner())
        .unwrap();
    bench.driver.send(key, b"hello");
    far.write_all(b"there").unwrap();
    assert_eq!(bench.receive(5), b"there");
    drop(far);
    bench.ending();
}

fn what_came_to_a_server_before_is_known_at_once(mut bench: Bench<impl Driver>) {
    let (near, far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    assert!(!bench.driver.has_news(key));
    let (near, mut told) = pair();
    told.write_all(b"E").unwrap();
    let key = bench.driver.add(near, owner()).unwrap();
    assert!(bench.driver.has_news(key));
    assert_eq!(bench.receive(1), b"E");
    assert!(!bench.driver.has_news(key));
    drop(far);
    bench.ending();
}

fn suspended_connections_wait_and_those_kept_awake_do_not(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    let (admin, mut far_admin) = pair();
    bench.driver.add(near, owner()).unwrap();
    let admin = bench.driver.add(admin, owner()).unwrap();
    bench.driver.keep_awake(admin);
    bench.is_silent();
    bench.driver.suspend_all();
    for _ in 0..3 {
        far.write_all(b"later").unwrap();
        bench.is_silent();
    }
    far_admin.write_all(b"RESUME").unwrap();
    assert_eq!(bench.receive(6), b"RESUME");
    bench.driver.resume_all();
    assert_eq!(bench.receive(15), b"laterlaterlater");
    far.write_all(b"again").unwrap();
    assert_eq!(bench.receive(5), b"again");
}

fn records_are_opened_wherever_they_are_cut(mut bench: Bench<impl Driver>) {
    let (mut theirs, ours) = stub::pair();
    let (near, mut far) = pair();
    let key = bench.driver.add(near, owner()).unwrap();
    bench.driver.secure(key, Box::new(Session::Stub(ours)));
    let plain = pattern(100_000);
    let mut sealed = Vec::new();
    for part in plain.chunks(7000) {
        theirs.seal_one(part, &mut sealed);
    }
    let writer = thread::spawn(move || {
        for (i, part) in sealed.chunks(997).enumerate() {
            far.write_all(part).unwrap();
            if i % 10 == 0 {
                thread::yield_now();
            }
        }
        far
    });
    assert_eq!(bench.receive(plain.len()), plain);
    let far = writer.join().unwrap();
    bench.driver.send(key, b"sealed");
    bench.driver.close(key);
    bench.is_silent();
    drop(far);
}

/// Returns the processor time that the thread spends in an idle wait of 50 ms.
fn idle_wait(driver: &mut impl Driver, spin: Duration) -> Duration {
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

fn a_wait_spins_before_it_sleeps(mut bench: Bench<impl Driver>) {
    bench.is_silent();
    // Other threads may have most of the processor.
    let spun = idle_wait(&mut bench.driver, Duration::from_millis(40));
    assert!(spun > Duration::from_millis(2), "{spun:?}");
    let slept = idle_wait(&mut bench.driver, Duration::ZERO);
    assert!(slept < Duration::from_millis(1), "{slept:?}");
}

fn what_comes_while_a_wait_spins_ends_it(mut bench: Bench<impl Driver>) {
    let (near, mut far) = pair();
    bench.driver.add(near, owner()).unwrap();
    bench.is_silent();
    bench.driver.set_spin(Duration::from_secs(60));
    let writer = thread::spawn(move || {
        far.write_all(b"E").unwrap();
        far
    });
    let mut got = None;
    while got.is_none() {
        bench.driver.wait(Moment(bench.now), None).unwrap();
        got = bench.driver.next();
    }
    assert!(matches!(got, Some(Completion::Received(of, _)) if of == owner()));
    drop(writer.join());
}

/// Listens on a port of its own.
fn listening() -> (Vec<Listener>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let text = "[pgbouncer]\nauth_type = any\n";
    let mut read = |_: &Path| Ok(text.to_owned());
    let loaded = weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty());
    let settings = loaded.unwrap().settings;
    let listeners = listen::open(&settings, vec![listener.into()]);
    (listeners.unwrap(), address)
}

fn clients_are_accepted_until_that_is_stopped<D: Driver>(make: impl Fn(Vec<Listener>) -> Bench<D>) {
    let (listeners, address) = listening();
    let mut bench = make(listeners);
    let accepted = |bench: &mut Bench<D>| {
        bench.until(|_, completion| match completion {
            Completion::Accepted(accepted) => Some(accepted),
            other => panic!("{other:?}"),
        })
    };
    let first = TcpStream::connect(address).unwrap();
    let one = accepted(&mut bench);
    assert_eq!(one.remote.port, first.local_addr().unwrap().port());
    assert!(one.is_loopback);
    bench.driver.suspend_all();
    bench.is_silent();
    let second = TcpStream::connect(address).unwrap();
    bench.is_silent();
    bench.driver.resume_all();
    let two = accepted(&mut bench);
    assert_eq!(two.remote.port, second.local_addr().unwrap().port());
    bench.driver.stop_accepting();
    bench.is_silent();
    assert!(TcpStream::connect(address).is_err());
}

fn another_thread_ends_a_wait(driver: impl Driver, waker: &Arc<dyn Wake>) {
    let mut bench = Bench::new(driver);
    for _ in 0..3 {
        let waker = Arc::clone(waker);
        let thread = thread::spawn(move || waker.wake().unwrap());
        // Without a time limit: only the waker ends it.
        bench.driver.wait(Moment(bench.now), None).unwrap();
        thread.join().unwrap();
        assert!(bench.driver.next().is_none());
    }
}

#[test]
fn both_drivers_are_woken_by_other_threads() {
    let (driver, waker) = Epoll::new(Vec::new(), TcpOptions::default()).unwrap();
    another_thread_ends_a_wait(driver, &waker);
    if !has_ring() {
        return;
    }
    let ring = Ring::new(&Options::default()).unwrap();
    let (driver, waker) = Uring::new(ring, Vec::new(), TcpOptions::default());
    another_thread_ends_a_wait(driver, &waker);
}

#[test]
fn both_drivers_accept() {
    clients_are_accepted_until_that_is_stopped(epoll);
    if has_ring() {
        clients_are_accepted_until_that_is_stopped(uring);
    }
}

macro_rules! for_both {
    ($($name:ident)*) => {
        mod over_epoll {
            $(#[test]
            fn $name() {
                super::$name(super::epoll(Vec::new()));
            })*
        }
        mod over_io_uring {
            $(#[test]
            fn $name() {
                if super::has_ring() {
                    super::$name(super::uring(Vec::new()));
                }
            })*
        }
    };
}

for_both! {
    bytes_go_both_ways_in_order
    a_peer_that_does_not_read_fills_the_connection_until_it_reads
    a_stopped_connection_reports_nothing_until_it_goes_on
    a_stopped_connection_that_breaks_is_reported
    the_end_comes_behind_all_bytes
    a_connection_leaves_with_what_was_not_reported
    a_connection_that_is_closed_or_breaks_never_leaves
    closing_sends_everything_first
    last_words_are_sent_though_the_driver_ends
    close_with_sends_a_message_and_ends_at_once
    connecting_succeeds_or_says_why_not
    unix_sockets_connect_and_break
    what_came_to_a_server_before_is_known_at_once
    suspended_connections_wait_and_those_kept_awake_do_not
    records_are_opened_wherever_they_are_cut
    a_wait_spins_before_it_sleeps
    what_comes_while_a_wait_spins_ends_it
}
