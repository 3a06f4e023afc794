//! One PostgreSQL conversation per side, as pure state machines.
