//! Client side of all password exchanges, written from the RFCs: it shares no code with Weir's.
//!
//! SCRAM-SHA-256: RFC 5802 and RFC 7677; channel binding `tls-server-end-point`: RFC 5929.

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::KeyInit;
use hmac::Mac;
use md5::Md5;
use sha2::Digest;
use sha2::Sha256;

use crate::Raw;
use crate::frontend;
use crate::raw::Message;

/// Use of channel binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Not used: flag `n`.
    #[default]
    No,
    /// Claim that the server did not offer it: flag `y`.
    NotOffered,
    /// `SCRAM-SHA-256-PLUS`.
    Yes,
}

/// Logs in with this password for every password request. Returns the methods that the server requested, such
/// as `10` for SASL.
///
/// # Errors
/// When the login is refused (`login refused: …`), or the server proves that it does not know the password.
pub fn login(
    raw: &mut Raw,
    user: &str,
    database: &str,
    password: &str,
    binding: Binding,
) -> Result<Option<i32>> {
    let parameters = [("user", user), ("database", database)];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &parameters))?;
    let first = raw.read_message()?;
    let method = match first.tag {
        b'R' => method(&first)?,
        b'E' => bail!("login refused: {}", first.error()),
        other => bail!("message {} instead of a method", other.escape_ascii()),
    };
    match method {
        0 => {
            raw.welcomed()?;
            return Ok(None);
        }
        3 => raw.send(&secret(password))?,
        5 => {
            let salt = first.body.get(4..8).context("no salt")?;
            raw.send(&secret(&md5_answer(user, password, salt)))?;
        }
        10 => scram(raw, &first, password, binding)?,
        other => bail!("method {other}"),
    }
    raw.welcomed()?;
    Ok(Some(method))
}

fn method(message: &Message) -> Result<i32> {
    let number = message.body.first_chunk::<4>().context("no method")?;
    Ok(i32::from_be_bytes(*number))
}

fn secret(text: &str) -> Vec<u8> {
    frontend::message(b'p', &[text.as_bytes(), b"\0"].concat())
}

/// Secret in PostgreSQL's md5 format: `md5` and the digest of password and user.
#[must_use]
pub fn md5_secret(user: &str, password: &str) -> String {
    format!("md5{}", hex(&Md5::digest(format!("{password}{user}"))))
}

fn md5_answer(user: &str, password: &str, salt: &[u8]) -> String {
    let stored = md5_secret(user, password);
    let inner = stored.trim_start_matches("md5").as_bytes();
    format!("md5{}", hex(&Md5::digest([inner, salt].concat())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Secret that PostgreSQL would store for this password.
#[must_use]
pub fn scram_secret(password: &str, salt: &[u8], iterations: u32) -> String {
    let salted = salted(password, salt, iterations);
    let stored = Sha256::digest(keyed(&salted, b"Client Key"));
    format!(
        "SCRAM-SHA-256${iterations}:{}${}:{}",
        BASE64_STANDARD.encode(salt),
        BASE64_STANDARD.encode(stored),
        BASE64_STANDARD.encode(keyed(&salted, b"Server Key")),
    )
}

fn salted(password: &str, salt: &[u8], iterations: u32) -> [u8; 32] {
    pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), salt, iterations)
}

fn keyed(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = hmac::Hmac::<Sha256>::new_from_slice(key).expect("any length is a key");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// `SASLInitialResponse`.
#[must_use]
pub fn sasl_initial(mechanism: &str, first: &str) -> Vec<u8> {
    let length = u32::try_from(first.len()).unwrap_or(0).to_be_bytes();
    let parts = [mechanism.as_bytes(), b"\0", &length, first.as_bytes()];
    frontend::message(b'p', &parts.concat())
}

/// Hash of the server's certificate; SHA-256 is right for all certificates that the suites use here.
///
/// # Errors
/// When the connection has no TLS.
pub fn end_point(raw: &Raw) -> Result<Vec<u8>> {
    let tls = raw.tls().context("channel binding without TLS")?;
    let certificates = tls.peer_certificates().context("no certificate")?;
    let own = certificates.first().context("no certificate")?;
    Ok(Sha256::digest(own).to_vec())
}

fn scram(raw: &mut Raw, offer: &Message, password: &str, binding: Binding) -> Result<()> {
    let scram = match binding {
        Binding::No => Scram::new("SCRAM-SHA-256", "n,,"),
        Binding::NotOffered => Scram::new("SCRAM-SHA-256", "y,,"),
        Binding::Yes => Scram {
            data: end_point(raw)?,
            ..Scram::new("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,")
        },
    };
    let offered = mechanisms(offer);
    ensure!(
        offered.iter().any(|name| name == scram.mechanism),
        "{} is not offered, only {offered:?}",
        scram.mechanism
    );
    scram.exchange(raw, password)
}

/// A SCRAM exchange in which every part of channel binding can be chosen, honest or not.
#[derive(Clone, Debug)]
pub struct Scram<'a> {
    /// Requested mechanism.
    pub mechanism: &'a str,
    /// Header of the first message, such as `n,,`.
    pub header: &'a str,
    /// Header as the last message repeats it.
    pub repeated: &'a str,
    /// Data to bind to.
    pub data: Vec<u8>,
}

impl<'a> Scram<'a> {
    /// Exchange without channel binding.
    #[must_use]
    pub fn new(mechanism: &'a str, header: &'a str) -> Self {
        Self {
            mechanism,
            header,
            repeated: header,
            data: Vec::new(),
        }
    }

    /// Runs the exchange from the answer to `AuthenticationSASL` to `AuthenticationSASLFinal`.
    ///
    /// # Errors
    /// When the login is refused, or the server proves that it does not know the password.
    pub fn exchange(&self, raw: &mut Raw, password: &str) -> Result<()> {
        exchange(raw, self, password)
    }
}

fn exchange(raw: &mut Raw, scram: &Scram<'_>, password: &str) -> Result<()> {
    let (mechanism, header) = (scram.mechanism, scram.header);
    let bare = "n=,r=0123456789abcdefghijklmn";
    raw.send(&sasl_initial(mechanism, &format!("{header}{bare}")))?;
    let server_first = sasl_text(&raw.read_message()?, 11)?;
    let (nonce, salt, iterations) = parse_first(&server_first)?;
    let bound = BASE64_STANDARD.encode([scram.repeated.as_bytes(), &scram.data].concat());
    let without_proof = format!("c={bound},r={nonce}");
    let signed = format!("{bare},{server_first},{without_proof}");
    let salted = salted(password, &salt, iterations);
    let client_key = keyed(&salted, b"Client Key");
    let signature = keyed(&Sha256::digest(&client_key), signed.as_bytes());
    let proof: Vec<u8> = client_key
        .iter()
        .zip(signature)
        .map(|(a, b)| a ^ b)
        .collect();
    let last = format!("{without_proof},p={}", BASE64_STANDARD.encode(proof));
    raw.send(&frontend::message(b'p', last.as_bytes()))?;
    let server_last = sasl_text(&raw.read_message()?, 12)?;
    let wanted = keyed(&keyed(&salted, b"Server Key"), signed.as_bytes());
    ensure!(
        server_last == format!("v={}", BASE64_STANDARD.encode(wanted)),
        "the server does not know the password"
    );
    Ok(())
}

/// Names of the mechanisms in `AuthenticationSASL`.
#[must_use]
pub fn mechanisms(offer: &Message) -> Vec<String> {
    let names = offer.body.get(4..).unwrap_or_default();
    let names = names.split(|byte| *byte == 0);
    names
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

fn sasl_text(message: &Message, wanted: i32) -> Result<String> {
    if message.tag == b'E' {
        bail!("login refused: {}", message.error());
    }
    ensure!(method(message)? == wanted, "{message:?}");
    let text = message.body.get(4..).unwrap_or_default();
    Ok(String::from_utf8(text.to_vec())?)
}

fn parse_first(text: &str) -> Result<(&str, Vec<u8>, u32)> {
    let part = |name: &str| {
        let found = text.split(',').find_map(|part| part.strip_prefix(name));
        found.with_context(|| format!("no {name} in {text}"))
    };
    let salt = BASE64_STANDARD.decode(part("s=")?)?;
    Ok((part("r=")?, salt, part("i=")?.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vector of RFC 7677, part 3: user `user`, password `pencil`.
    #[test]
    fn secrets_are_those_of_the_rfc() {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let secret = scram_secret("pencil", &salt, 4096);
        assert_eq!(
            secret,
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
             wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        assert_eq!(md5_secret("u", "p").len(), 35);
    }
}
