//! Sources that are databases, against a server whose login and answers the tests choose.

use std::sync::atomic::AtomicUsize;

use weir_auth::kdf::{KdfRequest, ScramKeys, derive};
use weir_auth::scram::{ChannelBinding, Nonce, ScramServer};
use weir_auth::stored::ScramVerifier;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};

use super::*;
use crate::blocking::{Client, ClientError, Login, Proof};
use crate::hints::sql::{self, Sql};

/// Way in which a server asks for the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Nothing,
    ClearText,
    Md5,
    Scram,
}

/// Server's side of a connection.
struct Peer<'a> {
    stream: &'a mut TcpStream,
    input: Vec<u8>,
}

impl Peer<'_> {
    /// Reads the start-up packet, and returns its parameters with NULs between them.
    fn startup(&mut self) -> io::Result<String> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        self.stream.read_exact(&mut body)?;
        Ok(String::from_utf8_lossy(&body[4..]).into_owned())
    }

    /// Returns the body of the next message.
    fn message(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(found) = frame(&self.input, Side::Frontend).unwrap() {
                let (body, len) = (found.body.to_vec(), found.raw.len());
                self.input.drain(..len);
                return Ok(body);
            }
            let mut buffer = [0; 1024];
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.input.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut out = Vec::new();
        write(&mut out);
        self.stream.write_all(&out)
    }

    /// Lets the client in if its password is `hunter2`, which it may not send where nothing is asked.
    fn log_in(&mut self, asks: Asks) -> io::Result<String> {
        let parameters = self.startup()?;
        match asks {
            Asks::Nothing => {}
            Asks::ClearText => {
                self.send(|out| encode::authentication_cleartext(out).unwrap())?;
                assert_eq!(self.message()?, b"hunter2\0");
            }
            Asks::Md5 => {
                self.send(|out| encode::authentication_md5(out, [1, 2, 3, 4]).unwrap())?;
                assert!(self.message()?.starts_with(b"md5"));
            }
            Asks::Scram => self.scram()?,
        }
        // All in one packet, as PostgreSQL does.
        self.send(|out| {
            encode::authentication_ok(out).unwrap();
            encode::parameter_status(out, b"server_version", b"15.3").unwrap();
            encode::backend_key_data(out, 1, &[1, 2, 3, 4]).unwrap();
            encode::ready_for_query(out, TransactionStatus::Idle).unwrap();
        })?;
        Ok(parameters)
    }

    fn scram(&mut self) -> io::Result<()> {
        let salt = vec![7; 16];
        let request = KdfRequest::new(&"hunter2".into(), salt.clone(), 4096);
        let keys = ScramKeys::from_salted(&derive(&request));
        let verifier = ScramVerifier::from_keys(&keys, salt.clone(), 4096);
        let nonce = Nonce::from_random([9; 18]);
        let mut server = ScramServer::new(salt, 4096, nonce, ChannelBinding::None);
        self.send(|out| encode::authentication_sasl(out, &[b"SCRAM-SHA-256"]).unwrap())?;
        let first = self.message()?;
        // Name of the mechanism, NUL and the length of the text come before it.
        let text = &first["SCRAM-SHA-256".len() + 5..];
        let answer = server.handle_first(text).unwrap();
        self.send(|out| encode::authentication_sasl_continue(out, &answer).unwrap())?;
        let proof = server.handle_final(&self.message()?).unwrap();
        let accepted = proof.check(&verifier).unwrap();
        self.send(|out| encode::authentication_sasl_final(out, &accepted.server_final).unwrap())
    }

    /// Reads a query, and returns its text.
    fn query(&mut self) -> io::Result<String> {
        let body = self.message()?;
        Ok(String::from_utf8_lossy(&body[..body.len() - 1]).into_owned())
    }

    fn rows(&mut self, rows: &[Vec<&str>]) -> io::Result<()> {
        self.send(|out| {
            for row in rows {
                let row: Vec<_> = row.iter().map(|value| Some(value.as_bytes())).collect();
                encode::data_row(out, &row).unwrap();
            }
            encode::command_complete(out, b"SELECT").unwrap();
            encode::ready_for_query(out, TransactionStatus::Idle).unwrap();
        })
    }

    fn error(&mut self, message: &str) -> io::Result<()> {
        let fields = [
            (b'S', &b"ERROR"[..]),
            (b'C', b"42P01"),
            (b'M', message.as_bytes()),
        ];
        self.send(|out| encode::error_response(out, &fields).unwrap())
    }
}

/// Starts a server that follows a script on each connection, until the client leaves.
fn server(
    script: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> (Fake, String) {
    let fake = Fake::serve(move |mut stream| {
        let input = Vec::new();
        let stream = &mut stream;
        let _ = script(&mut Peer { stream, input });
    });
    let address = fake.address.replace("http:", "postgresql:");
    (fake, address)
}

fn login() -> Option<(String, Secret)> {
    Some(("weir".to_owned(), Secret::new("hunter2")))
}

fn sql_spec(tool: HintTool, server: &[&str], cluster: &Arc<Cluster>) -> SourceSpec {
    let mut spec = spec(tool, server, &[("shop", cluster)]);
    (spec.user, spec.password) = login().unwrap();
    spec
}

#[test]
fn another_primary_of_repmgr_has_all_hosts_probed() {
    let says = Arc::new(Mutex::new("n0"));
    let logins = Arc::new(AtomicUsize::new(0));
    let (names, count) = (Arc::clone(&says), Arc::clone(&logins));
    let (sender, asked) = bounded(64);
    let (_fake, address) = server(move |peer| {
        count.fetch_add(1, Ordering::SeqCst);
        let parameters = peer.log_in(Asks::Scram)?;
        assert!(
            parameters.starts_with("user\0weir\0database\0repmgr\0"),
            "{parameters}"
        );
        loop {
            let query = peer.query()?;
            assert!(query.contains("FROM repmgr.nodes"), "{query}");
            let name = *names.lock().unwrap();
            peer.rows(&[vec![name]])?;
            let _ = sender.send(());
        }
    });
    let (clusters, wakeups) = clusters();
    let cluster = clusters.of("shop");
    let sources = Sources::default();
    let spec = sql_spec(HintTool::Repmgr, &[&address], &cluster);
    sources.settle(vec![spec]).unwrap();
    for _ in 0..2 {
        asked.recv_timeout(LIMIT).unwrap();
    }
    assert!(wakeups.is_empty(), "the first answers are no news");
    *says.lock().unwrap() = "n1";
    wakeups.recv_timeout(LIMIT).unwrap();
    assert!(cluster.take_suspicion());
    assert_eq!(logins.load(Ordering::SeqCst), 1, "a connection is kept");
    sources.stop();
}

#[test]
fn another_state_at_the_monitor_of_pg_auto_failover_has_all_hosts_probed() {
    let says = Arc::new(Mutex::new(("primary", "secondary")));
    let states = Arc::clone(&says);
    let (sender, asked) = bounded(64);
    let (_fake, address) = server(move |peer| {
        let parameters = peer.log_in(Asks::Nothing)?;
        assert!(
            parameters.contains("database\0pg_auto_failover\0"),
            "{parameters}"
        );
        loop {
            let query = peer.query()?;
            let place = "formationid = 'default' AND groupid = 0 ";
            assert!(query.contains(place), "{query}");
            let (one, two) = *states.lock().unwrap();
            peer.rows(&[vec!["n1", one, one], vec!["n2", two, two]])?;
            let _ = sender.send(());
        }
    });
    let (clusters, wakeups) = clusters();
    let cluster = clusters.of("shop");
    let sources = Sources::default();
    let spec = sql_spec(HintTool::AutoFailover, &[&address], &cluster);
    sources.settle(vec![spec]).unwrap();
    for _ in 0..2 {
        asked.recv_timeout(LIMIT).unwrap();
    }
    assert!(wakeups.is_empty(), "the first answers are no news");
    for states in [
        ("demote_timeout", "stop_replication"),
        ("demoted", "wait_primary"),
    ] {
        *says.lock().unwrap() = states;
        wakeups.recv_timeout(LIMIT).unwrap();
        assert!(cluster.take_suspicion());
    }
    sources.stop();
}

#[test]
fn a_password_is_shown_to_no_server_on_another_machine() {
    let proof = |peer: &str| sql::proof(peer.parse().unwrap());
    for peer in ["127.0.0.1:5432", "[::1]:5432", "[::ffff:127.0.0.1]:5432"] {
        assert_eq!(proof(peer), Proof::Any);
    }
    for peer in [
        "10.0.0.1:5432",
        "[fe80::1]:5432",
        "[::ffff:10.0.0.1]:5432",
        "0.0.0.0:5432",
    ] {
        assert_eq!(proof(peer), Proof::Scram);
    }
    for asks in [Asks::ClearText, Asks::Md5] {
        let (sender, heard) = bounded(1);
        let (_fake, address) = server(move |peer| {
            peer.startup()?;
            peer.send(|out| match asks {
                Asks::Md5 => encode::authentication_md5(out, [1, 2, 3, 4]).unwrap(),
                _ => encode::authentication_cleartext(out).unwrap(),
            })?;
            let mut rest = Vec::new();
            peer.stream.read_to_end(&mut rest)?;
            let _ = sender.send(rest);
            Ok(())
        });
        let stream = TcpStream::connect(address.split_once("://").unwrap().1).unwrap();
        let login = Login {
            user: "weir",
            password: Some(b"hunter2"),
            proof: Proof::Scram,
            database: "repmgr",
            parameters: &[],
        };
        let refused = Client::log_in(stream, &login, 1 << 10);
        assert!(matches!(refused, Err(ClientError::Proof)), "{asks:?}");
        assert_eq!(heard.recv_timeout(LIMIT).unwrap(), b"", "{asks:?}");
    }
}

#[test]
fn each_way_to_ask_for_the_password_works_on_loopback() {
    for asks in [Asks::Nothing, Asks::ClearText, Asks::Md5, Asks::Scram] {
        let (_fake, address) = server(move |peer| {
            peer.log_in(asks)?;
            peer.query()?;
            peer.rows(&[vec!["n0"]])
        });
        let rows = Sql::new(login(), "repmgr").ask(&address, "SELECT 1");
        assert_eq!(rows.unwrap(), [["n0"]], "{asks:?}");
    }
}

#[test]
fn a_connection_that_was_closed_between_two_questions_is_made_anew() {
    let (_fake, address) = server(|peer| {
        peer.log_in(Asks::Nothing)?;
        peer.query()?;
        peer.rows(&[vec!["n0"]])
    });
    let mut sql = Sql::new(login(), "repmgr");
    for _ in 0..3 {
        assert_eq!(sql.ask(&address, "SELECT 1").unwrap(), [["n0"]]);
    }
}

#[test]
fn databases_that_fail_say_why() {
    let check = |script: fn(&mut Peer<'_>) -> io::Result<()>, expected: &str| {
        let (_fake, address) = server(script);
        let failure = Sql::new(login(), "repmgr").ask(&address, "SELECT 1");
        let failure = failure.unwrap_err().to_string();
        assert!(failure.contains(expected), "{expected}: {failure}");
    };
    check(|_| Ok(()), "the connection failed");
    check(
        |peer| {
            peer.startup()?;
            peer.error("no\nentry")
        },
        "refuses the login: no\\nentry",
    );
    check(
        |peer| {
            peer.startup()?;
            peer.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        },
        "the login failed",
    );
    check(
        |peer| {
            peer.log_in(Asks::Nothing)?;
            peer.query()?;
            peer.error("relation \"repmgr.nodes\" does not exist")?;
            peer.send(|out| encode::ready_for_query(out, TransactionStatus::Idle).unwrap())
        },
        "repmgr.nodes",
    );
    check(
        |peer| {
            peer.log_in(Asks::Nothing)?;
            peer.query()?;
            let large = "x".repeat(64 << 10);
            peer.rows(&[vec![&large]])
        },
        "too long",
    );
    check(
        |peer| {
            peer.log_in(Asks::Nothing)?;
            peer.query()?;
            // Announces a gigabyte.
            peer.stream.write_all(&[b'D', 0x3f, 0xff, 0xff, 0xff])?;
            while peer.stream.write_all(&[0; 4096]).is_ok() {}
            Ok(())
        },
        "too long",
    );
    let closed = bind();
    let address = format!("postgresql://{}", closed.local_addr().unwrap());
    drop(closed);
    let failure = Sql::new(login(), "repmgr").ask(&address, "SELECT 1");
    let failure = failure.unwrap_err().to_string();
    assert!(failure.contains("refused"), "{failure}");
    let failure = Sql::new(login(), "repmgr").ask("postgresql://weir.invalid:1", "SELECT 1");
    let failure = failure.unwrap_err().to_string();
    assert!(failure.contains("cannot be resolved"), "{failure}");
}

#[test]
fn a_database_that_falls_silent_is_given_up() {
    let check = |script: fn(&mut Peer<'_>) -> io::Result<()>| {
        let (_fake, address) = server(move |peer| {
            script(peer)?;
            stay_silent(peer.stream);
            Ok(())
        });
        let begin = crate::clock::machine_us();
        let failure = Sql::new(login(), "repmgr").ask(&address, "SELECT 1");
        let failure = failure.unwrap_err().to_string();
        assert!(failure.contains("timed out"), "{failure}");
        let waited = crate::clock::machine_us() - begin;
        assert!((1_900_000..10_000_000).contains(&waited), "{waited} us");
    };
    thread::scope(|scope| {
        scope.spawn(|| check(|peer| peer.startup().map(drop)));
        scope.spawn(|| {
            check(|peer| {
                peer.log_in(Asks::Nothing)?;
                peer.query().map(drop)
            });
        });
        // Messages without an end, each of which comes in time.
        scope.spawn(|| {
            check(|peer| {
                peer.log_in(Asks::Nothing)?;
                peer.query()?;
                loop {
                    peer.send(|out| encode::parameter_status(out, b"a", b"b").unwrap())?;
                    thread::park_timeout(Duration::from_millis(50));
                }
            });
        });
    });
}

#[test]
fn an_old_table_of_another_node_does_not_take_turns_with_the_new_one() {
    let (sender, asked) = bounded(64);
    let told = sender.clone();
    // The first node ends after its first answer, and cannot be reached again.
    let is_up = Arc::new(AtomicBool::new(true));
    let (_gone, first) = server(move |peer| {
        if !is_up.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        peer.log_in(Asks::Nothing)?;
        peer.query()?;
        peer.rows(&[vec!["n0"]])?;
        let _ = told.send("first");
        Ok(())
    });
    let (_fake, second) = server(move |peer| {
        peer.log_in(Asks::Nothing)?;
        loop {
            peer.query()?;
            peer.rows(&[vec!["n1"]])?;
            let _ = sender.send("second");
        }
    });
    let (clusters, wakeups) = clusters();
    let cluster = clusters.of("shop");
    let sources = Sources::default();
    let spec = sql_spec(HintTool::Repmgr, &[&first, &second], &cluster);
    sources.settle(vec![spec]).unwrap();
    for expected in ["first", "second", "second", "second"] {
        assert_eq!(asked.recv_timeout(LIMIT).unwrap(), expected);
    }
    sources.stop();
    assert_eq!(wakeups.len(), 1, "one change of the text");
}
