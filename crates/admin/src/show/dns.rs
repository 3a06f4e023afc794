//! `SHOW DNS_HOSTS` and `SHOW DNS_ZONES`: the cache of the resolver.

use super::{Show, int4, int8, long, some, text};

/// `SHOW DNS_HOSTS`.
pub(crate) static DNS_HOSTS: Show = Show {
    headings: &[text("hostname"), int8("ttl"), text("addrs")],
    is_live: true,
    rows: |context| {
        let hosts = context.snapshot.hosts.iter();
        let rows = hosts.map(|host| {
            vec![
                some(&host.name),
                long(host.ttl_seconds),
                some(host.addresses.join(",")),
            ]
        });
        rows.collect()
    },
};

/// `SHOW DNS_ZONES`: always empty, since Weir does not watch zones.
pub(crate) static DNS_ZONES: Show = Show {
    headings: &[text("zonename"), int8("serial"), int4("count")],
    is_live: false,
    rows: |_| Vec::new(),
};
