//! HTTP for the monitoring pages: one request and one answer per connection. GET and HEAD only; bounded in bytes and in
//! time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use weir_pool::Moment;

use crate::clock::Clock;

/// Longest head of a request, in bytes: the request line and the headers.
const HEAD_MAX: usize = 8 * 1024;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;

/// Status of an answer (RFC 9110, section 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed\r\nAllow: GET, HEAD",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) body: Arc<str>,
}

impl Page {
    /// Returns a page with one line of text.
    pub(super) fn text(status: Status, line: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{line}\n").into(),
        }
    }
}

/// Request, as far as the received bytes tell.
#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    /// Path without the query; true if only the head of the answer is wanted.
    Page(&'a str, bool),
    Refused(Status),
    /// More bytes are needed.
    Unfinished,
}

/// Serves one connection, until the deadline at most.
///
/// # Errors
/// The connection broke, or its deadline has passed.
pub(super) fn serve(
    stream: &TcpStream,
    clock: Clock,
    until: Moment,
    pages: impl FnOnce(&str) -> Option<Page>,
) -> io::Result<()> {
    let mut timed = Timed {
        stream,
        clock,
        until,
    };
    let mut head = Vec::with_capacity(1024);
    loop {
        let (page, is_head) = match asked(&head) {
            Asked::Unfinished => {
                timed.receive(&mut head)?;
                continue;
            }
            Asked::Page(path, is_head) => {
                let missing = || Page::text(Status::NotFound, "/metrics, /healthz, /readyz");
                (pages(path).unwrap_or_else(missing), is_head)
            }
            Asked::Refused(status) => (Page::text(status, "not a request for a page"), false),
        };
        return timed.send(&answer(&page, is_head));
    }
}

fn asked(head: &[u8]) -> Asked<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) if head.len() >= HEAD_MAX => {
            Asked::Refused(Status::HeadTooLarge)
        }
        Ok(httparse::Status::Partial) => Asked::Unfinished,
        Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
            (Some(method @ ("GET" | "HEAD")), Some(path)) => {
                let path = path.split_once('?').map_or(path, |(path, _)| path);
                Asked::Page(path, method == "HEAD")
            }
            _ => Asked::Refused(Status::MethodNotAllowed),
        },
        Err(httparse::Error::TooManyHeaders) => Asked::Refused(Status::HeadTooLarge),
        Err(_) => Asked::Refused(Status::BadRequest),
    }
}

fn answer(page: &Page, is_head: bool) -> Vec<u8> {
    let body = if is_head { "" } else { &page.body };
    let text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}",
        page.status.line(),
        page.content_type,
        page.body.len()
    );
    text.into_bytes()
}

/// Connection whose reads and writes share one deadline.
struct Timed<'a> {
    stream: &'a TcpStream,
    clock: Clock,
    until: Moment,
}

impl Timed<'_> {
    fn rest(&self) -> io::Result<Option<std::time::Duration>> {
        let rest = self.until.since(self.clock.now());
        match rest.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(Some(rest)),
        }
    }

    /// Appends the next bytes received.
    fn receive(&mut self, head: &mut Vec<u8>) -> io::Result<()> {
        self.stream.set_read_timeout(self.rest()?)?;
        let mut part = [0; 1024];
        let room = HEAD_MAX.saturating_sub(head.len()).clamp(1, part.len());
        let part = part.get_mut(..room).unwrap_or_default();
        match self.stream.read(part)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                head.extend_from_slice(part.get(..count).unwrap_or_default());
                Ok(())
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(self.rest()?)?;
            match self.stream.write(bytes)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => bytes = bytes.get(count..).unwrap_or_default(),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// Returns both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn metrics(path: &str) -> Option<Page> {
        (path == "/metrics").then(|| Page::text(Status::Ok, "weir_up 1"))
    }

    /// Sends a request. Returns the first line of the answer, and its body.
    fn exchange(request: &[u8]) -> (String, String) {
        let (mut near, far) = pair();
        near.write_all(request).unwrap();
        let clock = Clock::new();
        let until = clock.now().plus(Duration::from_secs(20));
        serve(&far, clock, until, metrics).unwrap();
        drop(far);
        let mut text = String::new();
        // If request bytes stay unread, the connection ends by a reset.
        let _ = near.read_to_string(&mut text);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    #[test]
    fn a_page_is_found_by_its_path_whatever_follows_it() {
        for path in ["/metrics", "/metrics?debug=1"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            let (line, body) = exchange(request.as_bytes());
            assert_eq!((&*line, &*body), ("HTTP/1.1 200 OK", "weir_up 1\n"));
        }
        let (line, body) = exchange(b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert_eq!((&*line, &*body), ("HTTP/1.1 200 OK", ""));
        assert_eq!(
            exchange(b"GET / HTTP/1.1\r\n\r\n").0,
            "HTTP/1.1 404 Not Found"
        );
    }

    #[test]
    fn what_is_no_request_for_a_page_is_refused() {
        let line = |request: &[u8]| exchange(request).0;
        assert!(line(b"POST /metrics HTTP/1.1\r\n\r\n").contains("405"));
        assert!(line(b"\0\0\0\x08\x04\xd2\x16\x2f\r\n\r\n").contains("400"));
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HEAD_MAX));
        assert!(line(&long.as_bytes()[..HEAD_MAX]).contains("431"));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert!(line(many.as_bytes()).contains("431"));
    }

    #[test]
    fn any_cut_of_a_request_is_the_same_request() {
        let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 1..request.len() {
            assert_eq!(asked(&request[..cut]), Asked::Unfinished, "{cut}");
        }
        assert_eq!(asked(request), Asked::Page("/metrics", false));
    }

    #[test]
    fn who_sends_nothing_or_reads_nothing_is_left_at_the_deadline() {
        let clock = Clock::new();
        let until = clock.now().plus(Duration::from_millis(50));
        let (near, far) = pair();
        let error = serve(&far, clock, until, metrics).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::TimedOut | ErrorKind::WouldBlock
        ));
        (&near).write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let until = clock.now().plus(Duration::from_millis(200));
        let much = |_: &str| Some(Page::text(Status::Ok, &"x".repeat(64 * 1024 * 1024)));
        let error = serve(&far, clock, until, much).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::TimedOut | ErrorKind::WouldBlock
        ));
    }
}
