//! Connections over a ring that makes trouble: what both ends get must be what both ends sent.

use weir_ring::{BufferSizes, Trouble};

use super::*;

const CONNECTIONS: usize = 6;

/// Random numbers of a test (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }
}

/// Connection as both ends see it.
struct Peer {
    id: u32,
    key: Option<Key>,
    /// Waits for `Detached`.
    is_leaving: bool,
    /// Stopped by this test.
    is_stopped: bool,
    far: TcpStream,
    wrote: Vec<u8>,
    received: Vec<u8>,
    sent: Vec<u8>,
    got: Vec<u8>,
}

struct Play {
    bench: Bench<Uring>,
    dice: Dice,
    peers: BTreeMap<u32, Peer>,
    ids: slotmap::SlotMap<ServerId, u32>,
    owners: BTreeMap<u32, ServerId>,
    next: u32,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut sizes = Options::default();
        sizes.operations = 8;
        sizes.completions = 16;
        sizes.small = BufferSizes {
            len: 1024,
            first: 8,
            max: 64,
        };
        sizes.large = BufferSizes {
            len: 4096,
            first: 1,
            max: 4,
        };
        sizes.trouble = Some(Trouble::new(seed));
        let ring = Ring::new(&sizes).unwrap();
        let driver = Uring::new(ring, Vec::new(), TcpOptions::default()).0;
        let mut play = Self {
            bench: Bench::new(driver),
            dice: Dice(seed),
            peers: BTreeMap::new(),
            ids: slotmap::SlotMap::with_key(),
            owners: BTreeMap::new(),
            next: 0,
        };
        for _ in 0..CONNECTIONS {
            play.open();
        }
        play
    }

    fn open(&mut self) {
        let (near, far) = pair();
        far.set_nonblocking(true).unwrap();
        let id = self.next;
        self.next += 1;
        let owner = self.ids.insert(id);
        self.owners.insert(id, owner);
        let key = self.bench.driver.add(near, Owner::Server(owner)).unwrap();
        let peer = Peer {
            id,
            key: Some(key),
            is_leaving: false,
            is_stopped: false,
            far,
            wrote: Vec::new(),
            received: Vec::new(),
            sent: Vec::new(),
            got: Vec::new(),
        };
        self.peers.insert(id, peer);
    }

    fn id_of(&self, owner: Owner) -> u32 {
        match owner {
            Owner::Server(id) => self.ids[id],
            other => panic!("{other:?}"),
        }
    }

    fn turn(&mut self) {
        self.bench.now += 1_000_000;
        let now = Moment(self.bench.now);
        self.bench.driver.wait(now, Some(Duration::ZERO)).unwrap();
        while let Some(completion) = self.bench.driver.next() {
            self.complete(completion);
        }
        while let Some(completion) = self.bench.driver.next_detached() {
            self.complete(completion);
        }
    }

    fn complete(&mut self, completion: Completion) {
        let id = self.id_of(completion.owner());
        let peer = self
            .peers
            .get_mut(&id)
            .expect("an owner that is gone is told of nothing");
        match completion {
            Completion::Received(_, chunk) => {
                assert!(!peer.is_stopped, "a stopped connection is silent");
                assert!(!chunk.is_empty());
                peer.received.extend_from_slice(&chunk);
                self.bench.driver.recycle(chunk);
            }
            Completion::Drained(_) => {}
            Completion::Detached(owner, stream) => {
                assert!(std::mem::take(&mut peer.is_leaving));
                peer.is_stopped = false;
                peer.key = Some(self.bench.driver.add(*stream, owner).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }

    fn step(&mut self) {
        let which = self.dice.below(self.peers.len());
        let count = 1 + self.dice.below(9000);
        let what = self.dice.below(12);
        let peer = self.peers.values_mut().nth(which).unwrap();
        let driver = &mut self.bench.driver;
        let bytes = || (0..count).map(|i| ((i + which) % 253).to_le_bytes()[0]);
        match (what, peer.key) {
            (0..3, _) => {
                let bytes: Vec<u8> = bytes().collect();
                if let Ok(count) = peer.far.write(&bytes) {
                    peer.wrote.extend_from_slice(&bytes[..count]);
                }
            }
            (3..6, Some(key)) if !driver.is_full(key) => {
                let bytes: Vec<u8> = bytes().collect();
                driver.send(key, &bytes);
                peer.sent.extend_from_slice(&bytes);
            }
            (6, Some(key)) => {
                driver.stop(key, Why::Partner);
                peer.is_stopped = true;
            }
            (7, Some(key)) => {
                driver.go(key, Why::Partner);
                peer.is_stopped = false;
            }
            (8, Some(key)) if !peer.is_leaving => {
                driver.begin_detach(key);
                peer.is_leaving = true;
            }
            (9, Some(key)) if self.dice.below(4) == 0 => {
                // Late events of the old connection must not reach the new one.
                driver.abort(key);
                let id = peer.id;
                self.peers.remove(&id);
                if let Some(owner) = self.owners.remove(&id) {
                    self.ids.remove(owner);
                }
                self.open();
            }
            (10, _) => peer.read(),
            _ => self.turn(),
        }
    }

    fn settle(&mut self) {
        for peer in self.peers.values_mut() {
            if let Some(key) = peer.key {
                self.bench.driver.go(key, Why::Partner);
                peer.is_stopped = false;
            }
        }
        for _ in 0..20_000 {
            self.turn();
            for peer in self.peers.values_mut() {
                peer.read();
            }
            if self.peers.values().all(Peer::is_whole) {
                return;
            }
        }
        for peer in self.peers.values() {
            println!(
                "{}: wrote {} received {} sent {} got {} leaving {}",
                peer.id,
                peer.wrote.len(),
                peer.received.len(),
                peer.sent.len(),
                peer.got.len(),
                peer.is_leaving
            );
        }
        panic!("bytes are missing");
    }
}

impl Peer {
    fn read(&mut self) {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = self.far.read(&mut buffer) {
            self.got.extend_from_slice(&buffer[..count]);
        }
    }

    fn is_whole(&self) -> bool {
        !self.is_leaving && self.received == self.wrote && self.got == self.sent
    }
}

#[test]
fn no_byte_is_lost_doubled_or_told_to_another_whatever_the_kernel_does() {
    if !has_ring() {
        return;
    }
    let seeds = std::env::var("WEIR_RING_SEEDS").unwrap_or_else(|_| "0..40".to_owned());
    let (first, last) = seeds.split_once("..").unwrap();
    for seed in first.parse::<u64>().unwrap()..last.parse().unwrap() {
        println!("seed {seed}");
        let mut play = Play::new(seed);
        for _ in 0..600 {
            play.step();
        }
        play.settle();
    }
}
