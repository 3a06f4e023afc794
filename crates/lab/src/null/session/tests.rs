//! Tests of conversations with one session.

use weir_wire::backend::{ErrorFields, ParameterStatus};
use weir_wire::startup::Version;

use super::*;

/// Session and its client.
struct Talk {
    session: Session,
    canned: Canned,
    done: Done,
    out: Vec<u8>,
}

impl Talk {
    /// Returns a session that is logged in.
    fn new(rows: u64, row_bytes: usize) -> Self {
        let mut talk = Self {
            session: Session::default(),
            canned: Canned::new(rows, row_bytes).unwrap(),
            done: Done::default(),
            out: Vec::new(),
        };
        let mut opening = Vec::new();
        let names: [(&[u8], &[u8]); 2] = [(b"user", b"ada"), (b"application_name", b"a")];
        encode::startup(&mut opening, Version::V3_0, &names).unwrap();
        assert_eq!(talk.feed(&opening), Ok(Took::Bytes(opening.len())));
        let told = talk.told();
        assert!(told.starts_with("R S(application_name=a)"), "{told}");
        assert!(told.contains("S(session_authorization=ada)"), "{told}");
        assert!(told.ends_with(" K I"), "{told}");
        talk
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<Took, End> {
        let mut turn = Turn {
            canned: &self.canned,
            has_tls: false,
            pid: 1,
            done: &mut self.done,
            out: &mut self.out,
        };
        self.session.feed(bytes, &mut turn)
    }

    /// Returns the answers since the last call in short form; ReadyForQuery appears as its status.
    fn told(&mut self) -> String {
        let mut told = Vec::new();
        let mut rest = self.out.as_slice();
        while let Some(message) = frame(rest, Side::Backend).unwrap() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            told.push(match message.header.tag {
                b'Z' => text(message.body),
                b'E' => {
                    let fields = ErrorFields::parse(message.body).unwrap();
                    fields.sqlstate().unwrap().as_str().to_owned()
                }
                b'S' => {
                    let status = ParameterStatus::parse(message.body).unwrap();
                    format!("S({}={})", text(status.name), text(status.value))
                }
                b'C' => format!("C({})", text(&message.body[..message.body.len() - 1])),
                tag => char::from(tag).to_string(),
            });
            rest = &rest[message.raw.len()..];
        }
        assert!(rest.is_empty());
        self.out.clear();
        told.join(" ")
    }

    fn query(&mut self, sql: &str) -> String {
        let mut bytes = Vec::new();
        encode::query(&mut bytes, sql.as_bytes()).unwrap();
        assert_eq!(self.feed(&bytes), Ok(Took::Bytes(bytes.len())));
        self.told()
    }

    /// Sends messages of the extended protocol: `P` and `B` for the statement `name`, the others for the portal.
    fn extended(&mut self, tags: &str, name: &str, sql: &str) -> String {
        let (mut bytes, name) = (Vec::new(), name.as_bytes());
        for tag in tags.chars() {
            let out = &mut bytes;
            let encoded = match tag {
                'P' => encode::parse(out, name, sql.as_bytes(), &[0, 0]),
                'B' => encode::bind_renamed(out, b"", name, &[0; 6]),
                'D' => encode::describe(out, Named::Portal, b""),
                'd' => encode::describe(out, Named::Statement, name),
                'E' => encode::execute(out, b"", 0),
                'C' => encode::close(out, Named::Statement, name),
                'S' => encode::sync(out),
                other => panic!("{other}"),
            };
            encoded.unwrap();
        }
        assert_eq!(self.feed(&bytes), Ok(Took::Bytes(bytes.len())));
        self.told()
    }
}

#[test]
fn the_transaction_status_follows_the_words() {
    let mut talk = Talk::new(2, 10);
    assert_eq!(talk.query("SELECT 1"), "T D D C(SELECT 2) I");
    assert_eq!(talk.query("BEGIN"), "C(BEGIN) T");
    assert_eq!(talk.query("UPDATE t SET a = 1"), "C(UPDATE 1) T");
    assert_eq!(talk.done.transactions, 1);
    assert_eq!(talk.query("COMMIT"), "C(COMMIT) I");
    assert_eq!(talk.done.transactions, 2);
    assert_eq!(
        talk.query("BEGIN;SET a = 1;COMMIT"),
        "C(BEGIN) C(SET) C(COMMIT) I"
    );
    assert_eq!(talk.query(" ; "), "I I");
    assert_eq!(talk.query("DISCARD ALL"), "C(DISCARD ALL) I");
    // None of these statements belongs to a load.
    assert_eq!(talk.done.transactions, 2);
}

#[test]
fn statements_and_portals_must_be_there() {
    let mut talk = Talk::new(1, 10);
    assert_eq!(
        talk.extended("PBDES", "", "SELECT 1"),
        "1 2 T D C(SELECT 1) I"
    );
    assert_eq!(talk.extended("PdS", "a", "SELECT $1"), "1 t T I");
    assert_eq!(talk.extended("BES", "a", ""), "2 D C(SELECT 1) I");
    assert_eq!(talk.extended("PS", "a", "SELECT 1"), "42P05 I");
    assert_eq!(talk.extended("BDES", "b", ""), "26000 I");
    assert_eq!(talk.extended("ES", "", ""), "34000 I");
    assert_eq!(talk.extended("CPBDES", "a", "BEGIN"), "3 1 2 n C(BEGIN) T");
    assert_eq!(talk.extended("BES", "b", ""), "26000 E");
    assert_eq!(talk.query("SELECT 1"), "25P02 E");
    assert_eq!(talk.query("COMMIT"), "C(ROLLBACK) I");
    assert_eq!(talk.query("DISCARD ALL"), "C(DISCARD ALL) I");
    assert_eq!(talk.extended("BES", "a", ""), "26000 I");
}

#[test]
fn settings_are_reported_and_reset() {
    let mut talk = Talk::new(1, 10);
    let told = talk.query("SET application_name = 'b'; SET other = 'c'");
    assert_eq!(told, "S(application_name=b) C(SET) C(SET) I");
    assert_eq!(talk.query("SET application_name TO b"), "C(SET) I");
    assert_eq!(talk.query("SHOW application_name"), "T D C(SHOW) I");
    assert_eq!(
        talk.query("DISCARD ALL"),
        "S(application_name=a) C(DISCARD ALL) I"
    );
}

#[test]
fn copies() {
    let mut talk = Talk::new(2, 10);
    let told = talk.query("COPY t TO STDOUT");
    assert_eq!(told, "H d d c C(COPY 2) I");
    assert_eq!(talk.query("COPY t FROM STDIN"), "G");
    let mut data = Vec::new();
    encode::copy_data(&mut data, &[b'x'; 100]).unwrap();
    encode::sync(&mut data).unwrap();
    encode::copy_done(&mut data).unwrap();
    // In pieces: COPY data is never collected.
    let (head, rest) = data.split_at(50);
    assert_eq!(talk.feed(head), Ok(Took::Bytes(50)));
    assert_eq!(talk.feed(rest), Ok(Took::Bytes(rest.len())));
    assert_eq!(talk.told(), "C(COPY 1) I");
    assert_eq!((talk.done.copied_in, talk.done.transactions), (100, 2));
    assert_eq!(talk.extended("PBES", "", "COPY t FROM STDIN"), "1 2 G");
    let mut bytes = Vec::new();
    encode::copy_fail(&mut bytes, b"no").unwrap();
    encode::sync(&mut bytes).unwrap();
    assert_eq!(talk.feed(&bytes), Ok(Took::Bytes(bytes.len())));
    assert_eq!(talk.told(), "57014 I");
}

#[test]
fn a_large_result_is_made_as_it_is_sent() {
    let (rows, row_bytes) = (5000, 1000);
    let mut talk = Talk::new(rows, row_bytes);
    let mut queries = Vec::new();
    encode::query(&mut queries, b"SELECT 1; SELECT 2").unwrap();
    let one = queries.len();
    encode::query(&mut queries, b"SHOW a").unwrap();
    // The second query waits.
    assert_eq!(talk.feed(&queries), Ok(Took::Bytes(one)));
    let mut all = Vec::new();
    while talk.session.is_blocked() {
        assert!(
            talk.out.len() <= 2 * OUT_HIGH + row_bytes,
            "{}",
            talk.out.len()
        );
        all.append(&mut talk.out);
        assert_eq!(talk.feed(&[]), Ok(Took::Bytes(0)));
    }
    all.append(&mut talk.out);
    talk.out = all;
    let told = talk.told();
    assert_eq!(told.matches('D').count(), 2 * 5000);
    assert!(told.ends_with("D C(SELECT 5000) I"));
    assert_eq!(talk.done.transactions, 1);
    assert_eq!(
        talk.feed(&queries[one..]),
        Ok(Took::Bytes(queries.len() - one))
    );
    assert_eq!(talk.told(), "T D C(SHOW) I");
}

#[test]
fn strangers_and_goodbyes_end_the_session() {
    let mut talk = Talk::new(1, 10);
    assert_eq!(talk.feed(b"GET / HTTP/1.1"), Err(End::Stranger));
    let mut talk = Talk::new(1, 10);
    assert_eq!(talk.feed(b"X\0\0\0\x04"), Err(End::Goodbye));
}
