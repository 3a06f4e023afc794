//! The ring of provided buffers: memory that the kernel and this crate share.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::demand::Demand;
use crate::lent::{Lent, Loan};
use crate::token::Token;

/// Sizes of a ring of receive buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "users write them out")]
pub struct BufferSizes {
    /// Length of a buffer in bytes.
    pub len: usize,
    /// Number of buffers that the kernel has at first, and at least. It doubles when too many connections receive at once,
    /// and halves when few do.
    pub first: usize,
    /// Maximum number of buffers that the kernel has, a power of two up to 2^15.
    pub max: u16,
}

/// Buffers of one length, by the kernel's number for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Group {
    Small = 0,
    Large = 1,
}

/// Alignment that the kernel asks for: the largest page of the machines that Weir runs on.
const PAGE: usize = 64 * 1024;

/// See the module's page. It must outlive the ring that it is registered with.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// First of `places` entries; the kernel reads them.
    entries: NonNull<BufRingEntry>,
    layout: Layout,
    /// Number of entries, a power of two.
    places: u16,
    /// Number of buffers given so far; the kernel's index is its rest by `places`.
    tail: u16,
    lent: Lent,
    spare: Vec<Box<[u8]>>,
    /// Minimum number of spare buffers since the last [`Buffers::trim`].
    unused: usize,
    buffer_len: usize,
    group: Group,
    demand: Demand,
    has_starved: bool,
}

// SAFETY: the memory belongs to this value alone, apart from the kernel, which does not care for threads.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Makes an empty ring.
    pub(crate) fn new(group: Group, sizes: BufferSizes) -> io::Result<Self> {
        let (places, buffer_len) = (sizes.max, sizes.len);
        let bad = |_| io::Error::from(io::ErrorKind::InvalidInput);
        if !places.is_power_of_two() || buffer_len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let layout = Layout::array::<BufRingEntry>(usize::from(places)).map_err(bad)?;
        let layout = layout.align_to(PAGE).map_err(bad)?.pad_to_align();
        // SAFETY: the layout has a size, as there is at least one entry.
        let memory = unsafe { alloc_zeroed(layout) };
        let entries = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            entries,
            layout,
            places,
            tail: 0,
            lent: Lent::new(places),
            spare: Vec::new(),
            unused: 0,
            buffer_len,
            group,
            demand: Demand::new(sizes.first, usize::from(places)),
            has_starved: false,
        })
    }

    /// Number of buffers that the kernel should have.
    pub(crate) fn target(&self) -> usize {
        self.demand.target()
    }

    /// Length of a buffer in bytes.
    pub(crate) fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    /// Notes that a buffer was used for this connection.
    #[inline]
    pub(crate) fn used(&mut self, token: Token) {
        self.demand.received(token);
    }

    /// Notes that the kernel had no buffer.
    pub(crate) fn starved(&mut self) {
        self.has_starved = true;
    }

    /// Ends a turn: the number of buffers follows the connections that received in it.
    #[inline]
    pub(crate) fn turn_ends(&mut self) {
        self.demand.turn_ends(std::mem::take(&mut self.has_starved));
    }

    /// Lets the number of buffers fall if few were used since the last call. True if it did.
    pub(crate) fn falls(&mut self) -> bool {
        self.demand.falls()
    }

    /// Registers the ring with the kernel.
    pub(crate) fn register(&self, io: &IoUring) -> io::Result<()> {
        let address = self.entries.as_ptr() as u64;
        let submitter = io.submitter();
        // SAFETY: the memory has that many entries, is aligned to a page, and outlives `io`: `Ring` drops it later.
        unsafe {
            submitter.register_buf_ring_with_flags(address, self.places, self.group as u16, 0)
        }
    }

    /// Gives the kernel buffers until it has `count` of them.
    pub(crate) fn fill(&mut self, count: usize) {
        let before = self.tail;
        while self.lent.len() < count.min(usize::from(self.places)) {
            let memory = self.spare.pop();
            let memory = memory.unwrap_or_else(|| vec![0; self.buffer_len].into_boxed_slice());
            let Some(loan) = self.lent.lend(memory) else {
                break;
            };
            self.write(loan);
        }
        self.unused = self.unused.min(self.spare.len());
        if self.tail != before {
            self.publish();
        }
    }

    /// Takes all buffers from the kernel, which get others with the next [`Buffers::fill`]. The kernel gives out buffers in
    /// the order that it got them, so that all of them have been written to after a while.
    ///
    /// # Errors
    ///
    /// The kernel keeps the ring, or registers none.
    ///
    /// # Safety
    ///
    /// All completions have been read that name a buffer.
    pub(crate) unsafe fn renew(&mut self, io: &IoUring) -> io::Result<()> {
        io.submitter().unregister_buf_ring(self.group as u16)?;
        // SAFETY: the kernel has forgotten the ring. It takes a buffer out and fills it within one step of an operation, on
        // this thread, and then writes the completion, which the caller would have read.
        unsafe { self.lent.take_all() };
        self.tail = 0;
        self.publish();
        self.register(io)
    }

    /// Frees what was spare since the last call.
    pub(crate) fn trim(&mut self) {
        self.spare.drain(..self.unused.min(self.spare.len()));
        self.spare.shrink_to_fit();
        self.unused = self.spare.len();
    }

    /// Writes the entry of a buffer; the kernel reads it after [`Buffers::publish`].
    fn write(&mut self, loan: Loan) {
        let index = usize::from(self.tail & (self.places - 1));
        // SAFETY: the index is below the number of entries.
        let entry = unsafe { self.entries.add(index) };
        // SAFETY: the entry is ours: the kernel reads entries up to the published tail, and since at most `places`
        // buffers are lent, it has consumed the one that was here. The reference ends with this function. The tail is
        // in a field of the first entry that these methods do not touch.
        let entry = unsafe { &mut *entry.as_ptr() };
        entry.set_addr(loan.address as u64);
        entry.set_len(loan.len);
        entry.set_bid(loan.id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel all entries that were written.
    fn publish(&mut self) {
        // SAFETY: the pointer is that of the first entry, which is initialized.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: the field is in our memory, aligned to two bytes, and the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// Takes a buffer that the kernel has filled.
    ///
    /// # Safety
    ///
    /// The kernel has reported this number in a completion that was read now.
    pub(crate) unsafe fn take(&mut self, id: u16) -> Option<Box<[u8]>> {
        // SAFETY: the caller promises it: with the completion, the kernel is done with the buffer.
        unsafe { self.lent.take_back(id) }
    }

    /// Takes memory for later. Memory of another length is freed, and so is more than the kernel may use.
    pub(crate) fn keep(&mut self, memory: Box<[u8]>) {
        if memory.len() == self.buffer_len && self.spare.len() < self.target() {
            self.spare.push(memory);
        }
    }

    /// Frees everything.
    ///
    /// # Safety
    ///
    /// No receive is under way, and the ring is closed or will get none any more.
    pub(crate) unsafe fn free(&mut self) {
        // SAFETY: the caller promises it.
        unsafe { self.lent.take_all() };
        // SAFETY: the memory was allocated with this layout. The kernel has pinned its pages on its own account, so that
        // closing the ring later does not touch our mapping.
        unsafe { dealloc(self.entries.as_ptr().cast(), self.layout) };
        self.entries = NonNull::dangling();
        self.places = 0;
    }
}
