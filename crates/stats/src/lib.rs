//! Counters, histograms and snapshots as plain structs.
