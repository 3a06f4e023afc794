//! Handles replies to Describe: parameter types and columns of our statements.

use weir_wire::backend::tag;
use weir_wire::frame::Header;

use super::{HEAD, ServerFault, Verdict, Work};
use crate::expected::{Duty, Kind};
use crate::relay::shape;

impl Work<'_, '_> {
    /// Records the columns of the statement, if the front entry is a Describe of one.
    ///
    /// # Errors
    /// Fails if a statement prepared under the client's own name returns other columns than the client relies on. Its
    /// request is already in flight, and the server does not know that it should refuse.
    pub(super) fn described(&mut self, shape: Option<u64>) -> Result<(), ServerFault> {
        if let Some((Kind::Describe, Duty::Swallow)) = self.duty()
            && let Some(renamed) = self
                .server
                .queue
                .front()
                .and_then(|front| front.renamed.as_ref())
        {
            let types = &self.server.parameters;
            if shape.is_some_and(|shape| renamed.ours.describe(types, shape)) {
                return Ok(());
            }
            let error = shape::error();
            return Err(ServerFault::Refused(
                error.get(HEAD..).unwrap_or_default().into(),
            ));
        }
        shape::described(self.client, self.server, shape);
        Ok(())
    }

    /// True if the front entry is a Describe of a statement of ours.
    fn is_about_statement(&self) -> bool {
        let front = self.server.queue.front();
        front.is_some_and(|front| front.kind == Kind::Describe && front.renamed.is_some())
    }

    pub(super) fn parameter_description(
        &mut self,
        header: Header,
        body: &[u8],
    ) -> Result<Verdict, ServerFault> {
        if self.is_about_statement() {
            self.server.parameters.clear();
            if body.len() == header.body_len() {
                self.server.parameters.extend_from_slice(body);
            }
        }
        self.part_of_a_reply(header.tag)
    }

    pub(super) fn row_description(
        &mut self,
        header: Header,
        body: &[u8],
    ) -> Result<Verdict, ServerFault> {
        match self.duty() {
            Some((Kind::Describe, _)) => {
                if self.is_about_statement() {
                    let is_whole = body.len() == header.body_len();
                    self.described(is_whole.then(|| shape::of_rows(body)))?;
                }
                self.ends(tag::ROW_DESCRIPTION, Kind::Describe)
            }
            _ => self.part_of_a_reply(tag::ROW_DESCRIPTION),
        }
    }
}
