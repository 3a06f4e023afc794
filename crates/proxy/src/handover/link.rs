//! Socket pair between a process and its successor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::{LinkMessage, PACKET_MAX};
use crate::listen::Passed;
use crate::orders::Order;

/// Maximum number of listening sockets of a process.
const LISTENERS_MAX: usize = 1024;

/// Maximum number of orders that a process passes on to the next one: settings, stopped databases, and query rules.
const STANDING_MAX: usize = 100_000;
/// Time for the other process to read what is offered.
const SEND_MAX: Duration = Duration::from_secs(10);

/// Sockets and orders that a process gets from the one that it follows.
#[derive(Debug)]
pub struct Offer {
    /// Listening sockets.
    pub listeners: Vec<Passed>,
    /// Orders of administrators that hold, in the order in which they are to be carried out.
    pub standing: Vec<Order>,
    /// Stream on which the outcome of the upgrade is reported.
    pub report: UnixStream,
}

/// Reason for which a hand-over fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Other process has closed its end.
    #[error("the other process has ended")]
    Ended,
    /// Error of the operating system.
    #[error("the connection to the other process is lost: {0}")]
    Io(#[from] io::Error),
    /// Packet that cannot be decoded.
    #[error("the other process sent a malformed message")]
    Malformed,
    /// Packet would be longer than either side takes.
    #[error("the message is too long for one packet")]
    TooLong,
    /// Packet of another version.
    #[error("the other process speaks version {0} of the hand-over, this one another")]
    Version(u8),
}

impl LinkError {
    /// True if the other process has not read what was sent before.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl From<Errno> for LinkError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::CONNRESET | Errno::PIPE => Self::Ended,
            other => Self::Io(other.into()),
        }
    }
}

/// End of the socket pair.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
}

#[cfg(test)]
impl From<OwnedFd> for Link {
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}

impl Link {
    /// Returns two ends; the second becomes the standard input of the next process.
    ///
    /// # Errors
    /// The system has no socket pair left.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self { socket: ours }, theirs))
    }

    /// Returns the end that this process was given as its standard input.
    ///
    /// # Errors
    /// The standard input cannot be duplicated.
    pub fn from_stdin() -> io::Result<Self> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self { socket })
    }

    /// Limits the time for which [`Link`] waits for a packet; `None` = no limit.
    ///
    /// # Errors
    /// The descriptor is not a socket.
    pub fn set_patience(&self, limit: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, limit)?)
    }

    /// Sends the listening sockets, the orders that hold, and the stream on which the outcome is reported. Waits while the
    /// other process has not read what was sent before, for a limited time.
    ///
    /// # Errors
    /// The other process is gone, or does not read.
    pub(crate) fn offer(
        &self,
        listeners: &[Passed],
        standing: Vec<Order>,
        report: &UnixStream,
    ) -> Result<(), LinkError> {
        set_socket_timeout(&self.socket, Timeout::Send, Some(SEND_MAX))?;
        for listener in listeners {
            let message = LinkMessage::Listener {
                is_unix: listener.is_unix(),
                owns_file: listener.owns_file(),
            };
            self.send_waiting(&message, Some(listener.as_fd()))?;
        }
        for order in standing {
            self.send_waiting(&LinkMessage::Standing(Box::new(order)), None)?;
        }
        self.send_waiting(&LinkMessage::Begin, Some(report.as_fd()))
    }

    /// Receives the offer of the process that this one follows.
    ///
    /// # Errors
    /// The other process is gone, or speaks another version.
    pub fn accept(&self) -> Result<Offer, LinkError> {
        let (mut listeners, mut standing) = (Vec::new(), Vec::new());
        loop {
            match self.receive()? {
                (LinkMessage::Listener { is_unix, owns_file }, Some(socket))
                    if listeners.len() < LISTENERS_MAX =>
                {
                    listeners.push(match is_unix {
                        true => Passed::unix(UnixListener::from(socket), owns_file),
                        false => TcpListener::from(socket).into(),
                    });
                }
                (LinkMessage::Standing(order), None) if standing.len() < STANDING_MAX => {
                    standing.push(*order);
                }
                (LinkMessage::Begin, Some(report)) => {
                    return Ok(Offer {
                        listeners,
                        standing,
                        report: report.into(),
                    });
                }
                _ => return Err(LinkError::Malformed),
            }
        }
    }

    /// Tells the other process that clients are accepted.
    ///
    /// # Errors
    /// The other process is gone.
    pub fn ready(&self) -> Result<(), LinkError> {
        self.send(&LinkMessage::Ready, None)
    }

    /// Waits for [`Link::ready`] of the other process.
    ///
    /// # Errors
    /// The other process has ended, or was not ready in time.
    pub fn wait_ready(&self) -> Result<(), LinkError> {
        match self.receive()? {
            (LinkMessage::Ready, None) => Ok(()),
            _ => Err(LinkError::Malformed),
        }
    }

    /// Sends one message without waiting.
    pub(crate) fn send(
        &self,
        message: &LinkMessage,
        socket: Option<BorrowedFd<'_>>,
    ) -> Result<(), LinkError> {
        self.send_with(message, socket, SendFlags::DONTWAIT)
    }

    fn send_waiting(
        &self,
        message: &LinkMessage,
        socket: Option<BorrowedFd<'_>>,
    ) -> Result<(), LinkError> {
        self.send_with(message, socket, SendFlags::empty())
    }

    fn send_with(
        &self,
        message: &LinkMessage,
        socket: Option<BorrowedFd<'_>>,
        flags: SendFlags,
    ) -> Result<(), LinkError> {
        let packet = message.encode().ok_or(LinkError::TooLong)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sockets: Vec<_> = socket.into_iter().collect();
        if !sockets.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&sockets));
        }
        let flags = SendFlags::NOSIGNAL | flags;
        sendmsg(&self.socket, &[IoSlice::new(&packet)], &mut control, flags)
            .map_err(LinkError::from)?;
        Ok(())
    }

    /// True if [`Link::receive`] would not wait.
    #[cfg(test)]
    pub(crate) fn has_news(&self) -> bool {
        let looked = rustix::net::recv(
            &self.socket,
            &mut [0],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        !matches!(looked, Err(Errno::AGAIN))
    }

    /// Waits for a message.
    pub(crate) fn receive(&self) -> Result<(LinkMessage, Option<OwnedFd>), LinkError> {
        let mut packet = vec![0; PACKET_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let buffers = &mut [IoSliceMut::new(&mut packet)];
            match recvmsg(&self.socket, buffers, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(received) => break received.bytes,
            }
        };
        let socket = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        let packet = packet.get(..received).unwrap_or_default();
        Ok((LinkMessage::decode(packet)?, socket))
    }
}
