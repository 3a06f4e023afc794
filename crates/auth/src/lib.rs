//! Ways to prove who one is: MD5, SCRAM, clear text, as state machines in both roles.
