//! Helpers of the login tests: psql with a name and a password, and the first messages of a login by hand.

use std::time::Duration;

use anyhow::Result;
use weir_conformance::Raw;
use weir_conformance::frontend;
use weir_conformance::psql::psql;
use weir_conformance::raw::Message;
use weir_conformance::tools;

/// Time limit, generous because the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const PASSWORD: &str = "correct horse";

/// Runs `select 'inside'` as this user; `None` sends no password. Returns all output.
pub(crate) fn attempt(
    port: u16,
    user: &str,
    password: Option<&str>,
    database: &str,
) -> Result<String> {
    let mut psql = psql(port, database)?;
    psql.args(["-U", user, "-w", "-At", "-v", "VERBOSITY=verbose"]);
    psql.args(["-c", "select 'inside as ' || current_user"]);
    if let Some(password) = password {
        psql.env("PGPASSWORD", password);
    }
    psql.env("PGSSLMODE", "disable")
        .env("PGPASSFILE", "/dev/null");
    Ok(tools::run_any(&mut psql)?.0)
}

/// Fails unless the attempt was accepted.
pub(crate) fn inside(what: &str, output: &str) -> Result<()> {
    anyhow::ensure!(output.contains("inside as "), "{what}: {output}");
    Ok(())
}

/// Fails unless the attempt was refused with this text.
pub(crate) fn outside(what: &str, output: &str, text: &str) -> Result<()> {
    let refused = !output.contains("inside as ") && output.contains(text);
    anyhow::ensure!(refused, "{what}: wanted {text:?}, got {output}");
    Ok(())
}

/// Sends the start-up message and returns the next message.
pub(crate) fn begin(port: u16, user: &str, database: &str) -> Result<(Raw, Message)> {
    let mut raw = Raw::tcp(port, PATIENCE)?;
    let parameters = [("user", user), ("database", database)];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &parameters))?;
    let asked = raw.read_message()?;
    Ok((raw, asked))
}

/// First SCRAM message of a client.
pub(crate) fn scram_first(nonce: &str) -> Vec<u8> {
    let first = format!("n,,n=,r={nonce}");
    let length = u32::try_from(first.len()).unwrap_or(0).to_be_bytes();
    frontend::message(
        b'p',
        &[b"SCRAM-SHA-256\0", &length[..], first.as_bytes()].concat(),
    )
}

/// Last SCRAM message of a client, in answer to the server's first, with an invalid proof.
pub(crate) fn scram_wrong(server_first: &Message) -> Vec<u8> {
    let text = String::from_utf8_lossy(server_first.body.get(4..).unwrap_or_default());
    let nonce = text.split(',').next().unwrap_or_default().to_owned();
    let last = format!("c=biws,{nonce},p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    frontend::message(b'p', last.as_bytes())
}

/// `PasswordMessage`.
pub(crate) fn password(text: &str) -> Vec<u8> {
    frontend::message(b'p', &[text.as_bytes(), b"\0"].concat())
}
