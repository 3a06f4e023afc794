//! Who gets which server when: queue, limits, lifetimes. Pure; time is an argument.
