//! Pool sizing: observations in, a recommendation and its reasoning out.
//!
//! Pure: time, randomness and figures are arguments. It must never read a clock or a socket.
