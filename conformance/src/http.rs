//! Requests to the monitoring pages of Weir (`metrics_listen`), and to servers that monitor.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request such as `GET /metrics` without a body. Returns the status and the body of the answer.
pub fn request(port: u16, line: &str) -> Result<(u16, String)> {
    send(port, &format!("{line} HTTP/1.1"))
}

/// Sends a request such as [`request`], by version 1.0: the server sends the body in one piece and closes.
pub fn request_1_0(port: u16, line: &str) -> Result<(u16, String)> {
    send(port, &format!("{line} HTTP/1.0"))
}

fn send(port: u16, line: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line}\r\nHost: weir\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?;
    Ok((status.parse()?, body.to_owned()))
}
