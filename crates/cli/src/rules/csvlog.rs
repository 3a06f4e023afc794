//! Reader of PostgreSQL's log with `log_destination = csvlog`.

use std::io::{self, Read};

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::log::statement;
use super::tally::{Client, Seen};

/// Places of fields, the same in all versions of PostgreSQL since 9.0.
const USER: usize = 1;
const DATABASE: usize = 2;
const SEVERITY: usize = 11;
const MESSAGE: usize = 13;
const APPLICATION: usize = 22;

/// Calls `visit` with each text that the log says was executed.
///
/// # Errors
/// The log cannot be read.
pub(super) fn read(input: &mut dyn Read, visit: &mut dyn FnMut(Seen<'_>)) -> io::Result<()> {
    let mut records = reader(input);
    let mut record = ByteRecord::new();
    while records.read_byte_record(&mut record)? {
        let field = |place: usize| record.get(place).unwrap_or_default();
        if field(SEVERITY) != b"LOG" {
            continue;
        }
        let Some(logged) = statement(field(MESSAGE)) else {
            continue;
        };
        let name = |place: usize| record.get(place).and_then(|name| str::from_utf8(name).ok());
        visit(Seen {
            text: logged.text,
            is_whole: true,
            client: Client {
                database: name(DATABASE),
                user: name(USER),
                application: name(APPLICATION),
            },
            calls: 1,
            server_us: logged.server_us,
            ..Seen::default()
        });
    }
    Ok(())
}

/// True if a text begins with a record of such a log.
pub(super) fn is_csvlog(begin: &[u8]) -> bool {
    let mut record = ByteRecord::new();
    let has_record = reader(begin).read_byte_record(&mut record).unwrap_or(false);
    let severity = record.get(SEVERITY).unwrap_or_default();
    has_record
        && record.len() > APPLICATION
        && !severity.is_empty()
        && severity.iter().all(u8::is_ascii_alphanumeric)
}

fn reader<R: Read>(input: R) -> Reader<R> {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true);
    builder.from_reader(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-11-01 10:00:00.000 UTC,\"ann\",\"shop\",77,\"10.0.0.9:5000\",65.1,3,\"SELECT\",2026-11-01 09:00:00 UTC,3/5,0,LOG,00000,\
\"duration: 12.500 ms  execute s1: SELECT \"\"a\"\",
 b FROM t\",\"parameters: $1 = '7'\",,,,,,,,\"report, daily\",\"client backend\",,0
2026-11-01 10:00:01.000 UTC,\"ann\",\"shop\",77,\"[local]\",65.1,4,\"SELECT\",2026-11-01 09:00:00 UTC,3/5,0,ERROR,42P01,\
\"relation does not exist\",,,,,,\"SELECT * FROM gone\",15,,\"psql\",\"client backend\",,0
";

    #[test]
    fn statements_come_with_the_names_of_their_clients() {
        assert!(is_csvlog(LOG.as_bytes()));
        let mut found = Vec::new();
        read(&mut LOG.as_bytes(), &mut |seen| {
            let client = seen.client;
            found.push((
                String::from_utf8_lossy(seen.text).into_owned(),
                [client.database, client.user, client.application]
                    .map(|name| name.unwrap().to_owned()),
                seen.server_us,
            ));
        })
        .unwrap();
        let names = ["shop", "ann", "report, daily"].map(str::to_owned);
        let text = "SELECT \"a\",\n b FROM t".to_owned();
        assert_eq!(found, [(text, names, Some(12_500))]);
    }

    #[test]
    fn other_texts_are_no_csvlog() {
        for text in [
            "",
            "SELECT 1, 2, 3;\n",
            "a,b\n",
            "2026 LOG:  statement: SELECT 1\n",
        ] {
            assert!(!is_csvlog(text.as_bytes()), "{text}");
        }
    }
}
