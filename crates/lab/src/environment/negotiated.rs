//! Observes the TLS that the two connections of a target really use. The client's connection is
//! probed with the `openssl` program, the server connection by way of PostgreSQL's `pg_stat_ssl`.

use std::net::SocketAddr;
use std::process::Command;

use serde::Serialize;

use crate::access::Access;
use crate::error::Result;
use crate::postgres::Programs;
use crate::process::{find_program, run_to_end};

/// Protocol versions and ciphers, as the probes report them.
#[derive(Clone, Debug, Serialize)]
pub struct Negotiated {
    /// Version, cipher and key exchange between the `openssl` program and the target.
    pub client: String,
    /// Version and cipher of the connection that PostgreSQL answers on.
    pub server: String,
}

const AT_THE_SERVER: &str = "SELECT coalesce(version || '/' || cipher, 'none') \
                             FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

/// Probes a running target that has TLS to its clients.
///
/// # Errors
/// A program is missing, or the target refuses.
pub fn observe(
    programs: &Programs,
    address: SocketAddr,
    user: &str,
    database: &str,
    access: &Access,
) -> Result<Negotiated> {
    let mut command = Command::new(programs.path("psql")?);
    command.args(["-X", "-q", "-A", "-t"]);
    command.args(["-h", &address.ip().to_string()]);
    command.args(["-p", &address.port().to_string(), "-U", user]);
    command.args(["-c", AT_THE_SERVER, database]);
    access.apply(&mut command);
    let server = run_to_end(&mut command)?;
    Ok(Negotiated {
        client: at_the_client(address, access)?,
        server: server.trim().to_owned(),
    })
}

fn at_the_client(address: SocketAddr, access: &Access) -> Result<String> {
    let mut command = Command::new(find_program("openssl", &[])?);
    command.args(["s_client", "-starttls", "postgres", "-connect"]);
    command.arg(address.to_string());
    access.apply(&mut command);
    let text = run_to_end(&mut command)?;
    Ok(session(&text))
}

/// Extracts version, cipher and key exchange from the output of s_client.
fn session(text: &str) -> String {
    let cipher = text.lines().find(|line| line.contains("Cipher is "));
    let words: Vec<&str> = cipher.unwrap_or_default().split(", ").collect();
    let version = words.get(1).copied().unwrap_or("unknown version");
    let cipher = words
        .get(2)
        .and_then(|word| word.strip_prefix("Cipher is "))
        .unwrap_or("unknown cipher");
    // `X25519, 253 bits` or `ECDH, prime256v1, 256 bits`: the name stands before the size.
    let exchange = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Server Temp Key: "))
        .and_then(|value| value.rsplit(", ").nth(1))
        .unwrap_or("unknown exchange");
    format!("{version}/{cipher}/{exchange}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_found_in_the_words_of_s_client() {
        let text = "Peer signature type: RSA-PSS\nServer Temp Key: X25519, 253 bits\n---\n\
                    New, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384\n";
        assert_eq!(session(text), "TLSv1.3/TLS_AES_256_GCM_SHA384/X25519");
        let nist = text.replace("X25519, 253", "ECDH, prime256v1, 256");
        assert!(session(&nist).ends_with("/prime256v1"), "{nist}");
        assert_eq!(
            session(""),
            "unknown version/unknown cipher/unknown exchange"
        );
    }
}
