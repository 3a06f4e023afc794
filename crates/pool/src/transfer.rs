//! Values that pass between a lane and its engine: permission to connect, and servers in transfer to other lanes.

use crate::alternatives::Login;
use crate::moment::HostId;
use crate::moment::Moment;
use crate::shared::Connected;
use crate::shared::Delivery;
use crate::shared::Permit;
use crate::shared::Seat;
use crate::shared::Transit;
use crate::want::Serial;
use crate::want::Users;

/// Permission to open one server connection. Goes back by `connect_started` or `connect_abandoned`.
#[derive(Debug)]
#[must_use]
pub struct ConnectToken {
    pub(crate) permit: Permit,
    pub(crate) login: Box<Login>,
    pub(crate) started: Moment,
}

impl ConnectToken {
    /// The host to connect to.
    #[must_use]
    pub fn host(&self) -> HostId {
        self.login.gate().host()
    }
}

/// A server in transfer from one lane to another. Goes to `adopt`, or to `lost` if it cannot arrive.
#[derive(Debug)]
#[must_use]
pub struct Transfer {
    pub(crate) permit: Permit,
    pub(crate) alive: Option<Connected>,
    pub(crate) delivery: Option<Delivery>,
    pub(crate) seat: Option<Seat>,
    pub(crate) started: Moment,
    pub(crate) expires: Moment,
    pub(crate) used_at: Moment,
    pub(crate) serial: Serial,
    pub(crate) users: Users,
    pub(crate) transit: Transit,
}
