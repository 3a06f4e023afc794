//! Requests to the monitoring pages of Weir (`metrics_listen`).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request such as `GET /metrics` without a body. Returns the status and the body of the answer.
pub fn request(port: u16, line: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line} HTTP/1.1\r\nHost: weir\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?;
    Ok((status.parse()?, body.to_owned()))
}
