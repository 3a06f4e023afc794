//! Rows of a host of a database with several.

use super::{Field, Opt, flag, ranged, section, text, word};
use crate::routing::HostRole;
use crate::value::Value;

section! {
    /// Options of one host, from `[databases.NAME.hosts.ADDRESS]`.
    Host, HOST {
        /// Role that the host may have: `auto` asks the host itself; a `primary` is not used while it is in recovery, a `replica` gets no writes even if it was promoted.
        role: HostRole = word(HostRole::NAMES, "auto");
        /// Share of reads relative to the other hosts; 0 = no reads.
        weight: u32 = ranged("100", 0, 1000);
        /// Availability zone of the host; reads prefer hosts in the zone of the global `az`.
        az: String = text("").longest(63);
        /// False keeps reads away from the host while it is a replica; it may still become the primary.
        reads: bool = flag("1");
    }
}
