//! Bodies of the fuzz targets. Always compiled, so that a normal test can run the seeds. A panic or a failed assertion
//! is a finding. Not part of the public interface.

use crate::frame::{Frame, Side};
use crate::{
    backend, frame as framing, frontend as client, options as switches, startup as opening,
};

/// Walks frames of both sides, which must cover the input without gaps.
pub fn frame(data: &[u8]) {
    for side in [Side::Frontend, Side::Backend] {
        let mut rest = data;
        while let Ok(Some(Frame { header, body, raw })) = framing::frame(rest, side) {
            assert_eq!(body.len(), header.body_len(), "body and header disagree");
            assert_eq!(raw.len(), header.total_len(), "frame and header disagree");
            rest = rest.get(raw.len()..).unwrap_or_default();
        }
    }
}

/// Reads an opening message and everything in it.
pub fn startup(data: &[u8]) {
    let Ok(Some((message, consumed))) = opening::startup(data) else {
        return;
    };
    assert!(
        (8..=data.len()).contains(&consumed),
        "consumed more than there is"
    );
    let opening::Startup::Startup(message) = message else {
        return;
    };
    for (name, value) in message.params() {
        assert!(!name.is_empty(), "an empty name ends the list");
        if name == b"options" {
            options(value);
        }
    }
}

/// Parses command-line switches; the settings must not be longer than their text.
pub fn options(data: &[u8]) {
    let Ok(settings) = switches::parse(data) else {
        return;
    };
    let len: usize = settings.iter().map(|s| s.name.len() + s.value.len()).sum();
    assert!(len <= data.len(), "settings are longer than their text");
    assert!(
        settings.iter().all(|setting| !setting.name.is_empty()),
        "a setting without name"
    );
}

/// Parses the body with every view of a frontend message.
pub fn frontend(data: &[u8]) {
    let _ = client::Query::parse(data);
    let _ = client::Describe::parse(data);
    let _ = client::Close::parse(data);
    let _ = client::Execute::parse(data);
    let _ = client::SaslInitialResponse::parse(data);
    let _ = client::Password::parse(data).and_then(client::Password::password);
    if let Ok(whole) = client::Parse::parse(data) {
        let head = client::Parse::head(data).ok().flatten();
        assert_eq!(
            head.map(|head| head.name),
            Some(whole.name),
            "head and whole disagree"
        );
    }
    let whole = client::Bind::parse(data);
    let head = client::Bind::head(data);
    if let Ok(whole) = whole {
        let names = head
            .ok()
            .flatten()
            .map(|head| (head.portal, head.statement));
        assert_eq!(
            names,
            Some((whole.portal, whole.statement)),
            "head and whole disagree"
        );
    }
}

/// Parses the body with every view of a backend message, and walks its lists.
pub fn backend(data: &[u8]) {
    if let Ok(backend::Authentication::Sasl { mechanisms }) = backend::Authentication::parse(data) {
        assert!(
            mechanisms.count() <= data.len(),
            "more mechanisms than bytes"
        );
    }
    let _ = backend::BackendKeyData::parse(data);
    let _ = backend::ParameterStatus::parse(data);
    let _ = backend::ReadyForQuery::parse(data);
    let _ = backend::NotificationResponse::parse(data);
    let _ = backend::CommandComplete::parse(data);
    if let Ok(negotiate) = backend::NegotiateProtocolVersion::parse(data) {
        assert!(
            negotiate.options.count() <= data.len(),
            "more options than bytes"
        );
    }
    if let Ok(fields) = backend::ErrorFields::parse(data) {
        let _ = (fields.sqlstate(), fields.severity(), fields.message());
        assert!(fields.count() * 2 <= data.len(), "more fields than bytes");
    }
}
