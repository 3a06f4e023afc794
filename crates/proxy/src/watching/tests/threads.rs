//! The thread itself, over sockets.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use weir_wire::backend::TransactionStatus;
use weir_wire::encode;

use super::hosts::{row, rows};
use super::world::{global, host, spec};
use crate::global::Clusters;
use crate::mailbox::mailbox;
use crate::transport::Transport;
use crate::watching::thread::Watching;

/// Plays a primary for one connection: welcomes it, then answers every message as a probe. Returns the number of
/// messages.
fn play(listener: &TcpListener) -> usize {
    let (mut stream, _) = listener.accept().unwrap();
    let (mut buffer, mut asked) = ([0; 4096], 0);
    let len = stream.read(&mut buffer).unwrap();
    assert!(String::from_utf8_lossy(&buffer[..len]).contains("weir watch"));
    let mut out = Vec::new();
    encode::authentication_ok(&mut out).unwrap();
    encode::backend_key_data(&mut out, 7, b"1234").unwrap();
    encode::ready_for_query(&mut out, TransactionStatus::Idle).unwrap();
    stream.write_all(&out).unwrap();
    loop {
        match stream.read(&mut buffer) {
            Ok(len) if buffer[..len].starts_with(b"Q") => asked += 1,
            // Terminate, or the end.
            _ => return asked,
        }
        let mut out = Vec::new();
        rows(&mut out, &[row(false)]);
        if stream.write_all(&out).is_err() {
            return asked;
        }
    }
}

#[derive(Debug)]
struct Wakeup(crossbeam_channel::Sender<()>);

impl crate::driver::Wake for Wakeup {
    fn wake(&self) -> std::io::Result<()> {
        let _ = self.0.try_send(());
        Ok(())
    }
}

#[test]
fn the_thread_starts_with_the_first_cluster_and_wakes_the_workers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, woken) = crossbeam_channel::bounded(1);
    let (worker, inbox) = mailbox(Arc::new(Wakeup(sender)));
    let global = Arc::new(global("", Transport::default()));
    assert!(global.workers.mailboxes.set(vec![worker]).is_ok());
    let (clusters, watching) = (Clusters::default(), Watching::default());
    watching.settle(&global, &clusters, Vec::new()).unwrap();
    watching.stop();
    let mut one = host(1);
    one.address = weir_config::HostAddr::Ip([127, 0, 0, 1].into());
    one.port = port;
    let spec = spec(&clusters, "shop", vec![one]);
    let player = std::thread::spawn(move || play(&listener));
    watching.settle(&global, &clusters, vec![spec]).unwrap();
    let cluster = clusters.of("shop");
    let patience = Duration::from_secs(20);
    while cluster.snapshot().primary().is_none() {
        woken.recv_timeout(patience).expect("a wakeup");
        // As a worker does in each turn.
        inbox.have_come();
    }
    // A wakeup of the thread, which is asleep for most of a second.
    let _waiter = cluster.wait_for_freshness();
    let number = cluster.number();
    cluster.suspect();
    while cluster.number() == number {
        woken.recv_timeout(patience).expect("a wakeup");
        inbox.have_come();
    }
    watching.stop();
    assert!(player.join().unwrap() >= 2);
}
