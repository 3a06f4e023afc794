//! Listeners of the driver.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use weir_pool::Moment;
use weir_ring::{Ring, Token};

use super::super::Completion;
use crate::listen::{Accepted, Listener};
use crate::socket::TcpOptions;

/// Pause of accepting when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);
/// Generation of all listeners' tokens; no connection has it.
const GENERATION: u32 = 0;

/// Listener with its accept.
#[derive(Debug)]
struct Place {
    listener: Listener,
    /// True while the kernel accepts for us.
    is_armed: bool,
    /// True if the accept is to end, and the listener to be closed then.
    is_stopped: bool,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Accepting {
    /// Listeners by number; an empty place belongs to a closed one.
    places: Vec<Option<Place>>,
    /// Connections that were accepted and not reported. They outlive their listener: no successor would get them.
    come: VecDeque<io::Result<Box<Accepted>>>,
    paused_until: Option<Moment>,
}

impl Accepting {
    pub(super) fn new(listeners: Vec<Listener>) -> Self {
        let places = listeners.into_iter().map(|listener| {
            Some(Place {
                listener,
                is_armed: false,
                is_stopped: false,
            })
        });
        Self {
            places: places.collect(),
            come: VecDeque::new(),
            paused_until: None,
        }
    }

    /// True while nothing is accepted for lack of descriptors.
    pub(super) fn is_paused(&self) -> bool {
        self.paused_until.is_some()
    }

    /// True if there are connections to be reported.
    pub(super) fn has_some(&self) -> bool {
        !self.come.is_empty()
    }

    /// Begins and ends accepts.
    pub(super) fn settle(&mut self, ring: &mut Ring, now: Moment, suspended: bool) {
        self.paused_until = self.paused_until.filter(|until| now < *until);
        let wants = !suspended && self.paused_until.is_none();
        for (i, place) in self.places.iter_mut().enumerate() {
            let (Some(token), Some(place)) = (token(i), place) else {
                continue;
            };
            if wants && !place.is_armed && !place.is_stopped {
                place.is_armed = true;
                ring.accept(token, place.listener.as_fd());
            } else if suspended && place.is_armed {
                // Ends with the next wait; until then connections may come, which wait for the end of the suspension.
                ring.cancel_accept(token);
            }
        }
    }

    /// Takes an event of an accept.
    pub(super) fn note(
        &mut self,
        token: Token,
        (socket, more): (io::Result<OwnedFd>, bool),
        options: &TcpOptions,
        now: Moment,
    ) {
        let Some(entry) = self.places.get_mut(token.index() as usize) else {
            return;
        };
        let Some(place) = entry else {
            return;
        };
        match socket.map(|socket| place.listener.greet(socket, options)) {
            Ok(Ok(accepted)) => self.come.push_back(Ok(Box::new(accepted))),
            // The client has gone before anybody looked at it.
            Ok(Err(_)) => {}
            Err(error) if is_harmless(&error) => {}
            Err(error) => {
                self.paused_until = Some(now.plus(PAUSE));
                self.come.push_back(Err(error));
            }
        }
        if !more {
            place.is_armed = false;
            if place.is_stopped {
                *entry = None;
            }
        }
    }

    /// Reports the next connection, or that accepting failed.
    pub(super) fn next(&mut self) -> Option<Completion> {
        Some(match self.come.pop_front()? {
            Ok(accepted) => Completion::Accepted(accepted),
            Err(error) => Completion::AcceptFailed(error),
        })
    }

    /// Stops accepting from these listeners for good, and closes them.
    pub(super) fn stop(&mut self, ring: &mut Ring, which: impl Fn(&Listener) -> bool) {
        for (i, entry) in self.places.iter_mut().enumerate() {
            let Some(place) = entry.as_mut().filter(|place| which(&place.listener)) else {
                continue;
            };
            match token(i).filter(|_| place.is_armed) {
                Some(token) => {
                    place.is_stopped = true;
                    ring.cancel_accept(token);
                }
                None => *entry = None,
            }
        }
    }
}

fn token(index: usize) -> Option<Token> {
    Token::new(u32::try_from(index).ok()?, GENERATION)
}

/// True for errors after which the next connection may be accepted.
fn is_harmless(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let number = error.raw_os_error();
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::Interrupted | ErrorKind::WouldBlock
    ) || number == Some(Errno::CANCELED.raw_os_error())
}
