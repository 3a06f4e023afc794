//! Requests that read or move sequences ([`crate::sequences`]).

use weir_sql::{Reason, Sequences};

use super::{Link, Work};
use crate::expected::Duty;
use crate::relay::StatePolicy;

impl Link<'_> {
    /// Before requests are passed on: what the pool has learnt, and whether a trial is over.
    #[inline]
    pub(super) fn look_at_sequences(&mut self) {
        let Link { client, server, .. } = self;
        if self.rules.state != StatePolicy::Track {
            return client.end_trial();
        }
        let reported = &client.reported;
        let application = || reported.get("application_name").unwrap_or("").to_owned();
        client.sequences.refresh(&self.proven.readers, application);
        if server.is_beginning && server.queue.is_empty() {
            client.sequences.end_trial();
        }
    }
}

impl Work<'_, '_, '_, '_> {
    /// What others left, or the client itself before it got newer values elsewhere, is not for a client whose application
    /// reads: a statement may read without a word of it in its text.
    #[inline]
    pub(super) fn discard_sequences_for_readers(&mut self) {
        if self.link.client.sequences.reads && self.link.server.has_foreign_sequences {
            self.discard_sequences();
        }
    }

    /// What currval says is the client's own, or nothing at all: then PostgreSQL says so.
    pub(super) fn clean_sequences(&mut self, sequences: Sequences) {
        if sequences != Sequences::Untouched && self.link.server.has_foreign_sequences {
            self.discard_sequences();
        }
    }

    /// If the client has done nothing here yet.
    fn discard_sequences(&mut self) {
        let server = &mut *self.link.server;
        if server.is_fresh && !server.needs_sync && server.queue.is_plain() {
            // A constant text fits.
            let _ = server.ask_for("DISCARD SEQUENCES", Duty::Try, self.to_server.insert());
            server.has_foreign_sequences = false;
            server.is_emptied = true;
        }
    }

    /// A statement is about to run that reads or moves a sequence. Who reads what another transaction got keeps the server
    /// from then on, and so does who may.
    pub(super) fn note_sequences(&mut self, sequences: Sequences) {
        if sequences == Sequences::Untouched {
            return;
        }
        self.clean_sequences(sequences);
        let Link {
            client,
            server,
            proven,
            ..
        } = &mut *self.link;
        let is_first = server.is_beginning && server.queue.is_plain();
        if sequences == Sequences::Reads && is_first {
            if client.sequences.has_moved {
                let application = client.reported.get("application_name");
                proven.readers.learn(application.unwrap_or(""));
            }
            if client.sequences.has_moved || !server.is_emptied {
                client.certain.insert(Reason::Sequence);
            }
        }
        client.moves_sequences = true;
        if sequences == Sequences::Moves {
            client.inserted();
        }
    }
}
