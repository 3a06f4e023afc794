//! Which TLS the two hops of a target really use. Asked from outside (the `openssl` program at the
//! client hop, PostgreSQL's own books at the server hop), and beside it what the pooler says.

use std::net::SocketAddr;
use std::process::Command;

use serde::Serialize;

use crate::access::Access;
use crate::error::Result;
use crate::postgres::Programs;
use crate::process::{find_program, run_to_end};

/// Versions and ciphers, in the words of who was asked.
#[derive(Clone, Debug, Serialize)]
pub struct Negotiated {
    /// Version, cipher and key exchange between libpq's TLS library and the target.
    pub client: String,
    /// Version and cipher of the connection that PostgreSQL answers on.
    pub server: String,
    /// The column `tls` of SHOW CLIENTS and SHOW SERVERS; none of a target without a console.
    pub clients_shown: Option<String>,
    /// See above.
    pub servers_shown: Option<String>,
}

const AT_THE_SERVER: &str = "SELECT coalesce(version || '/' || cipher, 'none') \
                             FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

/// Looks at a target that runs and has TLS on both hops. `console` says whether it has PgBouncer's console.
///
/// # Errors
/// A program is missing, or the target refuses.
pub fn observe(
    programs: &Programs,
    address: SocketAddr,
    user: &str,
    database: &str,
    access: &Access,
    console: bool,
) -> Result<Negotiated> {
    let psql = |database: &str, sql: &str| {
        let mut command = Command::new(programs.path("psql")?);
        command.args(["-X", "-q", "-A", "-F", "\t", "-P", "footer=off"]);
        command.args(["-h", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string(), "-U", user]);
        command.args(["-c", sql, database]);
        access.apply(&mut command);
        run_to_end(&mut command)
    };
    let server = psql(database, AT_THE_SERVER)?;
    let shown = |sql: &str| match console {
        true => psql("pgbouncer", sql).ok().map(|text| column(&text, "tls")),
        false => None,
    };
    Ok(Negotiated {
        client: at_the_client(address, access)?,
        server: server.lines().nth(1).unwrap_or_default().to_owned(),
        clients_shown: shown("SHOW CLIENTS"),
        servers_shown: shown("SHOW SERVERS"),
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

/// Version, cipher and key exchange out of s_client's words.
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

/// The different values of a column of psql's unaligned table, without empty ones.
fn column(table: &str, name: &str) -> String {
    let mut lines = table.lines().map(|line| line.split('\t'));
    let place = lines
        .next()
        .and_then(|mut header| header.position(|cell| cell == name));
    let Some(place) = place else {
        return "no such column".to_owned();
    };
    let mut values: Vec<&str> = lines
        .filter_map(|mut row| row.nth(place))
        .filter(|value| !value.is_empty())
        .collect();
    values.sort_unstable();
    values.dedup();
    if values.is_empty() {
        return "none".to_owned();
    }
    values.join(", ")
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

    #[test]
    fn a_column_is_found_by_name_wherever_it_stands() {
        let table = "type\ttls\tport\nC\tA\t1\nC\tB\t2\nC\tA\t3\nC\t\t4\n";
        assert_eq!(column(table, "tls"), "A, B");
        assert_eq!(column("type\ttls\nC\t\n", "tls"), "none");
        assert_eq!(column("type\nC\n", "tls"), "no such column");
    }
}
