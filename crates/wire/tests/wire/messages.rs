//! Values for every encodable message: each with a strategy, its encoder and the check of its view.

use proptest::prelude::*;
use weir_wire::backend::{self as back, TransactionStatus};
use weir_wire::encode::{self, Column, EncodeError, ErrorReport, Severity};
use weir_wire::frame::Frame;
use weir_wire::frontend::{self as front, Kind};
use weir_wire::sqlstate::SqlState;

type Bytes = Vec<u8>;

#[derive(Clone, Debug)]
pub(crate) enum Front {
    Bind(Bytes, Bytes, Bytes),
    Close(Kind, Bytes),
    CopyData(Bytes),
    CopyDone,
    CopyFail(Bytes),
    Describe(Kind, Bytes),
    Execute(Bytes, i32),
    Flush,
    Parse(Bytes, Bytes, Bytes),
    Password(Bytes),
    Query(Bytes),
    SaslInitial(Bytes, Option<Bytes>),
    SaslResponse(Bytes),
    Sync,
    Terminate,
}

#[derive(Clone, Debug)]
pub(crate) enum Back {
    AuthenticationCleartext,
    AuthenticationMd5([u8; 4]),
    AuthenticationOk,
    AuthenticationSasl(Vec<Bytes>),
    AuthenticationSaslContinue(Bytes),
    AuthenticationSaslFinal(Bytes),
    BackendKeyData(u32, Bytes),
    CommandComplete(Bytes),
    DataRow(Vec<Option<Bytes>>),
    Empty(u8),
    ErrorFields(bool, Vec<(u8, Bytes)>),
    Negotiate(u16, Vec<Bytes>),
    Notification(u32, Bytes, Bytes),
    ParameterStatus(Bytes, Bytes),
    Ready(TransactionStatus),
    Report(bool, String, Option<String>, Option<String>),
    RowDescription(Vec<(String, u32, i16)>),
}

/// Any bytes.
fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..40)
}

/// Any bytes but NUL.
fn string() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(1..=u8::MAX, 0..40)
}

fn entry() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(1..=u8::MAX, 1..40)
}

fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,20}"
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Statement), Just(Kind::Portal)]
}

fn status() -> impl Strategy<Value = TransactionStatus> {
    use TransactionStatus::{Failed, Idle, InTransaction};
    prop_oneof![Just(Idle), Just(InTransaction), Just(Failed)]
}

pub(crate) fn any_front() -> impl Strategy<Value = Front> {
    prop_oneof![
        (string(), string(), bytes()).prop_map(|(p, s, r)| Front::Bind(p, s, r)),
        (kind(), string()).prop_map(|(k, n)| Front::Close(k, n)),
        bytes().prop_map(Front::CopyData),
        Just(Front::CopyDone),
        string().prop_map(Front::CopyFail),
        (kind(), string()).prop_map(|(k, n)| Front::Describe(k, n)),
        (string(), any::<i32>()).prop_map(|(p, m)| Front::Execute(p, m)),
        Just(Front::Flush),
        (string(), string(), bytes()).prop_map(|(n, s, r)| Front::Parse(n, s, r)),
        string().prop_map(Front::Password),
        string().prop_map(Front::Query),
        (string(), prop::option::of(bytes())).prop_map(|(m, d)| Front::SaslInitial(m, d)),
        bytes().prop_map(Front::SaslResponse),
        Just(Front::Sync),
        Just(Front::Terminate),
    ]
}

pub(crate) fn any_back() -> impl Strategy<Value = Back> {
    let key = prop::collection::vec(any::<u8>(), 4..=256);
    let fields = prop::collection::vec((1..=u8::MAX, string()), 0..6);
    let columns = prop::collection::vec((text(), any::<u32>(), any::<i16>()), 0..6);
    prop_oneof![
        Just(Back::AuthenticationCleartext),
        any::<[u8; 4]>().prop_map(Back::AuthenticationMd5),
        Just(Back::AuthenticationOk),
        prop::collection::vec(entry(), 0..4).prop_map(Back::AuthenticationSasl),
        bytes().prop_map(Back::AuthenticationSaslContinue),
        bytes().prop_map(Back::AuthenticationSaslFinal),
        (any::<u32>(), key).prop_map(|(p, k)| Back::BackendKeyData(p, k)),
        string().prop_map(Back::CommandComplete),
        prop::collection::vec(prop::option::of(bytes()), 0..6).prop_map(Back::DataRow),
        prop::sample::select(&b"I123ns"[..]).prop_map(Back::Empty),
        (any::<bool>(), fields).prop_map(|(e, f)| Back::ErrorFields(e, f)),
        (any::<u16>(), prop::collection::vec(string(), 0..4))
            .prop_map(|(m, o)| Back::Negotiate(m, o)),
        (any::<u32>(), string(), string()).prop_map(|(p, c, l)| Back::Notification(p, c, l)),
        (string(), string()).prop_map(|(n, v)| Back::ParameterStatus(n, v)),
        status().prop_map(Back::Ready),
        (
            any::<bool>(),
            text(),
            prop::option::of(text()),
            prop::option::of(text())
        )
            .prop_map(|(e, m, d, h)| Back::Report(e, m, d, h)),
        columns.prop_map(Back::RowDescription),
    ]
}

fn slices(list: &[Bytes]) -> Vec<&[u8]> {
    list.iter().map(Vec::as_slice).collect()
}

impl Front {
    pub(crate) fn encode(&self, buf: &mut Bytes) -> Result<(), EncodeError> {
        match self {
            Self::Bind(portal, statement, rest) => {
                encode::bind_renamed(buf, portal, statement, rest)
            }
            Self::Close(kind, name) => encode::close(buf, *kind, name),
            Self::CopyData(data) => encode::copy_data(buf, data),
            Self::CopyDone => encode::copy_done(buf),
            Self::CopyFail(reason) => encode::copy_fail(buf, reason),
            Self::Describe(kind, name) => encode::describe(buf, *kind, name),
            Self::Execute(portal, max_rows) => encode::execute(buf, portal, *max_rows),
            Self::Flush => encode::flush(buf),
            Self::Parse(name, sql, rest) => encode::parse(buf, name, sql, rest),
            Self::Password(password) => encode::password(buf, password),
            Self::Query(sql) => encode::query(buf, sql),
            Self::SaslInitial(mechanism, data) => {
                encode::sasl_initial(buf, mechanism, data.as_deref())
            }
            Self::SaslResponse(data) => encode::sasl_response(buf, data),
            Self::Sync => encode::sync(buf),
            Self::Terminate => encode::terminate(buf),
        }
    }

    /// Panics unless the frame contains the same values.
    pub(crate) fn assert_same(&self, frame: Frame<'_>) {
        let body = frame.body;
        let tag = match self {
            Self::Bind(portal, statement, rest) => {
                assert_eq!(
                    front::Bind::parse(body),
                    Ok(front::Bind {
                        portal,
                        statement,
                        rest
                    })
                );
                b'B'
            }
            Self::Close(kind, name) => {
                assert_eq!(
                    front::Close::parse(body),
                    Ok(front::Close { kind: *kind, name })
                );
                b'C'
            }
            Self::CopyData(data) => same(body, data, b'd'),
            Self::CopyDone => same(body, b"", b'c'),
            Self::CopyFail(reason) => same(body, &[reason, &b"\0"[..]].concat(), b'f'),
            Self::Describe(kind, name) => {
                assert_eq!(
                    front::Describe::parse(body),
                    Ok(front::Describe { kind: *kind, name })
                );
                b'D'
            }
            Self::Execute(portal, max_rows) => {
                let expect = front::Execute {
                    portal,
                    max_rows: *max_rows,
                };
                assert_eq!(front::Execute::parse(body), Ok(expect));
                b'E'
            }
            Self::Flush => same(body, b"", b'H'),
            Self::Parse(name, sql, rest) => {
                assert_eq!(
                    front::Parse::parse(body),
                    Ok(front::Parse { name, sql, rest })
                );
                b'P'
            }
            Self::Password(password) => {
                let parsed = front::Password::parse(body).and_then(front::Password::password);
                assert_eq!(parsed, Ok(&password[..]));
                b'p'
            }
            Self::Query(sql) => {
                assert_eq!(front::Query::parse(body), Ok(front::Query { sql }));
                b'Q'
            }
            Self::SaslInitial(mechanism, data) => {
                let expect = front::SaslInitialResponse {
                    mechanism,
                    data: data.as_deref(),
                };
                assert_eq!(front::SaslInitialResponse::parse(body), Ok(expect));
                b'p'
            }
            Self::SaslResponse(data) => same(body, data, b'p'),
            Self::Sync => same(body, b"", b'S'),
            Self::Terminate => same(body, b"", b'X'),
        };
        assert_eq!(frame.header.tag, tag);
    }
}

fn same(body: &[u8], expect: &[u8], tag: u8) -> u8 {
    assert_eq!(body, expect);
    tag
}

impl Back {
    pub(crate) fn encode(&self, buf: &mut Bytes) -> Result<(), EncodeError> {
        match self {
            Self::AuthenticationCleartext => encode::authentication_cleartext(buf),
            Self::AuthenticationMd5(salt) => encode::authentication_md5(buf, *salt),
            Self::AuthenticationOk => encode::authentication_ok(buf),
            Self::AuthenticationSasl(names) => encode::authentication_sasl(buf, &slices(names)),
            Self::AuthenticationSaslContinue(d) => encode::authentication_sasl_continue(buf, d),
            Self::AuthenticationSaslFinal(data) => encode::authentication_sasl_final(buf, data),
            Self::BackendKeyData(pid, key) => encode::backend_key_data(buf, *pid, key),
            Self::CommandComplete(tag) => encode::command_complete(buf, tag),
            Self::DataRow(values) => {
                let values: Vec<_> = values.iter().map(Option::as_deref).collect();
                encode::data_row(buf, &values)
            }
            Self::Empty(tag) => encode_empty(buf, *tag),
            Self::ErrorFields(is_error, fields) => {
                let fields: Vec<_> = fields.iter().map(|(code, v)| (*code, &v[..])).collect();
                let encoder = if *is_error {
                    encode::error_response
                } else {
                    encode::notice_response
                };
                encoder(buf, &fields)
            }
            Self::Negotiate(minor, options) => {
                encode::negotiate_protocol_version(buf, *minor, &slices(options))
            }
            Self::Notification(pid, channel, payload) => {
                encode::notification_response(buf, *pid, channel, payload)
            }
            Self::ParameterStatus(name, value) => encode::parameter_status(buf, name, value),
            Self::Ready(status) => encode::ready_for_query(buf, *status),
            Self::Report(is_error, message, detail, hint) => {
                let mut report =
                    ErrorReport::new(Severity::Fatal, SqlState::TOO_MANY_CONNECTIONS, message);
                report.detail = detail.as_deref();
                report.hint = hint.as_deref();
                if *is_error {
                    report.encode(buf)
                } else {
                    report.encode_notice(buf)
                }
            }
            Self::RowDescription(columns) => {
                let columns: Vec<_> = columns
                    .iter()
                    .map(|(name, oid, len)| Column {
                        name,
                        type_oid: *oid,
                        type_len: *len,
                    })
                    .collect();
                encode::row_description(buf, &columns)
            }
        }
    }

    /// Panics unless the frame contains the same values.
    pub(crate) fn assert_same(&self, frame: Frame<'_>) {
        let body = frame.body;
        let tag = match self {
            Self::AuthenticationCleartext
            | Self::AuthenticationMd5(_)
            | Self::AuthenticationOk
            | Self::AuthenticationSasl(_)
            | Self::AuthenticationSaslContinue(_)
            | Self::AuthenticationSaslFinal(_) => self.assert_same_authentication(body),
            Self::BackendKeyData(pid, key) => {
                let expect = back::BackendKeyData { pid: *pid, key };
                assert_eq!(back::BackendKeyData::parse(body), Ok(expect));
                b'K'
            }
            Self::CommandComplete(tag) => {
                assert_eq!(
                    back::CommandComplete::parse(body),
                    Ok(back::CommandComplete { tag })
                );
                b'C'
            }
            Self::DataRow(values) => assert_same_row(body, values),
            Self::Empty(tag) => same(body, b"", *tag),
            Self::ErrorFields(is_error, fields) => {
                let fields: Vec<_> = fields.iter().map(|(code, v)| (*code, &v[..])).collect();
                assert_eq!(
                    back::ErrorFields::parse(body).unwrap().collect::<Vec<_>>(),
                    fields
                );
                if *is_error { b'E' } else { b'N' }
            }
            Self::Negotiate(minor, options) => {
                let parsed = back::NegotiateProtocolVersion::parse(body).unwrap();
                assert_eq!(parsed.newest_minor, *minor);
                assert_eq!(parsed.options.collect::<Vec<_>>(), slices(options));
                b'v'
            }
            Self::Notification(pid, channel, payload) => {
                let expect = back::NotificationResponse {
                    pid: *pid,
                    channel,
                    payload,
                };
                assert_eq!(back::NotificationResponse::parse(body), Ok(expect));
                b'A'
            }
            Self::ParameterStatus(name, value) => {
                let expect = back::ParameterStatus { name, value };
                assert_eq!(back::ParameterStatus::parse(body), Ok(expect));
                b'S'
            }
            Self::Ready(status) => {
                assert_eq!(
                    back::ReadyForQuery::parse(body),
                    Ok(back::ReadyForQuery(*status))
                );
                b'Z'
            }
            Self::Report(is_error, message, detail, hint) => {
                assert_same_report(body, message, detail.as_deref(), hint.as_deref());
                if *is_error { b'E' } else { b'N' }
            }
            Self::RowDescription(columns) => {
                let names: usize = columns.iter().map(|(name, ..)| name.len() + 1 + 18).sum();
                assert_eq!(body.len(), 2 + names);
                b'T'
            }
        };
        assert_eq!(frame.header.tag, tag);
    }

    fn assert_same_authentication(&self, body: &[u8]) -> u8 {
        use back::Authentication as A;
        let parsed = A::parse(body).unwrap();
        match (self, parsed) {
            (Self::AuthenticationCleartext, A::CleartextPassword)
            | (Self::AuthenticationOk, A::Ok) => {}
            (Self::AuthenticationMd5(sent), A::Md5 { salt }) => assert_eq!(*sent, salt),
            (Self::AuthenticationSasl(sent), A::Sasl { mechanisms }) => {
                assert_eq!(slices(sent), mechanisms.collect::<Vec<_>>());
            }
            (Self::AuthenticationSaslContinue(sent), A::SaslContinue(data))
            | (Self::AuthenticationSaslFinal(sent), A::SaslFinal(data)) => assert_eq!(sent, data),
            (sent, parsed) => panic!("sent {sent:?}, parsed {parsed:?}"),
        }
        b'R'
    }
}

fn assert_same_report(body: &[u8], message: &str, detail: Option<&str>, hint: Option<&str>) {
    let fields = back::ErrorFields::parse(body).unwrap();
    assert_eq!(fields.message(), Some(message.as_bytes()));
    assert_eq!(fields.get(b'D'), detail.map(str::as_bytes));
    assert_eq!(fields.get(b'H'), hint.map(str::as_bytes));
    assert_eq!(fields.get(b'S'), Some(&b"FATAL"[..]));
    assert_eq!(fields.severity(), Some(&b"FATAL"[..]));
    assert_eq!(fields.sqlstate(), Some(SqlState::TOO_MANY_CONNECTIONS));
}

fn encode_empty(buf: &mut Bytes, tag: u8) -> Result<(), EncodeError> {
    match tag {
        b'I' => encode::empty_query_response(buf),
        b'1' => encode::parse_complete(buf),
        b'2' => encode::bind_complete(buf),
        b'3' => encode::close_complete(buf),
        b'n' => encode::no_data(buf),
        b's' => encode::portal_suspended(buf),
        other => panic!("no empty message has tag {other}"),
    }
}

/// Checks a DataRow against `values`, reading it by hand. Returns the tag.
fn assert_same_row(body: &[u8], values: &[Option<Bytes>]) -> u8 {
    let (count, mut rest) = body.split_first_chunk::<2>().unwrap();
    assert_eq!(usize::from(u16::from_be_bytes(*count)), values.len());
    for value in values {
        let (len, after) = rest.split_first_chunk::<4>().unwrap();
        let len = usize::try_from(i32::from_be_bytes(*len)).ok();
        assert_eq!(len, value.as_ref().map(Vec::len));
        let (found, after) = after.split_at(len.unwrap_or(0));
        assert_eq!(found, value.as_deref().unwrap_or_default());
        rest = after;
    }
    assert!(rest.is_empty());
    b'D'
}
