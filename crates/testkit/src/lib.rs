//! Scripted peers, virtual time and other things tests are made of.
