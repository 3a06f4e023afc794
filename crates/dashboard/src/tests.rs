//! The listener over real sockets: every row of the table of threats, and the limits.

pub(crate) mod fake;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;

use self::fake::{Fake, table};
use crate::desk::{STREAMS_MAX, lock};
use crate::guard::CONTENT_SECURITY_POLICY;
use crate::serve::{Dashboard, HEAD_MAX, start};
use crate::source::Action;

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    fake: Arc<Fake>,
    at: SocketAddr,
    dashboard: Option<Dashboard>,
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(dashboard) = self.dashboard.take() {
            dashboard.stop();
        }
    }
}

/// Answer to a request.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Cookie that the answer sets, as a request sends it.
    fn cookie(&self) -> String {
        let cookie = self.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Token of the page's form.
    fn token(&self) -> String {
        let (_, rest) = self.body.split_once("name=\"token\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

impl World {
    fn new() -> Self {
        let fake = Arc::new(Fake::default());
        fake.set("STATE", table(&["key", "value"], &[&["paused", "no"]]));
        fake.set("DIAGNOSIS", table(&["severity", "condition"], &[]));
        fake.set(
            "DIGESTS",
            table(&["statement", "#calls"], &[&["SELECT secret", "1"]]),
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let source = Arc::clone(&fake);
        let dashboard = Some(start(vec![listener], source).unwrap());
        Self {
            fake,
            at,
            dashboard,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request with our Host, these headers and this body.
    fn send(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let host = format!("Host: {}", self.at);
        self.send_bare(line, &[&[&*host], headers].concat(), body)
    }

    fn send_bare(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        if !body.is_empty() {
            text.push_str("Content-Type: application/x-www-form-urlencoded\r\n");
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).unwrap();
        read(stream)
    }

    /// Signs in by the form; returns the header with the cookie.
    fn sign_in(&self, user: &str) -> String {
        let origin = format!("Origin: http://{}", self.at);
        let body = format!("user={user}&password={user}&next=%2Fpools");
        let answer = self.send("POST /login", &[&origin], &body);
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some("/pools"))
        );
        format!("Cookie: {}", answer.cookie())
    }

    /// Sends an action from a page with this cookie, with headers that replace those of an honest browser.
    fn act(&self, cookie: &str, headers: &[&str], body: &str) -> Answer {
        self.send("POST /act", &[&[cookie], headers].concat(), body)
    }
}

fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn basic(user: &str, password: &str) -> String {
    let text = format!("{user}:{password}");
    let encoded = base64::engine::general_purpose::STANDARD.encode(text);
    format!("Authorization: Basic {encoded}")
}

#[test]
fn a_foreign_host_is_misdirected_everywhere() {
    let world = World::new();
    let cookie = world.sign_in("ann");
    for line in [
        "GET /",
        "GET /stream?page=pools",
        "GET /api/tables/pools",
        "POST /act",
        "GET /assets/x",
        "GET /login",
    ] {
        for host in ["Host: evil.example", "Host: evil.example:80", "Host:"] {
            let answer = world.send_bare(line, &[host, &cookie], "");
            assert_eq!(answer.status, 421, "{line} {host}");
            assert!(answer.header("content-security-policy").is_some());
        }
    }
    let absolute = world.send("GET http://evil.example/login", &[], "");
    assert_eq!(absolute.status, 421);
    let own = format!("Host: {}", world.at);
    assert_eq!(
        world
            .send_bare("GET /login", &[&own, "Host: evil"], "")
            .status,
        421
    );
    lock(&world.fake.options)
        .hosts
        .push("weir.example".to_owned());
    let answer = world.send_bare("GET /login", &["Host: weir.example"], "");
    assert_eq!(answer.status, 200);
}

#[test]
fn every_answer_has_the_headers_and_no_answer_allows_other_origins() {
    let world = World::new();
    let cookie = world.sign_in("ann");
    let origin = "Origin: http://evil.example";
    for (line, status) in [
        ("GET /", 200),
        ("GET /login", 200),
        ("GET /absent", 404),
        ("GET /api/tables/digests", 200),
        ("OPTIONS /act", 405),
        ("GET /act", 405),
        ("GET /logout", 405),
    ] {
        let answer = world.send(line, &[&cookie, origin], "");
        assert_eq!(answer.status, status, "{line}");
        for (name, value) in [
            ("content-security-policy", CONTENT_SECURITY_POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{line}");
        }
        assert!(!answer.head.to_lowercase().contains("access-control"));
    }
}

#[test]
fn nobody_sees_anything_without_a_login() {
    let world = World::new();
    let answer = world.send("GET /clients?q=a%20b", &[], "");
    assert_eq!(answer.status, 303);
    assert_eq!(
        answer.header("location"),
        Some("/login?next=%2Fclients%3Fq%3Da%2520b")
    );
    for line in [
        "GET /stream?page=pools",
        "GET /api/page?page=pools",
        "GET /api/tables/digests",
        "GET /api/history",
        "GET /confirm?action=reload",
    ] {
        for header in ["A: b", "Cookie: weir=guess", &basic("ann", "wrong")] {
            world.fake.failures.store(0, Ordering::SeqCst);
            assert_eq!(
                world.send(line, &[header], "").status,
                401,
                "{line} {header}"
            );
        }
    }
    let script = world.send("GET /api/history", &[], "");
    assert!(script.header("www-authenticate").is_some());
    let browser = world.send("GET /api/history", &["Sec-Fetch-Site: same-origin"], "");
    assert_eq!(browser.header("www-authenticate"), None);
    assert_eq!(world.fake.fetches.load(Ordering::SeqCst), 0);
}

#[test]
fn a_login_from_another_site_or_with_a_wrong_password_is_refused() {
    let world = World::new();
    let body = "user=ann&password=ann";
    let foreign = world.send("POST /login", &["Origin: http://evil.example"], body);
    assert_eq!(foreign.status, 403);
    let foreign = world.send("POST /login", &["Sec-Fetch-Site: cross-site"], body);
    assert_eq!(foreign.status, 403);
    for user in ["ann", "nobody", "ann%00"] {
        let body = format!("user={user}&password=wrong");
        let wrong = world.send("POST /login", &[], &body);
        assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    }
    assert_eq!(world.send("POST /login", &[], body).status, 429);
}

#[test]
fn a_session_ends_with_its_logout_or_with_the_right_of_its_user() {
    let world = World::new();
    let cookie = world.sign_in("ann");
    let page = world.send("GET /pools", &[&cookie], "");
    assert_eq!(page.status, 200);
    let token = format!("token={}", page.token());
    let foreign = world.send("POST /logout", &[&cookie], "token=x");
    assert_eq!(foreign.status, 403);
    let gone = world.send("POST /logout", &[&cookie], &token);
    assert_eq!(
        (gone.status, gone.header("location")),
        (303, Some("/login"))
    );
    assert!(gone.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(world.send("GET /pools", &[&cookie], "").status, 303);
    let cookie = world.sign_in("bob");
    lock(&world.fake.removed).push("bob".to_owned());
    assert_eq!(world.send("GET /pools", &[&cookie], "").status, 303);
}

#[test]
fn readers_see_no_text_of_a_statement_and_may_not_act() {
    let world = World::new();
    lock(&world.fake.options).has_actions = true;
    let ann = world.sign_in("ann");
    let bob = world.sign_in("bob");
    for line in [
        "GET /statements",
        "GET /api/page?page=statements",
        "GET /api/tables/digests",
    ] {
        assert!(
            world.send(line, &[&ann], "").body.contains("SELECT secret"),
            "{line}"
        );
        assert!(
            !world.send(line, &[&bob], "").body.contains("secret"),
            "{line}"
        );
    }
    assert_eq!(
        world.send("GET /confirm?action=reload", &[&bob], "").status,
        403
    );
    let token = world.send("GET /", &[&bob], "").token();
    let origin = format!("Origin: http://{}", world.at);
    let body = format!("action=reload&token={token}");
    assert_eq!(world.act(&bob, &[&origin], &body).status, 403);
    assert!(lock(&world.fake.acts).is_empty());
}

#[test]
fn an_action_needs_the_option_the_origin_the_token_and_the_name() {
    let world = World::new();
    let cookie = world.sign_in("ann");
    let token = world.send("GET /", &[&cookie], "").token();
    let ours = format!("Origin: http://{}", world.at);
    let good = format!("action=pause&target=shop&typed=shop&token={token}");
    assert_eq!(
        world.act(&cookie, &[&ours], &good).status,
        403,
        "actions are off"
    );
    lock(&world.fake.options).has_actions = true;
    let no_token = "action=pause&target=shop&typed=shop";
    let untyped = format!("action=pause&target=shop&typed=&token={token}");
    let foreign = "Origin: http://evil.example";
    assert_eq!(world.act(&cookie, &[&ours], no_token).status, 403);
    assert_eq!(world.act(&cookie, &[&ours], &untyped).status, 403);
    assert_eq!(world.act(&cookie, &[foreign], &good).status, 403);
    assert_eq!(world.act(&cookie, &[], &good).status, 403, "no browser");
    assert_eq!(world.act("A: b", &[&ours], &good).status, 401);
    assert_eq!(world.send("GET /act", &[&cookie], "").status, 405);
    assert!(lock(&world.fake.acts).is_empty());
    let form = world.send("GET /confirm?action=pause&target=shop", &[&cookie], "");
    assert!(form.body.contains("PAUSE") && form.token() == token);
    assert_eq!(world.act(&cookie, &[&ours], &good).status, 200);
    let acts = lock(&world.fake.acts).clone();
    let [(action, who)] = acts.as_slice() else {
        panic!("{acts:?}")
    };
    assert_eq!(*action, Action::Pause("shop".to_owned()));
    assert_eq!((&*who.user, who.address), ("ann", ip()));
    let absent = format!("action=pause&target=absent&typed=absent&token={token}");
    assert_eq!(world.act(&cookie, &[&ours], &absent).status, 409);
}

fn ip() -> std::net::IpAddr {
    "127.0.0.1".parse().unwrap()
}

#[test]
fn a_script_acts_with_its_password_and_its_header() {
    let world = World::new();
    lock(&world.fake.options).has_actions = true;
    let password = basic("ann", "ann");
    let body = "action=kill_client&target=7";
    assert_eq!(world.act(&password, &[], body).status, 403);
    let answer = world.act(&password, &["X-Weir: 1"], body);
    assert_eq!(
        (answer.status, &*answer.body),
        (200, r#"{"command":"KILL_CLIENT 7","done":"done"}"#)
    );
    let cross = world.act(
        &password,
        &["X-Weir: 1", "Sec-Fetch-Site: cross-site"],
        body,
    );
    assert_eq!(cross.status, 403);
}

#[test]
fn names_from_outside_are_text() {
    let world = World::new();
    let hostile = "<img src=x onerror=alert(1)>\"'&";
    world.fake.set(
        "CLIENTS",
        table(
            &["#id", "application_name", "database", "user"],
            &[&["7", hostile, hostile, hostile]],
        ),
    );
    let cookie = world.sign_in("ann");
    for line in [
        "GET /clients",
        "GET /clients?q=%3Cimg%20x%22",
        "GET /pool?database=%3Cimg%3E&user=%22",
    ] {
        let page = world.send(line, &[&cookie], "");
        assert_eq!(page.status, 200);
        assert!(!page.body.contains("<img"), "{}", page.body);
    }
    let page = world.send("GET /clients", &[&cookie], "");
    assert!(page.body.contains("&lt;img src=x onerror=alert(1)&gt;"));
}

#[test]
fn assets_are_kept_for_ever_and_known_ones_are_not_sent() {
    let world = World::new();
    let cookie = world.sign_in("ann");
    let page = world.send("GET /pools", &[&cookie], "").body;
    let (_, rest) = page.split_once("/assets/style-").unwrap();
    let name = format!("style-{}", rest.split('"').next().unwrap());
    let line = format!("GET /assets/{name}");
    let plain = world.send(&line, &[], "");
    let caching = plain.header("cache-control").unwrap();
    assert!(caching.contains("immutable"), "{caching}");
    let small = world.send(&line, &["Accept-Encoding: gzip, br"], "");
    assert_eq!(small.header("content-encoding"), Some("gzip"));
    let etag = format!("If-None-Match: {}", plain.header("etag").unwrap());
    let known = world.send(&line, &[&etag], "");
    assert_eq!((known.status, &*known.body), (304, ""));
}

#[test]
fn a_long_head_or_body_is_refused() {
    let world = World::new();
    let long = format!("A: {}", "x".repeat(HEAD_MAX));
    assert_eq!(world.send("GET /login", &[&long], "").status, 431);
    let body = format!("user={}", "x".repeat(HEAD_MAX));
    assert_eq!(world.send("POST /login", &[], &body).status, 413);
}

/// Opens a stream and reads until its first message.
fn stream(world: &World, cookie: &str) -> (BufReader<TcpStream>, String) {
    let mut stream = world.connect();
    let head = format!(
        "GET /stream?page=clients HTTP/1.1\r\nHost: {}\r\n{cookie}\r\n\r\n",
        world.at
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    while !text.contains("data: ") {
        assert!(reader.read_line(&mut text).unwrap() > 0, "{text}");
    }
    (reader, text)
}

#[test]
fn streams_are_bounded_and_leave_room_for_pages() {
    let world = World::new();
    let cookie = world.sign_in("ann");
    let streams: Vec<_> = (0..STREAMS_MAX).map(|_| stream(&world, &cookie)).collect();
    for (_, text) in &streams {
        assert!(text.contains("content-type: text/event-stream"), "{text}");
        assert!(text.contains("connection: close"), "{text}");
        assert!(
            text.contains("retry: 2000") && text.contains("id: 0"),
            "{text}"
        );
    }
    let one_more = world.send("GET /stream?page=clients", &[&cookie], "");
    assert_eq!(one_more.status, 204);
    assert_eq!(
        world
            .send("GET /api/page?page=clients", &[&cookie], "")
            .status,
        200
    );
    let page = world.send("GET /", &[&cookie], "");
    assert_eq!(page.status, 200);
}

#[test]
fn a_stream_ends_with_the_right_of_its_user() {
    let world = World::new();
    let cookie = world.sign_in("bob");
    let (mut reader, _) = stream(&world, &cookie);
    lock(&world.fake.removed).push("bob".to_owned());
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
}

#[test]
fn a_stop_ends_streams_and_frees_the_address() {
    let mut world = World::new();
    let cookie = world.sign_in("ann");
    let (mut reader, _) = stream(&world, &cookie);
    world.dashboard.take().unwrap().stop();
    let mut rest = Vec::new();
    // The end may come as a reset.
    let _ = reader.read_to_end(&mut rest);
    assert!(TcpStream::connect(world.at).is_err());
}

#[test]
fn a_page_says_that_figures_are_missing() {
    let world = World::new();
    let cookie = world.sign_in("ann");
    let page = world.send("GET /applications", &[&cookie], "").body;
    assert!(page.contains("needs SHOW APPLICATIONS"), "{page}");
    *lock(&world.fake.failure) = Some("1 of 2 workers answered".to_owned());
    let page = world.send("GET /limits", &[&cookie], "").body;
    assert!(
        page.contains("No figures: 1 of 2 workers answered"),
        "{page}"
    );
}
