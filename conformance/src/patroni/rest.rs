//! Requests to the REST interface of a Patroni agent, and to etcd's health page.

use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

/// Time limit of a question: a frozen agent accepts connections and does not answer.
const QUESTION: Duration = Duration::from_secs(1);
/// Time limit of an order, which is answered when it has been carried out.
const ORDER: Duration = Duration::from_secs(60);

/// True if the page answers with status 200 in time.
pub(super) fn is_ok(at: SocketAddr, path: &str) -> bool {
    get(at, path).is_ok_and(|(status, _)| status == 200)
}

/// Returns the status and the body of a page.
pub(super) fn get(at: SocketAddr, path: &str) -> Result<(u16, String)> {
    exchange(at, &format!("GET {path}"), "", QUESTION)
}

/// Gives an order, and returns the answer's body. Fails unless the order was carried out.
pub(super) fn post(at: SocketAddr, path: &str, body: &str) -> Result<String> {
    let (status, answer) = exchange(at, &format!("POST {path}"), body, ORDER)?;
    ensure!(
        status == 200,
        "{path} with {body} answers {status}: {answer}"
    );
    Ok(answer)
}

fn exchange(at: SocketAddr, method: &str, body: &str, limit: Duration) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&at, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let length = body.len();
    write!(
        stream,
        "{method} HTTP/1.0\r\nHost: {at}\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("no end of the head")?;
    let status = head.split(' ').nth(1).context("no status")?;
    Ok((status.parse()?, body.to_owned()))
}
