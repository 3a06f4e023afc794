//! Received bytes that were not reported yet.

use std::collections::VecDeque;

use weir_ring::Ring;

use super::super::Chunk;

/// Bytes of one receive.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) memory: Box<[u8]>,
    len: usize,
    /// True if the bytes are plain, though the connection has TLS: another driver has opened them.
    pub(super) is_opened: bool,
}

impl Piece {
    pub(super) fn received(memory: Box<[u8]>, len: usize) -> Self {
        Self {
            memory,
            len,
            is_opened: false,
        }
    }

    /// Makes a piece of plain bytes.
    pub(super) fn opened(bytes: Vec<u8>) -> Self {
        let memory = bytes.into_boxed_slice();
        Self {
            len: memory.len(),
            memory,
            is_opened: true,
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(..self.len).unwrap_or_default()
    }

    pub(super) fn into_chunk(self) -> Chunk {
        Chunk::from_memory(self.memory, self.len)
    }
}

/// Pieces of a connection, in order. There is rarely more than one, and an idle connection has none and no memory for any.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    first: Option<Piece>,
    /// Pieces behind the first.
    #[expect(
        clippy::box_collection,
        reason = "they are rare, and connections are many"
    )]
    rest: Option<Box<VecDeque<Piece>>>,
}

impl Pieces {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(super) fn push(&mut self, piece: Piece) {
        match &self.first {
            None => self.first = Some(piece),
            Some(_) => self.rest.get_or_insert_default().push_back(piece),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Piece> {
        let piece = self.first.take()?;
        if let Some(rest) = &mut self.rest {
            self.first = rest.pop_front();
            if rest.is_empty() {
                self.rest = None;
            }
        }
        Some(piece)
    }

    /// Moves the pieces into memory of their own size. They may wait for long, and the ring's buffers are large.
    pub(super) fn shrink(&mut self, ring: &mut Ring) {
        let rest = self.rest.iter_mut().flat_map(|rest| rest.iter_mut());
        for piece in self.first.iter_mut().chain(rest) {
            if piece.len < piece.memory.len() / 2 {
                let small = piece.bytes_mut().to_vec().into_boxed_slice();
                ring.give_back(std::mem::replace(&mut piece.memory, small));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_order_and_leave_no_memory() {
        let mut pieces = Pieces::default();
        for round in 0..3_u8 {
            for i in 0..5 {
                pieces.push(Piece::opened(vec![round, i]));
            }
            for i in 0..5 {
                assert_eq!(pieces.pop().unwrap().bytes_mut(), [round, i]);
            }
            assert!(pieces.is_empty() && pieces.rest.is_none());
            assert!(pieces.pop().is_none());
        }
    }
}
