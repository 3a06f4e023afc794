//! The ring against the kernel, over pairs of sockets.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::Trouble;

/// Wait for one event, and number of waits before a test gives up.
const PATIENCE: Duration = Duration::from_millis(20);
const WAITS: usize = 1000;

fn token(index: u32) -> Token {
    Token::new(index, 1).unwrap()
}

/// A ring with few places everywhere.
fn small() -> Options {
    Options {
        operations: 4,
        completions: 8,
        small: BufferSizes {
            len: 64,
            first: 4,
            max: 16,
        },
        large: BufferSizes {
            len: 96,
            first: 2,
            max: 8,
        },
        trouble: None,
    }
}

/// True if this system offers io_uring. Containers often refuse it, and there the tests have nothing to test.
pub(super) fn has_ring() -> bool {
    let refusal = Ring::probe(&small()).err();
    if let Some(refusal) = &refusal {
        println!("nothing was tested: {refusal}");
    }
    refusal.is_none()
}

/// Waits until an event is what is looked for.
fn wait_for<T>(ring: &mut Ring, mut look: impl FnMut(&mut Ring, Event) -> Option<T>) -> T {
    for _ in 0..WAITS {
        while let Some(event) = ring.next_event() {
            if let Some(found) = look(ring, event) {
                return found;
            }
        }
        ring.wait(Some(PATIENCE)).unwrap();
    }
    panic!("the event does not come");
}

/// Receives everything up to the end of the stream. A receive that ends for another reason begins anew.
fn read_to_end(ring: &mut Ring, at: Token, socket: &UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    wait_for(ring, |ring, event| {
        let Event::Received { token, bytes, more } = event else {
            return None;
        };
        assert_eq!(token, at);
        let is_end = match bytes {
            Ok(bytes) => {
                all.extend_from_slice(&bytes.memory[..bytes.len]);
                ring.give_back(bytes.memory);
                bytes.len == 0
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS));
                false
            }
        };
        if !more && !is_end {
            ring.receive(at, socket.as_fd());
        }
        is_end.then_some(())
    });
    all
}

#[test]
fn a_trial_succeeds_where_the_system_offers_io_uring() {
    if !has_ring() {
        return;
    }
    Ring::probe(&Options::default()).unwrap();
    Ring::probe(&small()).unwrap();
}

#[test]
fn a_flood_that_uses_all_buffers_gets_no_more_of_them() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    let sent: Vec<u8> = (0..50_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    ring.receive(token(1), near.as_fd());
    let bytes = sent.clone();
    let writer = thread::spawn(move || far.write_all(&bytes).unwrap());
    assert_eq!(read_to_end(&mut ring, token(1), &near), sent);
    writer.join().unwrap();
    let counters = ring.counters();
    assert!(counters.starved > 0, "{counters:?}");
    assert_eq!(counters.buffers, 4, "{counters:?}");
}

#[test]
fn many_connections_get_more_buffers_and_give_them_back() {
    if !has_ring() {
        return;
    }
    let options = Options {
        operations: 64,
        completions: 64,
        ..small()
    };
    let mut ring = Ring::new(&options).unwrap();
    let pairs: Vec<_> = (0..32).map(|_| UnixStream::pair().unwrap()).collect();
    let speak = |ring: &mut Ring, say: &[u8]| {
        for (i, (near, far)) in pairs.iter().enumerate() {
            (&*far).write_all(say).unwrap();
            ring.receive(token(u32::try_from(i).unwrap()), near.as_fd());
        }
        let mut heard = vec![Vec::new(); pairs.len()];
        let mut ended = 0;
        wait_for(ring, |ring, event| {
            let Event::Received { token, bytes, more } = event else {
                return None;
            };
            if let Ok(bytes) = bytes {
                heard[token.index() as usize].extend_from_slice(&bytes.memory[..bytes.len]);
                ring.give_back(bytes.memory);
                if more {
                    ring.cancel_receive(token);
                }
            } else if heard[token.index() as usize].is_empty() {
                ring.receive(token, pairs[token.index() as usize].0.as_fd());
                return None;
            }
            ended += usize::from(!more);
            (ended == pairs.len()).then_some(())
        });
        assert!(heard.iter().all(|heard| heard == say));
    };
    speak(&mut ring, b"one");
    let counters = ring.counters();
    assert!(
        counters.starved > 0 && counters.buffers == 16,
        "{counters:?}"
    );
    ring.wait(Some(Duration::ZERO)).unwrap();
    for buffers in [16, 8, 4, 4] {
        ring.trim().unwrap();
        assert_eq!(ring.counters().buffers, buffers);
    }
    speak(&mut ring, b"two");
}

#[test]
fn a_single_receive_fills_one_buffer_and_can_be_cancelled() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    far.write_all(&[b'x'; 100]).unwrap();
    for len in [96, 4] {
        ring.receive_once(token(1), near.as_fd());
        let (got, more) = wait_for(&mut ring, |_, event| match event {
            Event::Received { bytes, more, .. } => Some((bytes.unwrap().len, more)),
            _ => None,
        });
        assert_eq!((got, more), (len, false));
    }
    ring.receive_once(token(1), near.as_fd());
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert!(ring.next_event().is_none());
    ring.cancel_receive_once(token(1));
    let error = wait_for(&mut ring, |_, event| match event {
        Event::Received { bytes, .. } => Some(bytes.unwrap_err()),
        _ => None,
    });
    assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
}

#[test]
fn more_operations_and_completions_than_there_are_places_are_all_carried_out() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let pairs: Vec<_> = (0..100).map(|_| UnixStream::pair().unwrap()).collect();
    for (i, (near, _)) in pairs.iter().enumerate() {
        let mut buffer = ring.send_buffer();
        buffer.push(u8::try_from(i).unwrap());
        let id = ring.send(token(u32::try_from(i).unwrap()), near.as_fd(), buffer);
        assert!(id.is_some());
    }
    let mut over = 0;
    wait_for(&mut ring, |_, event| {
        if let Event::Sent { outcome, .. } = event {
            outcome.unwrap();
            over += 1;
        }
        (over == 100).then_some(())
    });
    for (i, (_, far)) in pairs.into_iter().enumerate() {
        let mut byte = [0];
        (&far).read_exact(&mut byte).unwrap();
        assert_eq!(usize::from(byte[0]), i);
    }
}

#[test]
fn a_cancelled_receive_ends_once_and_takes_nothing_any_more() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    ring.receive(token(1), near.as_fd());
    ring.cancel_receive(token(1));
    let end = wait_for(&mut ring, |_, event| match event {
        Event::Received {
            bytes, more: false, ..
        } => Some(bytes.unwrap_err()),
        _ => None,
    });
    assert_eq!(end.raw_os_error(), Some(libc::ECANCELED));
    far.write_all(b"later").unwrap();
    // Cancelling what is over does nothing.
    ring.cancel_receive(token(1));
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert!(ring.next_event().is_none());
    let mut later = [0; 5];
    (&near).read_exact(&mut later).unwrap();
    assert_eq!(&later, b"later");
}

#[test]
fn a_send_to_a_peer_that_does_not_read_can_be_cancelled() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let (near, _far) = UnixStream::pair().unwrap();
    let id = ring.send(token(1), near.as_fd(), vec![0; 4 << 20]).unwrap();
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert!(ring.next_event().is_none());
    ring.cancel_send(id);
    let outcome = wait_for(&mut ring, |_, event| match event {
        Event::Sent { outcome, .. } => Some(outcome),
        _ => None,
    });
    match outcome {
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECANCELED)),
        Ok(()) => panic!("the peer has read nothing"),
    }
}

#[test]
fn accepted_sockets_do_not_block_and_a_cancelled_accept_ends() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    ring.accept(token(3), listener.as_fd());
    let _clients: Vec<_> = (0..3)
        .map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap())
        .collect();
    let mut accepted = Vec::new();
    wait_for(&mut ring, |_, event| {
        if let Event::Accepted {
            token: at,
            socket,
            more,
        } = event
        {
            assert_eq!((at, more), (token(3), true));
            accepted.push(TcpStream::from(socket.unwrap()));
        }
        (accepted.len() == 3).then_some(())
    });
    let error = accepted[0].read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    ring.cancel_accept(token(3));
    wait_for(&mut ring, |_, event| match event {
        Event::Accepted { more: false, .. } => Some(()),
        _ => None,
    });
}

#[test]
fn a_broken_connection_is_polled_for_without_reading_it() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    (&far).write_all(b"unread").unwrap();
    ring.poll_broken(token(1), near.as_fd());
    ring.wait(Some(Duration::ZERO)).unwrap();
    assert!(ring.next_event().is_none(), "bytes are no break");
    drop(far);
    let events = wait_for(&mut ring, |_, event| match event {
        Event::Polled { events, .. } => Some(events.unwrap()),
        _ => None,
    });
    assert_ne!(events & u32::from(libc::POLLHUP.cast_unsigned()), 0);
}

#[test]
fn another_thread_ends_a_wait_each_time() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&Options::default()).unwrap();
    let waker = ring.waker();
    for _ in 0..3 {
        let waker = waker.clone();
        let thread = thread::spawn(move || waker.wake().unwrap());
        wait_for(&mut ring, |_, event| {
            matches!(event, Event::Woken).then_some(())
        });
        thread.join().unwrap();
    }
}

#[test]
fn only_the_operations_of_this_crate_are_allowed() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    ring.wait(Some(Duration::ZERO)).unwrap();
    let nop = opcode::Nop::new().build().user_data(0);
    assert!(ring.try_push(&nop));
    ring.enter(Some(Duration::ZERO), false).unwrap();
    let entry = ring.io.completion().next().unwrap();
    assert_eq!(entry.result(), -libc::EACCES);
}

/// Step of a list.
#[derive(Debug, Clone)]
enum Step {
    /// The peer of this pair writes so many bytes.
    Write(usize, u16),
    /// The ring sends so many bytes over this pair.
    Send(usize, u16),
    Cancel(usize),
    /// The next receives of this pair are single ones, or not any more.
    Turn(usize),
    Trim,
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let pair = 0_usize..3;
    prop_oneof![
        3 => (pair.clone(), 1_u16..3000).prop_map(|(pair, count)| Step::Write(pair, count)),
        3 => (pair.clone(), 1_u16..3000).prop_map(|(pair, count)| Step::Send(pair, count)),
        1 => pair.clone().prop_map(Step::Cancel),
        1 => pair.prop_map(Step::Turn),
        1 => Just(Step::Trim),
        3 => Just(Step::Wait),
    ]
}

/// Pair of sockets: the ring has the near one.
struct Pair {
    near: UnixStream,
    far: UnixStream,
    wrote: Vec<u8>,
    received: Vec<u8>,
    sent: Vec<u8>,
    /// A send is under way.
    is_sending: bool,
    is_receiving: bool,
    receives_once: bool,
    queue: Vec<u8>,
    got: Vec<u8>,
    next: u8,
}

impl Pair {
    fn new() -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        Self {
            near,
            far,
            wrote: Vec::new(),
            received: Vec::new(),
            sent: Vec::new(),
            is_sending: false,
            is_receiving: false,
            receives_once: false,
            queue: Vec::new(),
            got: Vec::new(),
            next: 0,
        }
    }

    fn bytes(&mut self, count: u16) -> Vec<u8> {
        let bytes = (0..count).map(|_| {
            self.next = self.next.wrapping_add(1);
            self.next
        });
        bytes.collect()
    }

    fn read_far(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = self.far.read(&mut buffer) {
            self.got.extend_from_slice(&buffer[..count]);
        }
    }
}

fn carry_out(ring: &mut Ring, pairs: &mut [Pair], event: Event) {
    match event {
        Event::Received { token, bytes, more } => {
            let pair = &mut pairs[token.index() as usize];
            pair.is_receiving = more;
            match bytes {
                Ok(bytes) => {
                    assert!(bytes.len > 0, "no peer has closed");
                    pair.received.extend_from_slice(&bytes.memory[..bytes.len]);
                    ring.give_back(bytes.memory);
                }
                Err(error) => assert!(matches!(
                    error.raw_os_error(),
                    Some(libc::ENOBUFS | libc::ECANCELED)
                )),
            }
        }
        Event::Sent { token, outcome } => {
            outcome.unwrap();
            pairs[token.index() as usize].is_sending = false;
        }
        Event::Woken => {}
        other => panic!("{other:?}"),
    }
}

/// Begins what a pair is to do and does not.
fn settle(ring: &mut Ring, pairs: &mut [Pair]) {
    for (i, pair) in pairs.iter_mut().enumerate() {
        let token = token(u32::try_from(i).unwrap());
        if !pair.is_receiving {
            pair.is_receiving = true;
            match pair.receives_once {
                true => ring.receive_once(token, pair.near.as_fd()),
                false => ring.receive(token, pair.near.as_fd()),
            }
        }
        if !pair.is_sending && !pair.queue.is_empty() {
            pair.is_sending = true;
            let bytes = std::mem::take(&mut pair.queue);
            ring.send(token, pair.near.as_fd(), bytes).unwrap();
        }
    }
}

/// Waits until somebody has woken the ring.
fn wait_for_wake(ring: &mut Ring) {
    wait_for(ring, |_, event| matches!(event, Event::Woken).then_some(()));
}

#[test]
fn a_thread_with_a_ring_wakes_another_ring_by_messages() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let waker = ring.waker();
    ring.wait(Some(Duration::ZERO)).unwrap();
    let thread = thread::spawn(move || {
        let mut other = Ring::new(&small()).unwrap();
        other.wait(Some(Duration::ZERO)).unwrap();
        // More than the queue has places for, and some before the first is received.
        for _ in 0..20 {
            waker.wake().unwrap();
        }
        other.submit().unwrap();
        let calls = other.counters().calls;
        waker.wake().unwrap();
        assert_eq!(other.counters().calls, calls, "it goes with the next call");
        other.wait(Some(Duration::ZERO)).unwrap();
        // The same ring is one of the others once.
        assert_eq!(other.others.len(), 1);
        other
    });
    for _ in 0..21 {
        wait_for_wake(&mut ring);
    }
    drop(thread.join().unwrap());
}

#[test]
fn a_ring_that_takes_no_messages_yet_is_woken_all_the_same() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let waker = ring.waker();
    let thread = thread::spawn(move || {
        let mut other = Ring::new(&small()).unwrap();
        other.wait(Some(Duration::ZERO)).unwrap();
        waker.wake().unwrap();
        for _ in 0..2 {
            // The first call sends the message, and one of them brings the refusal.
            other.wait(Some(Duration::ZERO)).unwrap();
            while other.next_event().is_some() {}
        }
    });
    thread.join().unwrap();
    wait_for_wake(&mut ring);
}

#[test]
fn wake_ups_are_not_lost_with_the_ring_that_was_to_send_them() {
    if !has_ring() {
        return;
    }
    let mut ring = Ring::new(&small()).unwrap();
    let waker = ring.waker();
    ring.wait(Some(Duration::ZERO)).unwrap();
    let thread = thread::spawn(move || {
        let mut other = Ring::new(&small()).unwrap();
        other.wait(Some(Duration::ZERO)).unwrap();
        waker.wake().unwrap();
        drop(other);
        waker
    });
    let waker = thread.join().unwrap();
    wait_for_wake(&mut ring);
    // A ring wakes itself, and whoever wakes a ring that has ended harms nobody.
    ring.waker().wake().unwrap();
    wait_for_wake(&mut ring);
    drop(ring);
    let mut last = Ring::new(&small()).unwrap();
    last.wait(Some(Duration::ZERO)).unwrap();
    waker.wake().unwrap();
    for _ in 0..2 {
        last.wait(Some(Duration::ZERO)).unwrap();
        assert!(last.next_event().is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_byte_comes_once_and_in_order_whatever_the_kernel_does(
        seed: u64,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        if !has_ring() {
            return Ok(());
        }
        let mut options = small();
        options.trouble = Some(Trouble::new(seed));
        let mut ring = Ring::new(&options).unwrap();
        let mut pairs = [Pair::new(), Pair::new(), Pair::new()];
        for step in steps {
            match step {
                Step::Write(at, count) => {
                    let pair = &mut pairs[at];
                    let bytes = pair.bytes(count);
                    if let Ok(count) = pair.far.write(&bytes) {
                        pair.wrote.extend_from_slice(&bytes[..count]);
                    }
                }
                Step::Send(at, count) => {
                    let pair = &mut pairs[at];
                    let bytes = pair.bytes(count);
                    pair.sent.extend_from_slice(&bytes);
                    pair.queue.extend_from_slice(&bytes);
                }
                Step::Cancel(at) => {
                    ring.cancel_receive(token(u32::try_from(at).unwrap()));
                    ring.cancel_receive_once(token(u32::try_from(at).unwrap()));
                }
                Step::Turn(at) => pairs[at].receives_once = !pairs[at].receives_once,
                Step::Trim => ring.trim().unwrap(),
                Step::Wait => ring.wait(Some(Duration::ZERO)).unwrap(),
            }
            while let Some(event) = ring.next_event() {
                carry_out(&mut ring, &mut pairs, event);
            }
            settle(&mut ring, &mut pairs);
        }
        for turn in 0.. {
            for pair in &mut pairs {
                pair.read_far();
            }
            if pairs.iter().all(|pair| pair.got == pair.sent && pair.received == pair.wrote) {
                break;
            }
            assert!(turn < WAITS, "bytes are missing");
            ring.wait(Some(Duration::from_millis(1))).unwrap();
            while let Some(event) = ring.next_event() {
                carry_out(&mut ring, &mut pairs, event);
            }
            settle(&mut ring, &mut pairs);
        }
    }
}
