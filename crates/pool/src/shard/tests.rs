//! Conversations with one shard.
