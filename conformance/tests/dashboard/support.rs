//! A Weir with a dashboard, requests without a browser, and sessions for a browser.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use base64::Engine;
use sha2::Digest;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::browser::Page;
use weir_conformance::login;
use weir_conformance::tools;

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Version of the rules of accessibility, and the SHA-256 of their script in npm's package.
const AXE: &str = "axe-core@4.14.1";
const AXE_SHA256: &str = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c";

/// Weir whose clients need no password, while its dashboard knows three users: Ann administers, Bob reads, Eve has a
/// password and no right. Each password is the name with an exclamation mark.
pub(crate) struct Dashed {
    pub(crate) weir: Weir,
    pub(crate) address: SocketAddr,
    _postgres: Arc<Postgres>,
    _files: TempDir,
}

impl Dashed {
    pub(crate) fn start(change: impl FnOnce(Config) -> Config) -> Result<Self> {
        let postgres = Postgres::shared()?;
        let files = TempDir::new()?;
        let hba = files.write("hba.conf", "host all all 127.0.0.1/32 trust\n")?;
        let port = tools::free_port()?;
        let scram = login::scram_secret("ann!", b"0123456789abcdef", 4096);
        let md5 = login::md5_secret("bob", "bob!");
        let users = format!(
            "\"postgres\" \"\"\n\"ann\" \"{scram}\"\n\"bob\" \"{md5}\"\n\"eve\" \"eve!\"\n"
        );
        let config = Config::to(postgres.port())
            .set("auth_type", "hba")
            .set("auth_hba_file", &hba.to_string_lossy())
            .set("admin_users", "postgres, ann")
            .set("stats_users", "bob")
            .set("dashboard_listen", &format!("127.0.0.1:{port}"))
            .userlist(&users);
        Ok(Self {
            weir: Weir::start(&change(config))?,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            _postgres: postgres,
            _files: files,
        })
    }

    /// Logs a client with this application_name in.
    pub(crate) fn client(&self, application: &str) -> Result<Raw> {
        Raw::connect_with(
            self.weir.port(),
            &[
                ("user", "postgres"),
                ("database", "postgres"),
                ("application_name", application),
            ],
        )
    }
}

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends a request with these headers; `Host` is the address unless they have it.
pub(crate) fn send(
    address: SocketAddr,
    line: &str,
    headers: &[&str],
    body: &str,
) -> Result<Answer> {
    let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        text.push_str(&format!("Host: {address}\r\n"));
    }
    for header in headers {
        text.push_str(&format!("{header}\r\n"));
    }
    if !body.is_empty() {
        let kind = "Content-Type: application/x-www-form-urlencoded";
        text.push_str(&format!("{kind}\r\nContent-Length: {}\r\n", body.len()));
    }
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{text}\r\n{body}").as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?;
    Ok(Answer {
        status: status.parse()?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// Header with the password of a script.
pub(crate) fn basic(user: &str) -> String {
    let pair = format!("{user}:{user}!");
    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
    format!("Authorization: Basic {encoded}")
}

/// Signs a user in without a browser; returns the cookie's value.
pub(crate) fn sign_in(address: SocketAddr, user: &str) -> Result<String> {
    let body = format!("user={user}&password={user}%21&next=%2F");
    let answer = send(address, "POST /login", &[], &body)?;
    ensure!(answer.status == 303, "{answer:?}");
    let mut lines = answer.head.lines();
    let cookie = lines.find_map(|line| line.strip_prefix("set-cookie: weir="));
    let value = cookie.and_then(|cookie| cookie.split(';').next());
    Ok(value.context("no cookie")?.to_owned())
}

/// Gives a tab the session of a user.
pub(crate) fn admit(page: &mut Page<'_>, address: SocketAddr, user: &str) -> Result<()> {
    let cookie = sign_in(address, user)?;
    page.set_cookie(&format!("http://{address}/"), "weir", &cookie)
}

/// Waits until the stream of a page has told this many further things.
pub(crate) fn live(page: &mut Page<'_>) -> Result<i64> {
    let at = page.until("document.documentElement.dataset.live")?;
    Ok(at.as_str().context("no time")?.parse()?)
}

/// Checks that a tab has had nothing to complain of.
pub(crate) fn quiet(page: &Page<'_>) -> Result<()> {
    // A page closes its own stream when its filter changes.
    let is_own = |text: &String| text.contains("\"canceled\":true") && text.contains("EventSource");
    let complaints: Vec<String> = page.complaints().filter(|text| !is_own(text)).collect();
    ensure!(complaints.is_empty(), "{complaints:#?}");
    Ok(())
}

/// Place for a picture, which a person may look at after the run.
pub(crate) fn picture(name: &str) -> Result<PathBuf> {
    Ok(tools::cache_dir("dashboard")?.join(format!("{name}.png")))
}

/// The rules of accessibility: axe-core, fetched once.
pub(crate) fn axe() -> Result<String> {
    let directory = tools::cache_dir("axe-core")?;
    let file = directory.join("package/axe.min.js");
    if !file.is_file() {
        tools::require("npm", "npm")?;
        let mut npm = std::process::Command::new("npm");
        tools::run(npm.args(["pack", "--silent", AXE]).current_dir(&directory))?;
        let mut tar = std::process::Command::new("tar");
        tar.args(["xzf", "axe-core-4.14.1.tgz"]);
        tools::run(tar.current_dir(&directory))?;
    }
    let script = fs::read(&file)?;
    let hash = sha2::Sha256::digest(&script);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(hex == AXE_SHA256, "{} has SHA-256 {hex}", file.display());
    Ok(String::from_utf8(script)?)
}
