//! Texts that query rules rewrite, as they arrive. All else that looks at a client's input sees the new text only.

use weir_wire::encode;
use weir_wire::frame::{HEADER_LEN, Side, header};
use weir_wire::frontend::{Parse, tag};

use super::Worker;
use super::ids::ClientId;
use super::ruling::ruling;
use super::slots::Phase;
use crate::driver::Driver;

/// Length in bytes of the longest message that may be rewritten. Until the end of such a message has come, nothing of it is
/// passed on.
const MESSAGE_MAX: usize = weir_session::relay::STREAM_MIN;

/// Position in the messages of a client whose texts may be rewritten.
#[derive(Debug, Default)]
pub(super) struct Rewriter {
    /// Beginning of a message whose end has not come.
    held: Vec<u8>,
    /// Number of bytes of a message that have still to come and are passed on.
    owed: u64,
}

impl Rewriter {
    /// Rewrites the texts in `bytes`. None if all bytes stay as they are.
    fn pass(
        &mut self,
        bytes: &[u8],
        rewrite: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let held = std::mem::take(&mut self.held);
        let mut is_changed = !held.is_empty();
        let joined;
        let input = if held.is_empty() {
            bytes
        } else {
            joined = [&*held, bytes].concat();
            &joined
        };
        let mut out = Vec::new();
        let mut at = 0;
        // End of what was copied so far.
        let mut copied = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if self.owed > 0 {
                let here = usize::try_from(self.owed)
                    .unwrap_or(usize::MAX)
                    .min(rest.len());
                self.owed -= here as u64;
                at += here;
                if self.owed > 0 {
                    break;
                }
                continue;
            }
            let header = match header(rest, Side::Frontend) {
                Ok(Some(header)) => header,
                Ok(None) => {
                    self.held = rest.to_vec();
                    break;
                }
                // Whoever reads it next refuses it.
                Err(_) => {
                    at = input.len();
                    break;
                }
            };
            let total = header.total_len();
            let has_text = matches!(header.tag, tag::QUERY | tag::PARSE) && total <= MESSAGE_MAX;
            match rest.get(HEADER_LEN..total) {
                None if has_text => {
                    self.held = rest.to_vec();
                    break;
                }
                Some(body) if has_text => {
                    if let Some(message) = rewritten(header.tag, body, rewrite) {
                        out.extend_from_slice(input.get(copied..at).unwrap_or_default());
                        out.extend_from_slice(&message);
                        copied = at + total;
                        is_changed = true;
                    }
                    at += total;
                }
                _ => self.owed = total as u64,
            }
        }
        is_changed |= !self.held.is_empty();
        if !is_changed {
            return None;
        }
        out.extend_from_slice(input.get(copied..at).unwrap_or_default());
        Some(out)
    }

    /// Returns the place in a client's messages behind these bytes, of which the first `owed` end a message. What has begun
    /// without its header is held.
    fn behind(owed: u64, input: &mut Vec<u8>) -> Self {
        let mut rewriter = Self::default();
        let mut at = usize::try_from(owed).unwrap_or(usize::MAX);
        loop {
            let Some(rest) = input.get(at..) else {
                rewriter.owed = (at - input.len()) as u64;
                return rewriter;
            };
            match header(rest, Side::Frontend) {
                Ok(Some(header)) => at += header.total_len(),
                Ok(None) => {
                    rewriter.held = input.split_off(at);
                    return rewriter;
                }
                Err(_) => return rewriter,
            }
        }
    }
}

/// Returns a message with another text, if there is one.
fn rewritten(
    tag: u8,
    body: &[u8],
    rewrite: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    if tag == tag::QUERY {
        let text = rewrite(body.strip_suffix(b"\0")?)?;
        encode::query(&mut message, &text).ok()?;
        return Some(message);
    }
    let parse = Parse::parse(body).ok()?;
    let text = rewrite(parse.sql)?;
    let types = body.get(parse.name.len() + parse.sql.len() + 2..)?;
    encode::parse(&mut message, parse.name, &text, types).ok()?;
    Some(message)
}

impl<D: Driver> Worker<D> {
    /// Rewrites the texts that a client has just sent. None if they stay as they are.
    #[inline]
    pub(super) fn rewrite(&mut self, id: ClientId, bytes: &[u8]) -> Option<Vec<u8>> {
        let client = self.tables.clients.must_get(id)?;
        if !self.has_rewrites && client.rewriter.is_none() {
            return None;
        }
        self.rewrite_by_rules(id, bytes)
    }

    #[cold]
    fn rewrite_by_rules(&mut self, id: ClientId, bytes: &[u8]) -> Option<Vec<u8>> {
        let luck = self.luck();
        let client = self.tables.clients.must_get_mut(id)?;
        if !matches!(client.phase, Phase::Ready) {
            return None;
        }
        let group = self.tables.groups.must_get_mut(client.group)?;
        let may_rewrite = match &group.query_rules {
            Some(rules) => {
                client.fit_rules(rules);
                client.rules.as_ref().is_some_and(|rules| rules.rewrite)
            }
            None => false,
        };
        if !may_rewrite {
            let rewriter = client.rewriter.take()?;
            return (!rewriter.held.is_empty()).then(|| [&*rewriter.held, bytes].concat());
        }
        let mut ruling = ruling(
            &mut group.query_rules,
            &client.rules,
            &self.tables.shaper,
            luck,
        )?;
        let rewriter = client.rewriter.get_or_insert_with(|| {
            let owed = client.session.owed_bytes() as u64;
            Box::new(Rewriter::behind(owed, &mut client.input))
        });
        rewriter.pass(bytes, &mut |text| ruling.rewrite(text))
    }

    /// Rewrites the texts that a client has sent before it was logged in.
    #[inline]
    pub(super) fn rewrite_first(&mut self, id: ClientId) {
        if !self.has_rewrites {
            return;
        }
        let Some(client) = self.tables.clients.get_mut(id) else {
            return;
        };
        let is_first = client.rewriter.is_none()
            && matches!(client.phase, Phase::Ready)
            && client.lease.is_none()
            && client.ticket.is_none()
            && !client.is_throttled();
        if !is_first || client.input.is_empty() {
            return;
        }
        let input = std::mem::take(&mut client.input);
        let rewritten = self.rewrite(id, &input);
        if let Some(client) = self.tables.clients.must_get_mut(id) {
            client.input = rewritten.unwrap_or(input);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::say::say;

    fn pass(rewriter: &mut Rewriter, bytes: &[u8]) -> Option<Vec<u8>> {
        rewriter.pass(bytes, &mut |text| {
            (text == b"old").then(|| b"new text".to_vec())
        })
    }

    #[test]
    fn texts_are_rewritten_wherever_a_receive_cuts_them() {
        let long = "x".repeat(MESSAGE_MAX);
        let before = [
            say().query("old").into_bytes(),
            say()
                .parse("s", "old")
                .bind("", "s")
                .execute("", 0)
                .sync()
                .into_bytes(),
            say().query(&long).query("older").into_bytes(),
            say().query("old").into_bytes(),
        ]
        .concat();
        let after = [
            say().query("new text").into_bytes(),
            say()
                .parse("s", "new text")
                .bind("", "s")
                .execute("", 0)
                .sync()
                .into_bytes(),
            say().query(&long).query("older").into_bytes(),
            say().query("new text").into_bytes(),
        ]
        .concat();
        let step = before.len() / 97 + 1;
        for cut in (0..before.len()).filter(|cut| *cut < 200 || cut % step == 0) {
            let mut rewriter = Rewriter::default();
            let mut out = Vec::new();
            for part in [&before[..cut], &before[cut..]] {
                out.extend(pass(&mut rewriter, part).unwrap_or_else(|| part.to_vec()));
            }
            assert!(out == after, "cut at {cut}");
        }
    }

    #[test]
    fn what_no_rule_changes_is_not_copied() {
        let mut rewriter = Rewriter::default();
        let batch = say().parse("", "a").run("").sync().into_bytes();
        assert_eq!(pass(&mut rewriter, &batch), None);
        assert_eq!(pass(&mut rewriter, b"?"), Some(Vec::new()), "held");
    }

    #[test]
    fn a_rule_that_comes_later_begins_at_the_next_message() {
        let batch = say().query("old").query("old").into_bytes();
        for cut in 0..batch.len() {
            let mut input = batch[..cut].to_vec();
            let mut rewriter = Rewriter::behind(0, &mut input);
            let rest = &batch[cut..];
            let out = pass(&mut rewriter, rest).unwrap_or_else(|| rest.to_vec());
            input.extend(out);
            let whole = |texts: [&str; 2]| say().query(texts[0]).query(texts[1]).into_bytes();
            let first = whole(["old", "new text"]);
            let both = whole(["new text", "new text"]);
            let none = whole(["old", "old"]);
            assert!([first, both, none].contains(&input), "{cut}");
        }
    }
}
