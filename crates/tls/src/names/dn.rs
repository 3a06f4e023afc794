//! Distinguished names in the form of RFC 2253, exactly as OpenSSL prints them with `XN_FLAG_RFC2253`, because
//! PostgreSQL compares `clientname=DN` with that text.

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Any, ObjectIdentifier};
use x509_cert::der::{Encode, Tag, Tagged};
use x509_cert::name::Name;

use crate::certificate::hex;

/// OpenSSL's short names of attributes.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.3", "mail"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.2.840.113549.1.9.8", "unstructuredAddress"),
];

/// Formats the name: most specific part first, parts joined by `,` and values of one part by `+`.
pub(crate) fn rfc2253(name: &Name) -> String {
    let mut parts = name
        .iter_rdn()
        .map(|rdn| {
            // OpenSSL reverses the whole sequence, and the values within one part too.
            let mut values = rdn.iter().map(attribute).collect::<Vec<_>>();
            values.reverse();
            values.join("+")
        })
        .collect::<Vec<_>>();
    parts.reverse();
    parts.join(",")
}

/// Returns the text of an attribute of any string type; `None` if it is no string or broken.
pub(crate) fn text(value: &Any) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String
        | Tag::PrintableString
        | Tag::Ia5String
        | Tag::NumericString
        | Tag::VisibleString => std::str::from_utf8(bytes).ok().map(str::to_owned),
        // OpenSSL reads T61 as Latin-1, as programs write it in practice.
        Tag::TeletexString => Some(bytes.iter().copied().map(char::from).collect()),
        Tag::BmpString => {
            let units = bytes.chunks(2).map(|pair| match pair {
                [high, low] => Some(u16::from_be_bytes([*high, *low])),
                _ => None,
            });
            String::from_utf16(&units.collect::<Option<Vec<_>>>()?).ok()
        }
        _ => None,
    }
}

fn attribute(attribute: &AttributeTypeAndValue) -> String {
    let short = short_name(attribute.oid);
    let value = short.and_then(|_| text(&attribute.value));
    // RFC 2253, 2.4: a value without a string form is written as '#' and its encoding in hex.
    let value = value.map_or_else(|| encoded(&attribute.value), |text| escape(&text));
    match short {
        Some(name) => format!("{name}={value}"),
        None => format!("{}={value}", attribute.oid),
    }
}

fn short_name(oid: ObjectIdentifier) -> Option<&'static str> {
    let dotted = oid.to_string();
    SHORT_NAMES
        .iter()
        .find(|(known, _)| *known == dotted)
        .map(|(_, name)| *name)
}

fn encoded(value: &Any) -> String {
    let der = value.to_der().unwrap_or_default();
    format!("#{}", hex(&der).to_ascii_uppercase())
}

/// Escapes as in RFC 2253, 2.4. Control characters and all beyond ASCII are escaped byte by byte, as in OpenSSL.
fn escape(text: &str) -> String {
    let last = text.len().saturating_sub(1);
    let mut escaped = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        let special = match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => true,
            b'#' => at == 0,
            b' ' => at == 0 || at == last,
            _ => false,
        };
        if !(0x20..0x7f).contains(&byte) {
            escaped.push('\\');
            escaped.push_str(&hex(&[byte]).to_ascii_uppercase());
        } else {
            if special {
                escaped.push('\\');
            }
            escaped.push(char::from(byte));
        }
    }
    escaped
}
