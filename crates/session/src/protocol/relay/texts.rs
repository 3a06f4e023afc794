//! Texts of a batch that is about to run, and a setting that Weir itself gives to a session.

use std::sync::Arc;

use weir_wire::before_nul;
use weir_wire::encode;
use weir_wire::frame::{HEADER_LEN, Side, header};
use weir_wire::frontend::{self, tag};

use super::Batch;
use crate::client::Client;
use crate::expected::Duty;
use crate::server::Server;
use crate::settings::Settings;
use crate::splice::Splice;

/// Returns true if a text passes a test: one in the batch itself, or the text of a prepared statement that the batch
/// binds. Messages that have not arrived to their end are not read.
#[must_use]
pub fn any_text(batch: &Batch<'_>, client: &Client, test: &dyn Fn(&[u8]) -> bool) -> bool {
    let end = batch.extent().len.min(batch.input.len());
    let mut rest = batch.input.get(..end).unwrap_or_default();
    while let Ok(Some(header)) = header(rest, Side::Frontend)
        && let Some(body) = rest.get(HEADER_LEN..header.total_len())
    {
        let is_found = match header.tag {
            tag::QUERY => frontend::Query::parse(body).is_ok_and(|query| test(query.sql)),
            tag::PARSE => frontend::Parse::parse(body).is_ok_and(|parse| test(parse.sql)),
            tag::BIND => match frontend::Bind::head(body) {
                Ok(Some(head)) => prepared(client, head.statement).is_some_and(test),
                Ok(None) | Err(_) => false,
            },
            _ => false,
        };
        if is_found {
            return true;
        }
        rest = rest.get(header.total_len()..).unwrap_or_default();
    }
    false
}

/// Returns the text of a prepared statement of earlier batches.
fn prepared<'c>(client: &'c Client, name: &[u8]) -> Option<&'c [u8]> {
    let known = match name {
        b"" => client.unnamed_stand_in(),
        name => client.statement(name).and_then(|(_, known)| known),
    };
    if let Some(known) = known {
        return Some(known.text());
    }
    let (_, body) = client.current_unnamed();
    name.is_empty().then(|| before_nul(body))
}

impl Client {
    /// Refuses wrong values for the settings `weir.*` from now on: the session's database has several hosts.
    pub fn check_own_settings(&mut self) {
        self.checks_own_settings = true;
    }

    /// Gives the session a value for a setting, or takes it away. Its next server gets the value before its requests.
    pub fn give_setting(&mut self, name: &str, value: Option<&str>) {
        if self.settings.get(name) != value {
            let settings = Arc::make_mut(&mut self.settings);
            change(settings, name, value);
        }
    }
}

/// Gives a session a value for a setting, or takes it away, on the server that it holds. The server is idle. Further
/// requests wait until the server has confirmed the value.
///
/// # Errors
/// Fails if the value contains a NUL.
pub fn give_setting_now(
    client: &mut Client,
    server: &mut Server,
    (name, value): (&str, Option<&str>),
    to_server: &mut Splice<'_>,
) -> Result<(), encode::EncodeError> {
    client.give_setting(name, value);
    if server.settings.get(name) == value {
        return Ok(());
    }
    let sql = Settings::statement_or_reset(name, value);
    server.require(sql, Duty::Swallow, to_server.insert())?;
    change(Arc::make_mut(&mut server.settings), name, value);
    Ok(())
}

fn change(settings: &mut Settings, name: &str, value: Option<&str>) {
    match value {
        Some(value) => settings.set(name, value),
        None => settings.unset(name),
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::say::say;

    use super::*;

    fn is_found(input: &[u8]) -> bool {
        let has_mark = |text: &[u8]| text.ends_with(b"mark");
        any_text(&Batch::scan(input), &Client::default(), &has_mark)
    }

    #[test]
    fn texts_of_the_first_batch_are_tested() {
        assert!(is_found(&say().query("select mark")));
        assert!(is_found(&say().parse("s", "a").parse("t", "mark").sync()));
        assert!(!is_found(&say().parse("mark", "a").run("mark").sync()));
        assert!(!is_found(&say().query("a").query("mark")));
        assert!(!is_found(
            &say().parse("s", "a").sync().parse("s", "mark").sync()
        ));
        let whole = say().query("mark");
        for cut in 0..whole.len() {
            assert!(!is_found(whole.get(..cut).unwrap()), "at {cut}");
        }
    }

    #[test]
    fn a_given_setting_reaches_the_server_once_and_is_taken_away() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let mut give = |value: Option<&str>| {
            let mut buffer = Vec::new();
            let mut out = Splice::new(b"", &mut buffer);
            give_setting_now(&mut client, &mut server, ("a.b", value), &mut out).unwrap();
            String::from_utf8_lossy(out.finish()).into_owned()
        };
        assert!(give(Some("1")).contains(r#"SET "a"."b" TO E'1'"#));
        assert_eq!(give(Some("1")), "");
        assert!(give(None).contains(r#"RESET "a"."b""#));
        assert_eq!(give(None), "");
        assert!(client.settings.is_empty() && server.settings.is_empty());
    }
}
