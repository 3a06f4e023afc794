//! Cost of waking another ring's thread: by an eventfd under a multishot poll, or by a message from ring to ring.
//!
//! The test only counts the wake-ups. By hand it measures:
//! `WEIR_WAKES=100000 cargo test --release -p weir-ring wakes_by -- --nocapture`.

use std::sync::mpsc;
use std::thread;

use rustix::time::{ClockId, clock_gettime};

use super::*;

/// Wake-ups that each of two threads sends to the other in one round.
const WAKES: u64 = 100;
const ROUNDS: usize = 7;

fn wakes() -> u64 {
    let wakes = std::env::var("WEIR_WAKES").ok();
    wakes.map_or(WAKES, |wakes| wakes.parse().unwrap())
}

#[derive(Clone, Copy, Debug)]
enum By {
    Eventfd,
    Message,
}

/// A bare ring, as a worker sets it up.
fn bare() -> IoUring {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(8)
        .unwrap()
}

fn push(io: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: the entries of this file name descriptors only, which outlive the rings, and no memory.
    unsafe { io.submission().push(entry) }.unwrap();
}

fn poll(eventfd: &OwnedFd) -> squeue::Entry {
    let poll = opcode::PollAdd::new(Fd(eventfd.as_raw_fd()), libc::POLLIN as u32);
    poll.multi(true).build().user_data(1)
}

/// Wakes the other thread and waits for it, time and again. Returns the CPU time of this thread in nanoseconds.
fn play(by: By, begins: bool, own: &OwnedFd, other: &OwnedFd, rings: &Rings) -> u128 {
    let mut io = bare();
    rings.mine.send(io.as_raw_fd()).unwrap();
    let theirs = rings.theirs.recv().unwrap();
    if matches!(by, By::Eventfd) {
        push(&mut io, &poll(own));
        io.submit().unwrap();
    }
    let before = cpu();
    let mut is_first = begins;
    for _ in 0..wakes() {
        if !is_first {
            wait(&mut io);
        }
        is_first = false;
        match by {
            By::Eventfd => drop(rustix::io::write(other, &1_u64.to_ne_bytes()).unwrap()),
            By::Message => {
                let message = opcode::MsgRingData::new(Fd(theirs), 0, 1, None).build();
                push(&mut io, &message.flags(squeue::Flags::SKIP_SUCCESS));
            }
        }
    }
    // The last wake-up has to leave this ring.
    io.submit().unwrap();
    if begins {
        wait(&mut io);
    }
    let cost = cpu() - before;
    // No ring ends before the other one has sent its last message to it.
    rings.mine.send(0).unwrap();
    let _ = rings.theirs.recv();
    cost
}

/// Waits for one wake-up; what was pushed goes to the kernel with the wait.
fn wait(io: &mut IoUring) {
    loop {
        io.submit_and_wait(1).unwrap();
        let mut woken = 0;
        for completion in io.completion() {
            assert!(completion.result() >= 0, "{completion:?}");
            woken += 1;
        }
        if woken > 0 {
            break;
        }
    }
}

fn cpu() -> u128 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u128::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u128::try_from(now.tv_nsec).unwrap()
}

/// The descriptors of both rings on their way to the other thread.
struct Rings {
    mine: mpsc::SyncSender<i32>,
    theirs: mpsc::Receiver<i32>,
}

/// CPU time of both threads for one wake-up, in nanoseconds.
fn round(by: By) -> u128 {
    let eventfds = [(), ()].map(|()| eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    let ((mine, their_end), (theirs, my_end)) = (mpsc::sync_channel(2), mpsc::sync_channel(2));
    let (first, second) = (
        Rings {
            mine,
            theirs: my_end,
        },
        Rings {
            mine: theirs,
            theirs: their_end,
        },
    );
    let [one, two] = &eventfds;
    thread::scope(|scope| {
        let other = scope.spawn(move || play(by, false, two, one, &second));
        let mine = scope.spawn(move || play(by, true, one, two, &first));
        (mine.join().unwrap() + other.join().unwrap()) / u128::from(2 * wakes())
    })
}

#[test]
fn wakes_by_eventfd_and_by_message_all_arrive() {
    if !tests::has_ring() {
        return;
    }
    for number in 0..ROUNDS {
        for by in [By::Eventfd, By::Message] {
            println!("{number} {by:?}: {} ns of CPU a wake-up", round(by));
        }
    }
}
