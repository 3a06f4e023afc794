//! Replication connections: what PostgreSQL's own programs and a second PostgreSQL do through Weir, compared with what they
//! do without it; logins, limits and orders.

#[path = "replication/drivers.rs"]
mod drivers;
#[path = "replication/fixture.rs"]
mod fixture;
#[path = "replication/life.rs"]
mod life;
#[path = "replication/logical.rs"]
mod logical;
#[path = "replication/logins.rs"]
mod logins;
#[path = "replication/orders.rs"]
mod orders;
#[path = "replication/physical.rs"]
mod physical;
