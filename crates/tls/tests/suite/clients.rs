//! Tests of the client certificates that the listener accepts, and of their names.

use std::sync::{Arc, Mutex};

use rcgen::{DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use weir_tls::connector::{Connector, ConnectorOptions, Verify};
use weir_tls::listener::{ClientCertificate, Listener, ListenerOptions};
use weir_tls::names::Identity;

use crate::handshake::{Outcome, connecting, connector, listener, listening, meet};
use crate::pki::{Authority, Directory, Pair, named, params, self_signed, server, sign, with};

struct Setting {
    directory: Directory,
    server_ca: Authority,
    listener: Listener,
}

impl Setting {
    fn new(policy: ClientCertificate, client_ca: &str, revoked: Option<String>) -> Self {
        let directory = Directory::new();
        let server_ca = Authority::new("server ca");
        let options = ListenerOptions {
            ca_file: Some(directory.write("clients.crt", client_ca)),
            crl_file: revoked.map(|list| directory.write("clients.crl", list)),
            client_certificate: policy,
            ..listening(&directory, &server_ca.sign(&server(&["localhost"])))
        };
        let listener = listener(&options);
        Self {
            directory,
            server_ca,
            listener,
        }
    }

    fn connector(&self, own: Option<&Pair>, protocols: &str) -> Connector {
        let options = connecting(&self.directory, Verify::Full, &self.server_ca.pem());
        connector(&ConnectorOptions {
            key_file: own.map(|own| self.directory.write("client.key", &own.key)),
            cert_file: own.map(|own| self.directory.write("client.crt", &own.certificate)),
            protocols: protocols.to_owned(),
            ..options
        })
    }

    fn meet(&self, own: Option<&Pair>, protocols: &str) -> Outcome {
        meet(&self.connector(own, protocols), &self.listener, "localhost")
    }

    #[track_caller]
    fn check(&self, own: Option<&Pair>, expected: &str) {
        for protocols in ["tlsv1.2", "tlsv1.3"] {
            assert_eq!(self.meet(own, protocols).verdict(), expected, "{protocols}");
        }
    }
}

#[test]
fn the_policy_decides_who_needs_a_certificate() {
    let ca = Authority::new("client ca");
    let alice = ca.sign(&named("alice"));
    let stranger = Authority::new("another").sign(&named("alice"));
    let required = Setting::new(ClientCertificate::Required, &ca.pem(), None);
    required.check(Some(&alice), "fine");
    required.check(Some(&stranger), "UnknownIssuer");
    required.check(None, "peer sent no certificates");
    let optional = Setting::new(ClientCertificate::Optional, &ca.pem(), None);
    optional.check(Some(&alice), "fine");
    optional.check(Some(&stranger), "UnknownIssuer");
    optional.check(None, "fine");
    let none = Setting::new(ClientCertificate::None, &ca.pem(), None);
    none.check(Some(&stranger), "fine");
    assert!(
        none.meet(Some(&alice), "tlsv1.3")
            .server
            .peer_certificates()
            .is_none()
    );
}

#[test]
fn the_listener_sees_the_names_of_an_accepted_client() {
    let ca = Authority::new("client ca");
    let subject = params(&[
        (DnType::OrganizationName, "Example"),
        (DnType::CommonName, "alice"),
    ]);
    let setting = Setting::new(ClientCertificate::Required, &ca.pem(), None);
    let outcome = setting.meet(Some(&ca.sign(&subject)), "secure");
    let identity = Identity::from_certificate(&outcome.server.peer_certificates().unwrap()[0]);
    let identity = identity.unwrap();
    assert_eq!(identity.common_name.as_deref(), Some("alice"));
    assert_eq!(identity.distinguished_name, "CN=alice,O=Example");
}

#[test]
fn sec_10_client_certificates_are_judged_by_time_purpose_and_revocation() {
    let ca = Authority::new("client ca");
    let list = ca.revoke(&[9], 2027);
    let setting = Setting::new(ClientCertificate::Required, &ca.pem(), Some(list));
    let leaf = || named("alice");
    setting.check(Some(&ca.sign(&leaf())), "fine");
    let revoked = with(leaf(), |params| params.serial_number = Some(vec![9].into()));
    setting.check(Some(&ca.sign(&revoked)), "Revoked");
    let expired = with(leaf(), |params| {
        params.not_after = date_time_ymd(2026, 6, 14)
    });
    setting.check(Some(&ca.sign(&expired)), "ExpiredContext");
    let early = with(leaf(), |params| {
        params.not_before = date_time_ymd(2026, 6, 16)
    });
    setting.check(Some(&ca.sign(&early)), "NotValidYetContext");
    let server = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let purpose = with(leaf(), |params| params.extended_key_usages = server);
    setting.check(Some(&ca.sign(&purpose)), "InvalidPurpose");
}

#[test]
fn sec_10_a_client_whose_own_certificate_is_trusted_makes_none_for_others() {
    let key = KeyPair::generate().unwrap();
    let alice = named("alice");
    let own = Pair {
        certificate: alice.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    };
    let setting = Setting::new(ClientCertificate::Required, &own.certificate, None);
    setting.check(Some(&own), "fine");
    let forged = sign(&named("bob"), &rcgen::Issuer::new(alice.clone(), key));
    setting.check(Some(&forged), "UnknownIssuer");
    // The same name with another key.
    setting.check(Some(&self_signed(&alice)), "UnknownIssuer");
}

/// Records the names of CAs that a listener asked for.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<Vec<u8>>>);

impl ResolvesClientCert for Asked {
    fn resolve(&self, hints: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0
            .lock()
            .unwrap()
            .extend(hints.iter().map(|hint| hint.to_vec()));
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn clients_are_told_which_cas_the_listener_trusts() {
    let ca = Authority::new("client ca");
    let setting = Setting::new(ClientCertificate::Optional, &ca.pem(), None);
    let mut connector = setting.connector(None, "secure");
    let asked = Arc::new(Asked::default());
    Arc::make_mut(&mut connector.config).client_auth_cert_resolver = asked.clone();
    assert_eq!(
        meet(&connector, &setting.listener, "localhost").verdict(),
        "fine"
    );
    // A sequence of one set of one attribute, 2.5.4.3, in UTF-8.
    let name = b"\x30\x14\x31\x12\x30\x10\x06\x03\x55\x04\x03\x0c\x09client ca".to_vec();
    assert_eq!(*asked.0.lock().unwrap(), [name]);
    assert_eq!(
        setting.listener.certificates.last().unwrap().subject,
        "CN=client ca"
    );
}
