//! HTTP for the monitoring pages: one request and one answer per connection, bounded in bytes and in time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

use weir_pool::Moment;

use super::METHODS;
use crate::clock::Clock;

/// Longest head of a request, in bytes: the request line and the headers.
const HEAD_MAX: usize = 8 * 1024;
/// Longest body of a request, in bytes.
const BODY_MAX: usize = 8 * 1024;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;

/// Status of an answer (RFC 9110, section 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    Accepted,
    BadRequest,
    Forbidden,
    NotFound,
    /// Contains the methods that the page has.
    MethodNotAllowed(&'static str),
    LengthRequired,
    BodyTooLarge,
    HeadTooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::Accepted => "202 Accepted",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed(_) => "405 Method Not Allowed",
            Self::LengthRequired => "411 Length Required",
            Self::BodyTooLarge => "413 Content Too Large",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// Method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    Options,
    Post,
}

impl Method {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "GET" => Some(Self::Get),
            "HEAD" => Some(Self::Head),
            "OPTIONS" => Some(Self::Options),
            "POST" => Some(Self::Post),
            _ => None,
        }
    }
}

/// Request for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    /// Bytes behind the `?` of the path.
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
}

impl Request<'_> {
    /// True if the request asks for a page and changes nothing.
    pub(super) fn only_reads(&self) -> bool {
        self.method != Method::Post
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

    /// Returns the refusal of a method that the page does not have.
    pub(super) fn not_allowed(methods: &'static str) -> Self {
        Self::text(
            Status::MethodNotAllowed(methods),
            "not a method of this page",
        )
    }
}

/// Request, as far as the received bytes tell.
#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    Page(Request<'a>),
    Refused(Status),
    /// More bytes are needed.
    Unfinished,
}

/// Serves one connection, until the deadline at most. `pages` gets the address of the other end.
///
/// # Errors
/// The connection broke, or its deadline has passed.
pub(super) fn serve(
    stream: &TcpStream,
    clock: Clock,
    until: Moment,
    pages: impl FnOnce(&Request<'_>, IpAddr) -> Page,
) -> io::Result<()> {
    let mut timed = Timed {
        stream,
        clock,
        until,
    };
    let mut received = Vec::with_capacity(1024);
    loop {
        let (page, method) = match asked(&received) {
            Asked::Unfinished => {
                timed.receive(&mut received)?;
                continue;
            }
            Asked::Page(request) => {
                let peer = stream.peer_addr()?.ip();
                (pages(&request, peer), request.method)
            }
            Asked::Refused(Status::MethodNotAllowed(methods)) => {
                (Page::not_allowed(methods), Method::Get)
            }
            Asked::Refused(status) => (Page::text(status, "not a request for a page"), Method::Get),
        };
        return timed.send(&answer(&page, method));
    }
}

fn asked(received: &[u8]) -> Asked<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head_len = match request.parse(received) {
        Ok(httparse::Status::Complete(head_len)) => head_len,
        Ok(httparse::Status::Partial) if received.len() >= HEAD_MAX => {
            return Asked::Refused(Status::HeadTooLarge);
        }
        Ok(httparse::Status::Partial) => return Asked::Unfinished,
        Err(httparse::Error::TooManyHeaders) => return Asked::Refused(Status::HeadTooLarge),
        Err(_) => return Asked::Refused(Status::BadRequest),
    };
    let Some(method) = request.method.and_then(Method::parse) else {
        return Asked::Refused(Status::MethodNotAllowed(METHODS));
    };
    let body_len = match method {
        // Bodies of other methods have no meaning (RFC 9110, 9.3) and are left unread.
        Method::Get | Method::Head | Method::Options => Ok(0),
        Method::Post => body_len(request.headers),
    };
    let body_len = match body_len {
        Ok(body_len) => body_len,
        Err(status) => return Asked::Refused(status),
    };
    let behind = received.get(head_len..).unwrap_or_default();
    let Some(body) = behind.get(..body_len) else {
        return Asked::Unfinished;
    };
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Asked::Page(Request {
        method,
        path,
        query,
        body,
    })
}

/// Returns the length of a body; zero if no header announces one.
fn body_len(headers: &[httparse::Header<'_>]) -> Result<usize, Status> {
    let value = |name: &str| {
        let mut headers = headers.iter();
        headers.find(|header| header.name.eq_ignore_ascii_case(name))
    };
    if value("Transfer-Encoding").is_some() {
        return Err(Status::LengthRequired);
    }
    let Some(header) = value("Content-Length") else {
        return Ok(0);
    };
    let text = std::str::from_utf8(header.value).map_err(|_| Status::BadRequest)?;
    let length: usize = text.trim().parse().map_err(|_| Status::BadRequest)?;
    if length > BODY_MAX {
        return Err(Status::BodyTooLarge);
    }
    Ok(length)
}

fn answer(page: &Page, method: Method) -> Vec<u8> {
    // As Patroni does, OPTIONS answers with the status alone. HEAD tells the length of the body that GET would get.
    let (body, body_len) = match method {
        Method::Get | Method::Post => (&*page.body, page.body.len()),
        Method::Head => ("", page.body.len()),
        Method::Options => ("", 0),
    };
    let allow = match (page.status, method) {
        (Status::MethodNotAllowed(methods), _) => format!("Allow: {methods}\r\n"),
        (_, Method::Options) => format!("Allow: {METHODS}\r\n"),
        _ => String::new(),
    };
    let text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {body_len}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n{body}",
        page.status.line(),
        page.content_type,
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
    fn receive(&mut self, received: &mut Vec<u8>) -> io::Result<()> {
        self.stream.set_read_timeout(self.rest()?)?;
        let mut part = [0; 1024];
        let room = (HEAD_MAX + BODY_MAX).saturating_sub(received.len());
        let part = part.get_mut(..room.clamp(1, 1024)).unwrap_or_default();
        match self.stream.read(part)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                received.extend_from_slice(part.get(..count).unwrap_or_default());
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

    fn metrics(request: &Request<'_>, peer: IpAddr) -> Page {
        assert!(peer.is_loopback());
        match (request.path, request.only_reads()) {
            ("/metrics", true) => Page::text(Status::Ok, "weir_up 1"),
            ("/metrics", false) => Page::not_allowed(METHODS),
            ("/echo", _) => Page::text(Status::Ok, &String::from_utf8_lossy(request.body)),
            _ => Page::text(Status::NotFound, "missing"),
        }
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
    fn options_gets_the_status_alone() {
        let (line, body) = exchange(b"OPTIONS /metrics HTTP/1.0\r\n\r\n");
        assert_eq!((&*line, &*body), ("HTTP/1.1 200 OK", ""));
        let page = Page::text(Status::Ok, "weir_up 1");
        let text = String::from_utf8(answer(&page, Method::Options)).unwrap();
        assert!(text.contains("\r\nContent-Length: 0\r\n"), "{text}");
        assert!(text.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), "{text}");
    }

    #[test]
    fn only_a_post_has_a_body_and_its_length_is_bounded() {
        let post = |headers: &str, body: &str| {
            let text = format!("POST /echo HTTP/1.1\r\n{headers}\r\n\r\n{body}");
            exchange(text.as_bytes())
        };
        let (line, body) = post("content-length: 3", "abcdef");
        assert_eq!((&*line, &*body), ("HTTP/1.1 200 OK", "abc\n"));
        assert_eq!(post("A: b", "abc").1, "\n");
        assert!(post("Content-Length: 8193", "").0.contains("413"));
        assert!(post("Content-Length: -1", "").0.contains("400"));
        assert!(post("Transfer-Encoding: chunked", "").0.contains("411"));
        let get = b"GET /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(exchange(get).1, "\n");
    }

    #[test]
    fn what_is_no_request_for_a_page_is_refused() {
        let line = |request: &[u8]| exchange(request).0;
        assert!(line(b"POST /metrics HTTP/1.1\r\n\r\n").contains("405"));
        assert!(line(b"DELETE /metrics HTTP/1.1\r\n\r\n").contains("405"));
        assert!(line(b"\0\0\0\x08\x04\xd2\x16\x2f\r\n\r\n").contains("400"));
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HEAD_MAX));
        assert!(line(&long.as_bytes()[..HEAD_MAX]).contains("431"));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert!(line(many.as_bytes()).contains("431"));
    }

    #[test]
    fn any_cut_of_a_request_is_the_same_request() {
        let request = b"POST /v1/failover?host=a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        for cut in 1..request.len() {
            assert_eq!(asked(&request[..cut]), Asked::Unfinished, "{cut}");
        }
        let expected = Request {
            method: Method::Post,
            path: "/v1/failover",
            query: "host=a",
            body: b"abc",
        };
        assert_eq!(asked(request), Asked::Page(expected));
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
        let much = |_: &Request<'_>, _| Page::text(Status::Ok, &"x".repeat(64 * 1024 * 1024));
        let error = serve(&far, clock, until, much).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::TimedOut | ErrorKind::WouldBlock
        ));
    }
}
