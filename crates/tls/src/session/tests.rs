//! Two ends talk to each other, over buffers.
