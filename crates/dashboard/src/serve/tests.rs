//! A connection over TLS, as an address beyond this machine has it.

use std::io::{Read as _, Write as _};

use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
};

use super::*;
use crate::tests::fake::Fake;

/// Answers one connection as if its address were no loopback.
fn serve_one(listener: TcpListener, fake: Arc<Fake>) -> JoinHandle<()> {
    thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let desk = Arc::new(Desk::new(fake).unwrap());
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (stream, peer) = listener.accept().await.unwrap();
            let connection = Connection {
                peer,
                reached: stream.local_addr().unwrap(),
                is_secure: true,
                permit: Arc::default(),
            };
            // The peer may end without a farewell.
            let _ = secured(stream, connection, &desk, app::router(&desk)).await;
        });
    })
}

#[test]
fn over_tls_the_cookie_is_secure_and_without_a_certificate_nothing_is_served() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let secret = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], secret)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Arc::new(client);
    let ask = |fake: Arc<Fake>| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let served = serve_one(listener, fake);
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let stream = std::net::TcpStream::connect(at).unwrap();
        let mut stream = StreamOwned::new(session, stream);
        let body = "user=ann&password=ann";
        let request = format!(
            "POST /login HTTP/1.1\r\nHost: {at}\r\nOrigin: https://{at}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let sent = stream.write_all(request.as_bytes());
        let mut text = String::new();
        let read = sent.and_then(|()| stream.read_to_string(&mut text));
        drop(stream);
        served.join().unwrap();
        read.map(|_| text)
    };
    let fake = Fake {
        tls: Some(Arc::new(config)),
        ..Fake::default()
    };
    let answer = ask(Arc::new(fake)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    assert!(answer.contains("set-cookie: __Host-weir="), "{answer}");
    assert!(answer.contains("; Secure\r\n"), "{answer}");
    assert!(ask(Arc::new(Fake::default())).is_err());
}
