//! Requests to sources. Each wait has a limit, and no answer is read beyond a size.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use ureq::config::ConfigBuilder;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;
use ureq::{Agent, Body, BodyReader, RequestBuilder, Timeout};
use weir_tls::web;

/// Limit of each step of a request: the look-up of the name, the connection, the request, the head and the body.
const STEP_MAX: Duration = Duration::from_secs(2);
/// Largest answer, and longest line of a stream, in bytes. A host takes some 200 bytes in Patroni's answer.
const ANSWER_MAX: u64 = 64 << 10;
/// Largest head of an answer, in bytes.
const HEAD_MAX: usize = 16 << 10;

/// Reason for which a source could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Failure {
    /// The server ended an answer that has no end.
    #[error("the server ended the stream")]
    Ended,
    /// The server cannot be reached, is silent, refuses the request, or does not speak HTTP.
    #[error(transparent)]
    Http(#[from] ureq::Error),
    /// The answer has another form than the tool's.
    #[error("unexpected answer: {0}")]
    Json(#[from] serde_json::Error),
    /// A line of a stream is too long.
    #[error("a line of the answer has more than {ANSWER_MAX} bytes")]
    LongLine,
    /// The database of a tool cannot be asked.
    #[error(transparent)]
    Sql(#[from] super::sql::SqlFailure),
    /// The server moves its pages, or has nothing to say.
    #[error("the server answers with status {0}")]
    Status(u16),
    /// The tool reports an error in an answer that is otherwise well formed.
    #[error("the tool reports an error: {0}")]
    Tool(String),
}

/// Client for one source.
#[derive(Debug, Clone)]
pub(super) struct Http {
    /// For answers that are read to their end.
    pages: Agent,
    /// For answers without an end.
    streams: Agent,
}

impl Http {
    /// Makes a client that trusts these certificates, in DER, for `https`.
    pub(super) fn new(roots: &[Vec<u8>]) -> Self {
        let roots = roots.iter();
        let roots: Vec<_> = roots
            .map(|der| Certificate::from_der(der).to_owned())
            .collect();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(web::cryptography())
            .build();
        let pages = config(tls.clone()).timeout_recv_body(Some(STEP_MAX));
        let streams = config(tls);
        Self {
            pages: pages.build().new_agent(),
            streams: streams.build().new_agent(),
        }
    }

    /// Ends the request under way, and all further ones, with an error. A look-up or a connection that has begun still
    /// takes its time, up to [`STEP_MAX`] each.
    pub(super) fn shutdown(self) {
        self.pages.shutdown();
        self.streams.shutdown();
    }

    /// Returns the body of a page.
    pub(super) fn get(
        &self,
        server: &str,
        path: &str,
        authorization: Option<&str>,
    ) -> Result<Vec<u8>, Failure> {
        let request = self.pages.get(format!("{server}{path}"));
        body(authorized(request, authorization).call()?)
    }

    /// Sends a text in JSON, and returns the body of the answer.
    pub(super) fn post(
        &self,
        server: &str,
        path: &str,
        authorization: Option<&str>,
        json: &str,
    ) -> Result<Vec<u8>, Failure> {
        let request = self.pages.post(format!("{server}{path}"));
        let request = authorized(request, authorization);
        body(request.content_type("application/json").send(json)?)
    }

    /// Sends a text in JSON, and returns the lines of the answer, which need not have an end. After `quiet` without a byte
    /// it is given up: its connection may be dead.
    pub(super) fn stream(
        &self,
        server: &str,
        path: &str,
        authorization: Option<&str>,
        json: &str,
        quiet: Duration,
    ) -> Result<Lines, Failure> {
        let request = self.streams.post(format!("{server}{path}"));
        let request = request.config().timeout_per_read(Some(quiet)).build();
        let request = authorized(request, authorization);
        let response = ok(request.content_type("application/json").send(json)?)?;
        let body = response.into_body().into_with_config();
        // Each line is limited instead.
        let reader = body.limit(u64::MAX).reader();
        Ok(Lines(BufReader::new(reader)))
    }
}

fn config(tls: TlsConfig) -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .tls_config(tls)
        // A proxy for web pages does not lead to the hosts of a database.
        .proxy(None)
        .max_redirects(0)
        .max_idle_connections(1)
        .max_response_header_size(HEAD_MAX)
        .timeout_resolve(Some(STEP_MAX))
        .timeout_connect(Some(STEP_MAX))
        .timeout_send_request(Some(STEP_MAX))
        .timeout_send_body(Some(STEP_MAX))
        .timeout_recv_response(Some(STEP_MAX))
        .user_agent("weir")
}

fn authorized<B>(request: RequestBuilder<B>, value: Option<&str>) -> RequestBuilder<B> {
    match value {
        Some(value) => request.header("Authorization", value),
        None => request,
    }
}

fn ok(response: Response<Body>) -> Result<Response<Body>, Failure> {
    match response.status().as_u16() {
        200 => Ok(response),
        status => Err(Failure::Status(status)),
    }
}

fn body(response: Response<Body>) -> Result<Vec<u8>, Failure> {
    let mut response = ok(response)?;
    let body = response.body_mut().with_config().limit(ANSWER_MAX);
    Ok(body.read_to_vec()?)
}

/// Lines of an answer.
pub(super) struct Lines(BufReader<BodyReader<'static>>);

impl Lines {
    /// Returns the next line; `None` if there was none for a while.
    ///
    /// # Errors
    /// The stream has ended or failed, or a line is too long.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut line = Vec::new();
        let mut limited = (&mut self.0).take(ANSWER_MAX);
        match limited.read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => Ok(Some(line)),
            Ok(_) if limited.limit() == 0 => Err(Failure::LongLine),
            Ok(_) => Err(Failure::Ended),
            Err(error) => match ureq::Error::from(error) {
                ureq::Error::Timeout(Timeout::PerRead) if line.is_empty() => Ok(None),
                error => Err(error.into()),
            },
        }
    }
}

/// Longest text of a source that the log shows, in characters.
const SHOWN_MAX: usize = 64;

/// Returns the text of a source for the log: shortened, and without control characters.
pub(super) fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_MAX).collect();
    start.escape_debug().to_string()
}
