//! Output of one receive, mostly the same bytes that came in. Copies only if bytes are inserted or left out.
//!
//! In the common case a whole batch is forwarded unchanged. The output stays a slice of the input, so that one receive
//! becomes one send without a copy. The first insertion, or a gap in the middle, moves the output to a buffer that the
//! caller reuses.

/// Output as a range of the input or, once that is impossible, as bytes in a reused buffer.
///
/// The caller keeps ranges in ascending order and calls [`Splice::finish`] for the bytes to send.
#[derive(Debug)]
pub struct Splice<'a> {
    input: &'a [u8],
    start: usize,
    end: usize,
    buffer: &'a mut Vec<u8>,
    copied: bool,
}

impl<'a> Splice<'a> {
    /// Creates an empty splice. Clears `buffer`, but keeps its capacity, so that later calls need not allocate.
    pub fn new(input: &'a [u8], buffer: &'a mut Vec<u8>) -> Self {
        buffer.clear();
        Self {
            input,
            start: 0,
            end: 0,
            buffer,
            copied: false,
        }
    }

    /// Forwards `input[from..to]`. Clips the range to the input.
    #[inline]
    pub fn keep(&mut self, from: usize, to: usize) {
        if !self.copied {
            if self.end == from && self.end != self.start {
                self.end = to;
                return;
            }
            if self.start == self.end {
                (self.start, self.end) = (from, to);
                return;
            }
            self.copy_what_is_kept();
        }
        self.buffer
            .extend_from_slice(self.input.get(from..to).unwrap_or_default());
    }

    /// Returns the buffer, to append bytes of our own after everything kept so far.
    pub fn insert(&mut self) -> &mut Vec<u8> {
        if !self.copied {
            self.copy_what_is_kept();
        }
        self.buffer
    }

    /// Leaves out everything kept or inserted so far.
    pub fn discard(&mut self) {
        (self.start, self.end) = (0, 0);
        self.buffer.clear();
        self.copied = false;
    }

    /// Returns everything kept or inserted so far, and leaves it out.
    pub fn take(&mut self) -> Vec<u8> {
        let bytes = match self.copied {
            true => std::mem::take(self.buffer),
            false => self
                .input
                .get(self.start..self.end)
                .unwrap_or_default()
                .to_vec(),
        };
        self.discard();
        bytes
    }

    /// True if nothing was kept or inserted.
    pub fn is_empty(&self) -> bool {
        if self.copied {
            self.buffer.is_empty()
        } else {
            self.start == self.end
        }
    }

    /// Returns the bytes to send.
    pub fn finish(self) -> &'a [u8] {
        if self.copied {
            self.buffer
        } else {
            self.input.get(self.start..self.end).unwrap_or_default()
        }
    }

    fn copy_what_is_kept(&mut self) {
        self.buffer
            .extend_from_slice(self.input.get(self.start..self.end).unwrap_or_default());
        self.copied = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(steps: impl FnOnce(&mut Splice<'_>)) -> (Vec<u8>, bool) {
        let (input, mut buffer) = (*b"0123456789", Vec::new());
        let mut splice = Splice::new(&input, &mut buffer);
        steps(&mut splice);
        let copied = splice.copied;
        (splice.finish().to_vec(), copied)
    }

    #[test]
    fn adjacent_ranges_stay_a_view_of_the_input() {
        let (bytes, copied) = spliced(|s| {
            s.keep(2, 4);
            s.keep(4, 7);
        });
        assert_eq!((bytes.as_slice(), copied), (&b"23456"[..], false));
    }

    #[test]
    fn a_gap_at_either_end_costs_no_copy_but_one_in_the_middle_does() {
        assert_eq!(spliced(|s| s.keep(5, 9)), (b"5678".to_vec(), false));
        let (bytes, copied) = spliced(|s| {
            s.keep(0, 2);
            s.keep(8, 10);
        });
        assert_eq!((bytes.as_slice(), copied), (&b"0189"[..], true));
    }

    #[test]
    fn what_is_taken_is_left_out() {
        let (input, mut buffer) = (*b"0123456789", Vec::new());
        let mut splice = Splice::new(&input, &mut buffer);
        splice.keep(2, 4);
        assert_eq!(splice.take(), b"23");
        splice.keep(5, 6);
        splice.insert().push(b'!');
        assert_eq!(splice.take(), b"5!");
        splice.keep(8, 9);
        assert_eq!(splice.finish(), b"8");
    }

    #[test]
    fn insertions_keep_their_place() {
        let (bytes, copied) = spliced(|s| {
            s.insert().extend_from_slice(b"<");
            s.keep(0, 3);
            s.insert().extend_from_slice(b">");
            s.keep(9, 10);
        });
        assert_eq!((bytes.as_slice(), copied), (&b"<012>9"[..], true));
    }
}
