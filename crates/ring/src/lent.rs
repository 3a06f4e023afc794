//! Receive buffers that the kernel may write to, by number. Pure: no system calls.

use std::ptr::NonNull;

/// Buffer that was lent: what the kernel is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loan {
    pub(crate) id: u16,
    pub(crate) address: *mut u8,
    pub(crate) len: u32,
}

/// See the module's page. Memory that is still lent at the end is leaked.
#[derive(Debug)]
pub(crate) struct Lent {
    /// Memory by number. It is kept as a pointer: the compiler would take a `Box` for memory that nobody else
    /// writes to.
    places: Box<[Option<NonNull<[u8]>>]>,
    /// Numbers without memory.
    free: Vec<u16>,
}

// SAFETY: the pointers own their memory, as boxes would, and nothing here is shared.
unsafe impl Send for Lent {}

impl Lent {
    /// Makes an empty table for up to `count` buffers.
    pub(crate) fn new(count: u16) -> Self {
        Self {
            places: vec![None; usize::from(count)].into_boxed_slice(),
            free: (0..count).rev().collect(),
        }
    }

    /// Number of buffers that are lent.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Takes memory that the kernel may write to from now on. None, and the memory is freed, if the table is full.
    pub(crate) fn lend(&mut self, memory: Box<[u8]>) -> Option<Loan> {
        let id = self.free.pop()?;
        let len = u32::try_from(memory.len()).unwrap_or(u32::MAX);
        let memory = NonNull::from(Box::leak(memory));
        let loan = Loan {
            id,
            address: memory.as_ptr().cast(),
            len,
        };
        if let Some(place) = self.places.get_mut(usize::from(id)) {
            *place = Some(memory);
        }
        Some(loan)
    }

    /// Gives memory back. None for a number that is not lent.
    ///
    /// # Safety
    ///
    /// The kernel has reported that it is done with this buffer, or never got it.
    pub(crate) unsafe fn take_back(&mut self, id: u16) -> Option<Box<[u8]>> {
        let memory = self.places.get_mut(usize::from(id))?.take()?;
        self.free.push(id);
        // SAFETY: the pointer is that of a leaked box, and was taken out of its place, so it is freed once. Nobody
        // else writes to the memory: the caller promises it of the kernel.
        Some(unsafe { Box::from_raw(memory.as_ptr()) })
    }

    /// Gives all memory back.
    ///
    /// # Safety
    ///
    /// The kernel is done with all buffers.
    pub(crate) unsafe fn take_all(&mut self) {
        for id in 0..u16::try_from(self.places.len()).unwrap_or(u16::MAX) {
            // SAFETY: the caller promises it for every buffer.
            drop(unsafe { self.take_back(id) });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes as the kernel does: through the address that it was told.
    fn write(loan: Loan, byte: u8) {
        for at in 0..loan.len as usize {
            // SAFETY: the memory is lent, and has this length.
            let place = unsafe { loan.address.add(at) };
            // SAFETY: as above.
            unsafe { place.write(byte) };
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Lend,
        /// Fills one of the lent buffers, and gives it back.
        Fill(usize, u8),
        /// Asks for a number that may not be lent.
        Wrong(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Lend),
            2 => (any::<usize>(), any::<u8>()).prop_map(|(which, byte)| Step::Fill(which, byte)),
            1 => (0_u16..9).prop_map(Step::Wrong),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn each_buffer_is_lent_once_and_comes_back_with_what_was_written(steps in prop::collection::vec(step(), 1..60)) {
            let mut lent = Lent::new(8);
            let mut loans: Vec<Loan> = Vec::new();
            for step in steps {
                match step {
                    Step::Lend => match lent.lend(vec![0; 4].into_boxed_slice()) {
                        Some(loan) => {
                            prop_assert!(loans.iter().all(|other| other.id != loan.id));
                            loans.push(loan);
                        }
                        None => prop_assert_eq!(loans.len(), 8),
                    },
                    Step::Fill(which, byte) if !loans.is_empty() => {
                        let loan = loans.swap_remove(which % loans.len());
                        write(loan, byte);
                        // SAFETY: this test is the kernel, and is done with it.
                        let memory = unsafe { lent.take_back(loan.id) };
                        prop_assert_eq!(memory.as_deref(), Some(&[byte; 4][..]));
                    }
                    Step::Fill(..) => {}
                    Step::Wrong(id) => {
                        if loans.iter().all(|loan| loan.id != id) {
                            // SAFETY: it is not lent.
                            let memory = unsafe { lent.take_back(id) };
                            prop_assert!(memory.is_none());
                        }
                    }
                }
                prop_assert_eq!(lent.len(), loans.len());
            }
            // SAFETY: this test is the kernel, and is done with all.
            unsafe { lent.take_all() };
            prop_assert_eq!(lent.len(), 0);
        }
    }
}
