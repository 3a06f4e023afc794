//! Tests of sources against small servers on loopback, whose answers the tests choose.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crossbeam_channel::{Receiver, Sender, bounded};
use weir_auth::userlist::UserList;
use weir_tls::web;

use super::*;
use crate::driver::Wake;
use crate::settled::{Access, Setup};
use crate::transport::Transport;

mod sql;

/// Time after which a test fails.
const LIMIT: Duration = Duration::from_secs(20);

/// Waker that passes each wakeup to a test.
#[derive(Debug)]
struct Wakeups(Sender<()>);

impl Wake for Wakeups {
    fn wake(&self) -> io::Result<()> {
        let _ = self.0.send(());
        Ok(())
    }
}

fn clusters() -> (Clusters, Receiver<()>) {
    let clusters = Clusters::default();
    let (sender, wakeups) = bounded(64);
    clusters.wakeup().set(Arc::new(Wakeups(sender)));
    (clusters, wakeups)
}

/// Server whose answers a closure writes. It gets the first line, all headers and the body of each request.
struct Fake {
    address: String,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    fn start(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::serve(move |mut stream| {
            if let Ok(request) = request(&mut stream) {
                answer(&request, &mut stream);
            }
        })
    }

    /// Answers each request with this page, in TLS.
    fn secure(config: rustls::ServerConfig, body: String) -> Self {
        let config = Arc::new(config);
        let mut fake = Self::serve(move |stream| {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            if request(&mut stream).is_ok() {
                page(&mut stream, 200, &body);
            }
        });
        fake.address = fake.address.replace("http:", "https:");
        fake
    }

    fn serve(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = bind();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, serve) = (Arc::clone(&is_over), Arc::new(serve));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let serve = Arc::clone(&serve);
                // Ends with its connection, which the client closes in the end.
                thread::spawn(move || {
                    let stream = stream.unwrap();
                    stream.set_read_timeout(Some(LIMIT)).unwrap();
                    serve(stream);
                });
            }
        });
        Self {
            address,
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address.split_once("://").unwrap().1);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok());
    }
}

/// Listens below the ports that the kernel gives to clients: a refused port stays refused.
fn bind() -> TcpListener {
    let start = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let mut ports = (start..32_000).chain(20_000..start);
    let bound = ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    bound.expect("a free port")
}

fn request(stream: &mut impl Read) -> io::Result<String> {
    let mut reader = BufReader::new(stream);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        text += &line;
        if line.trim_end().is_empty() {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(text + std::str::from_utf8(&body).unwrap())
}

fn page(stream: &mut impl Write, status: u16, body: &str) {
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

/// Waits until the client closes the connection.
fn stay_silent(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0]);
}

fn spec(tool: HintTool, servers: &[&str], followers: &[(&str, &Arc<Cluster>)]) -> SourceSpec {
    let key = match tool {
        HintTool::Etcd => "/service/main/leader".to_owned(),
        HintTool::Repmgr => "repmgr".to_owned(),
        HintTool::AutoFailover => "pg_auto_failover/default/0".to_owned(),
        HintTool::Patroni => String::new(),
    };
    let follower = |(database, cluster): &(&str, &Arc<Cluster>)| Follower {
        database: (*database).into(),
        cluster: Arc::clone(cluster),
        reporter: None,
    };
    SourceSpec {
        source: HintSource {
            tool,
            servers: servers.iter().map(|&server| server.to_owned()).collect(),
            key,
        },
        user: String::new(),
        password: Secret::default(),
        roots: HintRoots::default(),
        followers: followers.iter().map(follower).collect(),
    }
}

fn members(leader: &str, timeline: u32) -> String {
    format!(r#"{{"members": [{{"name": "{leader}", "role": "leader", "timeline": {timeline}}}]}}"#)
}

/// Waits until a fact holds.
fn wait_until(fact: impl Fn() -> bool) {
    for _ in 0..LIMIT.as_millis() {
        if fact() {
            return;
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("it does not come true");
}

#[test]
fn another_leader_or_timeline_of_patroni_has_all_hosts_probed() {
    let says = Arc::new(Mutex::new(members("n0", 1)));
    let (sender, requests) = bounded(64);
    let answers = Arc::clone(&says);
    let patroni = Fake::start(move |request, stream| {
        let _ = sender.send(request.to_owned());
        page(stream, 200, &answers.lock().unwrap());
    });
    let (clusters, wakeups) = clusters();
    let cluster = clusters.of("shop");
    let mut spec = spec(
        HintTool::Patroni,
        &[&patroni.address],
        &[("shop", &cluster)],
    );
    spec.user = "weir".to_owned();
    spec.password = Secret::new("hunter2");
    let sources = Sources::default();
    sources.settle(vec![spec]).unwrap();
    for _ in 0..2 {
        let request = requests.recv_timeout(LIMIT).unwrap();
        assert!(request.starts_with("GET /cluster HTTP/1.1"), "{request}");
        let request = request.to_ascii_lowercase();
        // weir:hunter2
        let login = "authorization: basic d2vpcjpodw50zxiy";
        assert!(request.contains(login), "{request}");
    }
    assert!(wakeups.is_empty(), "the first answers are no news");
    for (leader, timeline) in [("n1", 1), ("n1", 2)] {
        *says.lock().unwrap() = members(leader, timeline);
        wakeups.recv_timeout(LIMIT).unwrap();
        assert!(cluster.take_suspicion());
    }
    sources.stop();
}

#[test]
fn a_change_of_the_key_in_etcd_is_heard_at_once() {
    let (lines, told) = bounded::<String>(4);
    let etcd = Fake::start(move |request, stream| {
        let is_logged_in = request
            .to_ascii_lowercase()
            .contains("authorization: t0ken");
        let key = "L3NlcnZpY2UvbWFpbi9sZWFkZXI=";
        if request.starts_with("POST /v3/auth/authenticate ") {
            assert!(
                request.ends_with(r#"{"name":"weir","password":"hunter2"}"#),
                "{request}"
            );
            page(stream, 200, r#"{"header":{},"token":"t0ken"}"#);
        } else if !is_logged_in {
            page(stream, 401, "");
        } else if request.starts_with("POST /v3/kv/range ") {
            assert!(request.contains(key), "{request}");
            page(
                stream,
                200,
                r#"{"header":{"revision":"7"},"kvs":[{"create_revision":"3","mod_revision":"5","value":"bjA="}],"count":"1"}"#,
            );
        } else {
            assert!(request.starts_with("POST /v3/watch "), "{request}");
            assert!(request.contains(key), "{request}");
            assert!(request.contains(r#""start_revision":"8""#), "{request}");
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let created = r#"{"result":{"header":{"revision":"7"},"created":true}}"#.to_owned();
            for line in std::iter::once(created).chain(told.iter()) {
                let _ = write!(stream, "{:x}\r\n{line}\n\r\n", line.len() + 1);
            }
            stay_silent(stream);
        }
    });
    let (clusters, wakeups) = clusters();
    let cluster = clusters.of("shop");
    let mut spec = spec(HintTool::Etcd, &[&etcd.address], &[("shop", &cluster)]);
    spec.user = "weir".to_owned();
    spec.password = Secret::new("hunter2");
    let sources = Sources::default();
    sources.settle(vec![spec]).unwrap();
    for line in [
        r#"{"result":{"events":[{"type":"DELETE","kv":{"mod_revision":"8"}}]}}"#,
        r#"{"result":{"events":[{"kv":{"create_revision":"9","mod_revision":"9","value":"bjE="}}]}}"#,
    ] {
        assert!(wakeups.is_empty());
        lines.send(line.to_owned()).unwrap();
        wakeups.recv_timeout(LIMIT).unwrap();
        assert!(cluster.take_suspicion());
    }
    // The same state is no news.
    let again = r#"{"result":{"events":[{"kv":{"create_revision":"9","mod_revision":"10","value":"bjE="}}]}}"#;
    lines.send(again.to_owned()).unwrap();
    wait_until(|| lines.is_empty());
    let waited = wakeups.recv_timeout(NEWS_PAUSE);
    assert!(waited.is_err());
    sources.stop();
}

/// Gives all followers of a source a fence.
fn fence(spec: &mut SourceSpec) {
    for follower in &mut spec.followers {
        let cluster = Arc::clone(&follower.cluster);
        follower.reporter = Some(Arc::new(LeaderReporter::new(cluster)));
    }
}

/// Returns the leader that a cluster knows of, as `SHOW HOSTS` shows hosts. `none` if a source says that there is none.
fn leader(cluster: &Cluster) -> Option<String> {
    let report = cluster.leader(crate::clock::machine_us())?;
    let none = || "none".to_owned();
    Some(report.host.map_or_else(none, |host| host.to_string()))
}

#[test]
fn the_leader_of_a_database_with_a_fence_is_reported_until_its_source_fails() {
    let member = |role: &str| {
        format!(r#"{{"name": "n0", "role": "{role}", "host": "10.0.0.1", "port": 5433}}"#)
    };
    let says = Arc::new(Mutex::new((200, member("leader"))));
    let answers = Arc::clone(&says);
    let patroni = Fake::start(move |_, stream| {
        let (status, members) = answers.lock().unwrap().clone();
        page(stream, status, &format!(r#"{{"members": [{members}]}}"#));
    });
    let (clusters, _wakeups) = clusters();
    let (fenced, open) = (clusters.of("shop"), clusters.of("mail"));
    let followers = [("shop", &fenced), ("mail", &open)];
    let mut spec = spec(HintTool::Patroni, &[&patroni.address], &followers);
    fence(&mut spec);
    spec.followers[1].reporter = None;
    let sources = Sources::default();
    sources.settle(vec![spec]).unwrap();
    let expected = Some("10.0.0.1:5433".to_owned());
    wait_until(|| leader(&fenced) == expected);
    assert_eq!(leader(&open), None, "without a fence");
    // Each answer confirms it, and the age of an answer is that of its question.
    let first = fenced.leader(0).unwrap().asked_us;
    wait_until(|| {
        fenced
            .leader(0)
            .is_some_and(|it| it.asked_us > first + 900_000)
    });
    assert_eq!(leader(&fenced), expected);
    *says.lock().unwrap() = (200, member("replica"));
    wait_until(|| leader(&fenced).as_deref() == Some("none"));
    *says.lock().unwrap() = (200, member("leader"));
    wait_until(|| leader(&fenced) == expected);
    *says.lock().unwrap() = (503, String::new());
    wait_until(|| leader(&fenced).is_none());
    *says.lock().unwrap() = (200, member("leader"));
    wait_until(|| leader(&fenced) == expected);
    sources.stop();
    assert_eq!(leader(&fenced), None, "a source that is not read any more");
}

#[test]
fn the_leader_in_etcd_gets_its_address_from_its_member_for_a_fence_only() {
    let (lines, told) = bounded::<String>(4);
    let leader_value = Arc::new(Mutex::new("bjA="));
    let values = Arc::clone(&leader_value);
    let (sender, keys) = bounded(64);
    let watches = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&watches);
    let etcd = Fake::start(move |request, stream| {
        let range = |value: &str| {
            format!(
                r#"{{"header":{{"revision":"7"}},"kvs":[{{"create_revision":"3","value":"{value}"}}]}}"#
            )
        };
        let key = |name: &str| BASE64_STANDARD.encode(format!("/service/main/{name}"));
        if request.starts_with("POST /v3/watch ") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            // The last watch gets the lines.
            while count.load(Ordering::SeqCst) == number {
                if let Ok(line) = told.recv_timeout(Duration::from_millis(5)) {
                    let _ = write!(stream, "{:x}\r\n{line}\n\r\n", line.len() + 1);
                }
            }
        } else if request.contains(&key("leader")) {
            page(stream, 200, &range(&values.lock().unwrap()));
        } else if request.contains(&key("members/n0")) {
            let _ = sender.send("n0");
            let member = r#"{"conn_url":"postgres://10.0.0.1:5433/postgres","role":"master"}"#;
            page(stream, 200, &range(&BASE64_STANDARD.encode(member)));
        } else {
            // A member without a key.
            let _ = sender.send("other");
            page(stream, 200, r#"{"header":{"revision":"7"}}"#);
        }
    });
    let (clusters, wakeups) = clusters();
    let cluster = clusters.of("shop");
    let open = spec(HintTool::Etcd, &[&etcd.address], &[("shop", &cluster)]);
    let mut fenced = open.clone();
    fence(&mut fenced);
    let sources = Sources::default();
    sources.settle(vec![fenced.clone()]).unwrap();
    let expected = Some("10.0.0.1:5433".to_owned());
    wait_until(|| leader(&cluster) == expected);
    // A quiet watch is no confirmation; the next read is.
    let first = cluster.leader(0).unwrap().asked_us;
    wait_until(|| cluster.leader(0).is_some_and(|it| it.asked_us > first));
    // Another leader, whose address is not known. The watch says so at once.
    *leader_value.lock().unwrap() = "bjE=";
    let put = r#"{"result":{"events":[{"kv":{"create_revision":"9","value":"bjE="}}]}}"#;
    lines.send(put.to_owned()).unwrap();
    wait_until(|| leader(&cluster).is_none());
    wait_until(|| cluster.take_suspicion());
    *leader_value.lock().unwrap() = "bjA=";
    lines.send(put.to_owned()).unwrap();
    wait_until(|| leader(&cluster) == expected);
    sources.stop();
    assert_eq!(leader(&cluster), None);
    // Without a fence nothing but the leader's key is read.
    while keys.try_recv().is_ok() {}
    while wakeups.try_recv().is_ok() {}
    cluster.take_suspicion();
    assert!(!open.continues(&fenced) && open.continues(&open.clone()));
    let before = watches.load(Ordering::SeqCst);
    sources.settle(vec![open]).unwrap();
    wait_until(|| watches.load(Ordering::SeqCst) > before);
    wait_until(|| {
        // The watch before may take a line with it to its end.
        let _ = lines.try_send(put.to_owned());
        cluster.take_suspicion()
    });
    assert!(keys.is_empty());
    assert_eq!(leader(&cluster), None);
    sources.stop();
    // Ends the last watch.
    watches.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_panic_of_a_source_withdraws_its_leader() {
    struct Bad;
    impl Source for Bad {
        fn read(&mut self, _: &str, heard: &mut dyn FnMut(State)) -> Result<(), Failure> {
            heard(State {
                text: "n0 is the leader".to_owned(),
                leader: Some(LeaderReport {
                    host: weir_config::HostPoint::parse("10.0.0.1:5432").ok(),
                    asked_us: crate::clock::machine_us(),
                }),
            });
            panic!("as the test wants it");
        }
    }
    let (clusters, wakeups) = clusters();
    let cluster = clusters.of("shop");
    let mut spec = spec(HintTool::Patroni, &["a:1"], &[("shop", &cluster)]);
    fence(&mut spec);
    let (_stop, stopped) = bounded(0);
    let reader = Reader::new(spec, stopped);
    assert!(thread::spawn(move || reader.run(&mut Bad)).join().is_err());
    assert_eq!(wakeups.len(), 2, "reported and withdrawn");
    assert_eq!(leader(&cluster), None);
}

#[test]
fn servers_that_fail_are_passed_over() {
    let closed = bind();
    let closed_address = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let garbage = Fake::start(|_, stream| page(stream, 200, "<html>"));
    let error = Fake::start(|_, stream| page(stream, 503, &members("no", 1)));
    let moved = Fake::start(|_, stream| page(stream, 302, &members("no", 1)));
    let rude = Fake::start(|_, stream| {
        let _ = stream.write_all(b"220 smtp.example\r\n");
    });
    let (sender, asked) = bounded(1);
    let good = Fake::start(move |_, stream| {
        let _ = sender.send(());
        page(stream, 200, &members("n0", 1));
    });
    let servers = [
        &*closed_address,
        &garbage.address,
        &error.address,
        &moved.address,
        &rude.address,
        &good.address,
    ];
    let (clusters, wakeups) = clusters();
    let cluster = clusters.of("shop");
    let sources = Sources::default();
    let spec = spec(HintTool::Patroni, &servers, &[("shop", &cluster)]);
    sources.settle(vec![spec]).unwrap();
    asked.recv_timeout(LIMIT).unwrap();
    assert!(wakeups.is_empty(), "failures are no news");
    sources.stop();
}

#[test]
fn a_silent_server_is_given_up_and_holds_nobody_up() {
    let (sender, asked) = bounded(8);
    let silent = Fake::start(move |_, stream| {
        let _ = sender.send(());
        stay_silent(stream);
    });
    let failure = Http::new(&[]).get(&silent.address, "/cluster", None);
    let failure = failure.unwrap_err().to_string();
    assert!(failure.starts_with("timeout"), "{failure}");
    asked.recv_timeout(LIMIT).unwrap();
    let (clusters, _wakeups) = clusters();
    let cluster = clusters.of("shop");
    let spec = spec(HintTool::Patroni, &[&silent.address], &[("shop", &cluster)]);
    let sources = Sources::default();
    sources.settle(vec![spec]).unwrap();
    asked.recv_timeout(LIMIT).unwrap();
    let holders = Arc::strong_count(&cluster);
    sources.stop();
    // The thread lets its cluster go long before the time limit of the answer.
    let begin = crate::clock::machine_us();
    wait_until(|| Arc::strong_count(&cluster) < holders - 1);
    let waited = crate::clock::machine_us() - begin;
    assert!(waited < 1_000_000, "{waited} us");
}

/// Returns settings for a server at this name, and its certificate in DER.
fn certificate(name: &str) -> (rustls::ServerConfig, Vec<u8>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let private = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = rustls::ServerConfig::builder_with_provider(web::cryptography())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    (config, certificate.der().to_vec())
}

#[test]
fn a_server_with_https_needs_a_certificate_of_the_right_authority() {
    // As failover_hints_ca_file has them.
    let (config, own) = certificate("127.0.0.1");
    let (elsewhere, of_elsewhere) = certificate("10.0.0.1");
    let patroni = Fake::secure(config, members("n0", 1));
    let impostor = Fake::secure(elsewhere, members("n0", 1));
    let get =
        |fake: &Fake, roots: &[Vec<u8>]| Http::new(roots).get(&fake.address, "/cluster", None);
    let answer = get(&patroni, &[of_elsewhere.clone(), own.clone()]).unwrap();
    assert_eq!(answer, members("n0", 1).into_bytes());
    for (fake, roots) in [
        (&patroni, vec![]),
        (&patroni, vec![of_elsewhere.clone()]),
        (&impostor, vec![own]),
        // A right authority, and a wrong name.
        (&impostor, vec![of_elsewhere]),
    ] {
        let failure = get(fake, &roots).unwrap_err().to_string();
        assert!(failure.contains("certificate"), "{failure}");
    }
}

#[test]
fn answers_have_a_largest_size() {
    let size = 64 << 10;
    let large = Fake::start(move |request, stream| {
        let more = usize::from(request.contains("/more"));
        page(stream, 200, &"x".repeat(size + more));
    });
    let http = Http::new(&[]);
    assert_eq!(http.get(&large.address, "/", None).unwrap().len(), size);
    let failure = http.get(&large.address, "/more", None).unwrap_err();
    assert!(failure.to_string().contains("larger"), "{failure}");
    // An answer without an end, and a head without one.
    let endless = Fake::start(|request, stream| {
        let start: &[u8] = match request.contains("/head") {
            true => b"HTTP/1.1 200 OK\r\nA: ",
            false => b"HTTP/1.1 200 OK\r\n\r\n",
        };
        let _ = stream.write_all(start);
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let failure = http.get(&endless.address, "/", None).unwrap_err();
    assert!(failure.to_string().contains("larger"), "{failure}");
    assert!(http.get(&endless.address, "/head", None).is_err());
    let mut lines = http
        .stream(&endless.address, "/", None, "{}", LIMIT)
        .unwrap();
    let failure = lines.next().unwrap_err();
    assert!(matches!(failure, Failure::LongLine), "{failure}");
}

#[test]
fn a_source_is_told_to_be_lost_once_and_tried_less_and_less() {
    let (_stop, stopped) = bounded(0);
    let spec = spec(HintTool::Patroni, &["a:1", "b:1"], &[]);
    let mut reader = Reader::new(spec, stopped);
    let failed = |reader: &mut Reader| reader.failed("a:1", &Failure::Ended);
    assert_eq!(failed(&mut reader), Duration::ZERO, "b is tried at once");
    assert!(!reader.is_lost);
    assert_eq!(failed(&mut reader), RETRY_MIN);
    assert!(reader.is_lost);
    assert_eq!(failed(&mut reader), Duration::ZERO);
    assert_eq!(failed(&mut reader), RETRY_MIN * 2);
    reader.heard("a:1", State::new("one".to_owned()));
    assert!(!reader.is_lost);
    assert_eq!(failed(&mut reader), Duration::ZERO);
    assert_eq!(failed(&mut reader), RETRY_MIN);
    for rounds in [6, 100, usize::MAX] {
        assert_eq!(retry_pause(rounds), RETRY_MAX);
    }
}

/// Settles these databases, each with two hosts.
fn settled(databases: &str) -> Settled {
    let text = format!(
        "[databases]\n{databases}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\n\
         auth_file = users\nwatch_user = ann\n"
    );
    let mut read = |_: &Path| Ok(text.clone());
    let loaded = weir_config::load("weir.ini".as_ref(), &mut read, std::iter::empty());
    let setup = Setup {
        settings: Arc::new(loaded.unwrap().settings),
        users: Arc::new(UserList::parse(b"\"ann\" \"listed\"\n").unwrap()),
        access: Access::default(),
        transport: Arc::new(Transport::default()),
    };
    Settled::new(setup, None)
}

#[test]
fn databases_with_equal_sources_share_a_thread_and_a_reload_changes_only_the_others() {
    let two = "host=10.0.0.1 replicas=10.0.0.2";
    // Nobody listens there.
    let hints = "failover_hints=patroni:http://127.0.0.1:1,http://127.0.0.1:2";
    let login = "failover_hints_user=u failover_hints_password=p";
    let (clusters, _wakeups) = clusters();
    let read = |databases: &str| specs(&settled(databases), &clusters);
    assert!(read(&format!("shop = {two}")).is_empty());
    let first = read(&format!(
        "a = {two} {hints}\nb = {two} {hints}\nc = {two} {hints} {login}\nd = {two}\n\
         * = {two} watch_dbname=postgres failover_hints=etcd:http://127.0.0.1:1/service/main"
    ));
    let followers = |spec: &SourceSpec| {
        let names = spec.followers.iter().map(|it| it.database.to_string());
        names.collect::<Vec<_>>().join(" ")
    };
    let names: Vec<_> = first.iter().map(followers).collect();
    assert_eq!(names, ["*", "a b", "c"]);
    assert_eq!(first[2].user, "u");
    assert_eq!(
        first[1].to_string(),
        "patroni at http://127.0.0.1:1, http://127.0.0.1:2"
    );
    let sources = Sources::default();
    sources.settle(Vec::new()).unwrap();
    assert_eq!(sources.count(), 0);
    sources.settle(first).unwrap();
    assert_eq!(sources.count(), 3);
    let before = sources.threads();
    let second = read(&format!(
        "a = {two} {hints}\nb = {two} {hints}\nc = {two} {hints}\n"
    ));
    assert_eq!(second.len(), 1);
    sources.settle(second.clone()).unwrap();
    assert_eq!(sources.count(), 1);
    let changed = sources.threads();
    assert!(!before.contains(&changed[0]), "it has one more database");
    sources.settle(second).unwrap();
    assert_eq!(sources.threads(), changed);
    sources.stop();
    assert_eq!(sources.count(), 0);
}
