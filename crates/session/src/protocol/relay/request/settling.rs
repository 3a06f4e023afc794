//! Handles requests about the unnamed statement, and about names whose fate is unknown.

use std::sync::Arc;

use weir_sql::Effects;
use weir_wire::backend::TransactionStatus;
use weir_wire::before_nul;
use weir_wire::encode;
use weir_wire::frontend::{self, tag};

use super::meaning::Meaning;
use super::{Message, Work};
use crate::client::{self, Parsed, Rest};
use crate::expected::{Duty, Expected, Kind, Renamed, UnnamedEffect};
use crate::relay::Link;
use crate::server::Sent;
use crate::sql::Deallocated;
use crate::statement::{Presence, Statement, planning, put_parse};
use crate::unnamed;

impl Work<'_, '_, '_, '_> {
    /// True if outstanding replies decide if the client has this name. A name from a Parse that is really sent is
    /// settled for a message that `only_uses` it: that message fails exactly if the Parse does.
    pub(super) fn is_unsettled(&self, name: &[u8], only_uses: bool) -> bool {
        let Link { client, server, .. } = &*self.link;
        let queue = &server.queue;
        if !queue.changes_names_apart() || queue.is_skipping() {
            return false;
        }
        if name.is_empty() {
            return only_uses && queue.is_unnamed_unsettled();
        }
        let known = client.statement(name);
        if known.is_none() && !queue.takes_names_away() {
            return false;
        }
        let given = known.and_then(|(_, statement)| statement);
        let is_given = given.filter(|_| only_uses).is_some_and(|given| {
            !server.prepared.has_confirmed(given)
                && server.prepared.changes_once(given)
                && queue.is_only_given(given, name)
                && self.gets_own_copy(given, name)
        });
        !is_given && queue.is_unsettled(client::key(name))
    }

    /// True if the client's own Parse makes the copy that the server will have. Otherwise a Parse of ours would precede
    /// the message that uses the name, and would succeed although the client's Parse is skipped.
    fn gets_own_copy(&self, statement: &Statement, name: &[u8]) -> bool {
        let copy = self.link.server.prepared.copy(statement);
        let own = match self.link.client.parsed(name) {
            Some(Parsed::Sent(own)) => own,
            Some(Parsed::Known(since)) => since.own,
            Some(Parsed::Deferred) | None => return false,
        };
        copy.is_some_and(|copy| copy.parsed_at == own)
    }

    /// Notes that a text (`None`: incomplete) is being sent that may change settings within its transaction only. From
    /// then on, the result of a Parse may depend on them. A statement that is its own transaction changes none.
    pub(super) fn note_local(&mut self, text: Option<&[u8]>) {
        if self.is_local_unknown(text) {
            self.link.server.plans_locally = text.is_none_or(planning::may_plan_locally);
        }
    }

    /// Does the same as [`Work::note_local`] for the text of a Parse.
    pub(super) fn note_local_parse(&mut self, text: Option<&[u8]>) {
        if self.is_local_unknown(text) {
            let Link {
                server, registry, ..
            } = &mut *self.link;
            server.plans_locally = text.is_none_or(|text| registry.may_plan_locally(text));
        }
    }

    /// True if the words of a text decide if it plans locally.
    #[inline]
    fn is_local_unknown(&self, text: Option<&[u8]>) -> bool {
        let Link { client, server, .. } = &*self.link;
        if server.plans_locally || !self.tracks_names() {
            return false;
        }
        let is_alone = client.statement_count() == 0
            && server.status() == TransactionStatus::Idle
            && server.sent != Sent::OpenBatch
            && server.queue.is_plain()
            && text.is_some_and(|text| !text.contains(&b';'));
        !is_alone
    }

    /// True if the message must wait for the end of the last request. A client with subscriptions must get the
    /// notifications that its request has sent before the end of that request's reply. Messages of a COPY do not wait.
    pub(super) fn waits_to_hear(&self, tag: u8) -> bool {
        let of_copy = matches!(
            tag,
            tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH
        );
        let Link { client, server, .. } = &*self.link;
        !of_copy && (client.is_behind() || server.queue.owes_ready())
    }

    /// Marks the input as stalled: the message must wait for a reply. Returns false.
    pub(super) fn stall(&mut self) -> bool {
        self.stalled = true;
        false
    }

    /// Handles an unnamed Parse. Returns false if it must wait.
    pub(super) fn parse_unnamed(&mut self, message: Message, definition: &[u8]) -> bool {
        let text = before_nul(definition);
        let whole = message.is_whole().then_some(text);
        let deallocated = whole.and_then(|text| self.deallocated_by(text));
        self.note_local_parse(whole);
        let serial = self.link.registry.serial();
        if let Some(Deallocated::One(name)) = deallocated {
            if self.is_unsettled(&name, false) {
                return self.stall();
            }
            if self.parse_deallocate(name, serial) {
                return true;
            }
        }
        let kept = if message.is_whole() { definition } else { &[] };
        if let Some(refusal) = self.judge_parse(text, message.is_whole()) {
            self.link.server.sent = Sent::OpenBatch;
            self.refuse_parse(b"", refusal);
            self.begin_rest(message, Rest::Discard);
            return true;
        }
        let effects = self.effects_of_parse(message, definition);
        if let Some(effects) = &effects
            && let Some(refusal) = self.refusal_of(effects, text)
        {
            self.refuse_parse(b"", refusal);
            self.begin_rest(message, Rest::Discard);
            return true;
        }
        // Must happen here: nothing can be put in front of its Bind in the same batch.
        let sequences = effects.as_ref().map(|effects| effects.sequences);
        let begins_trial = self.link.client.sequences.is_tried_by(definition);
        self.clean_sequences(sequences.unwrap_or_default(), begins_trial);
        if self.link.server.queue.awaits_required() {
            return self.stall();
        }
        if let Some(effects) = &effects
            && effects.names
            && !self.share_names(effects, text, false)
        {
            return false;
        }
        if let Some(effects) = &effects {
            self.note_sequences(effects.sequences);
            self.lend_channels(effects, self.link.server.sent != Sent::OpenBatch);
        }
        self.link.server.sent = Sent::OpenBatch;
        let often = if message.is_whole() && effects.is_none() {
            self.comes_often(definition)
        } else {
            None
        };
        if let Some(statement) = &often
            && self.stands_in(statement, serial, kept)
        {
            return true;
        }
        if kept.is_empty() || !self.link.rules.tracks_unnamed {
            self.note_unlisted();
        }
        let effect = self.define_unnamed(serial, kept, effects);
        let counted = self.count_unnamed(message, definition);
        self.pass(message, None);
        let entry = Expected::new(Kind::Parse, Duty::Forward).with_unnamed(effect);
        self.expect(entry.with_counted(counted));
        if let Some(statement) = often
            && self.copy_of(&statement).0 == Presence::Absent
        {
            // Behind the client's own Parse, which fails if this one would. The next Parse finds the statement here.
            self.prepare(&statement, Duty::Swallow, None);
        }
        true
    }

    /// Lets a statement that the server has stand in for an unnamed one, whose Parse is answered here. False if it cannot.
    fn stands_in(&mut self, statement: &Arc<Statement>, serial: u64, kept: &[u8]) -> bool {
        let may = self.copy_of(statement).0 == Presence::Held
            && !statement.talks()
            && self.link.server.would_parse();
        if may {
            self.link.client.unnamed().define(serial, kept, None);
            self.link.client.unnamed().stand_in(statement);
            let effect = UnnamedEffect {
                serial,
                of_client: true,
                of_server: false,
            };
            self.expect(Expected::new(Kind::Parse, Duty::Answer).with_unnamed(Some(effect)));
        }
        may
    }

    /// Returns the statement that stands in for this unnamed one from now on, if it has come often enough.
    fn comes_often(&mut self, definition: &[u8]) -> Option<Arc<Statement>> {
        let Link { server, rules, .. } = &*self.link;
        let may = rules.prepare_unnamed > 0 && rules.tracks_unnamed && rules.max_prepared > 0;
        if !may || server.queue.is_skipping() || server.is_settings_unsure() {
            return None;
        }
        let after = rules.prepare_unnamed;
        if !planning::declares_types(definition) {
            return None;
        }
        let statement = self.intern(definition);
        (statement.came_unnamed() > after).then_some(statement)
    }

    /// Resolves the client's unnamed statement if one of ours stands in for it and still has the same meaning. The
    /// server has that statement by the time of the next message.
    pub(super) fn stood_in_for(&mut self, name: &[u8]) -> Option<Meaning> {
        let Link { client, server, .. } = &*self.link;
        if !name.is_empty() || server.queue.is_skipping() || server.is_settings_unsure() {
            return None;
        }
        let statement = Arc::clone(client.unnamed_stand_in()?);
        if !Arc::ptr_eq(&self.intern(&statement.body), &statement) {
            return None;
        }
        self.ensure(&statement);
        Some(Meaning::Ours {
            is_fresh: self.link.client.unnamed().use_now(),
            renamed: Renamed {
                ours: statement,
                theirs: b"".as_slice().into(),
            },
        })
    }

    /// Records that the client's request changes the unnamed statement; `None` if neither side has or gets one.
    pub(super) fn define_unnamed(
        &mut self,
        serial: u64,
        body: &[u8],
        effects: Option<Arc<Effects>>,
    ) -> Option<UnnamedEffect> {
        let Link {
            client,
            server,
            rules,
            ..
        } = &mut *self.link;
        let nothing_changes = serial == unnamed::NONE
            && server.unnamed == unnamed::NONE
            && server.unnamed_confirmed == unnamed::NONE
            && client.has_no_unnamed();
        if nothing_changes || !rules.tracks_unnamed {
            return None;
        }
        client.unnamed().define(serial, body, effects);
        server.unnamed = serial;
        server.unnamed_unsure = None;
        Some(UnnamedEffect {
            serial,
            of_client: true,
            of_server: true,
        })
    }

    /// Makes the server hold the client's unnamed statement, or none if the client has none.
    pub(super) fn ensure_unnamed(&mut self) {
        let Link {
            client,
            server,
            rules,
            ..
        } = &mut *self.link;
        let (serial, body) = client.current_unnamed();
        let batch = server.queue.batch();
        let has =
            serial == server.unnamed && server.unnamed_unsure.is_none_or(|sent| sent == batch);
        if has || !rules.tracks_unnamed || server.queue.is_skipping() {
            return;
        }
        // A body that was too long to keep is lost with its server; PostgreSQL then reports that there is none.
        let serial = if body.is_empty() {
            unnamed::NONE
        } else {
            serial
        };
        let kind = if serial == unnamed::NONE {
            // Cannot fail: a constant message fits.
            let _ = encode::close(self.to_server.insert(), frontend::Kind::Statement, b"");
            Kind::Close
        } else {
            put_parse(self.to_server.insert(), b"", &[body]);
            Kind::Parse
        };
        server.unnamed = serial;
        server.unnamed_unsure = (!server.is_clear()).then_some(batch);
        let effect = UnnamedEffect {
            serial,
            of_client: false,
            of_server: true,
        };
        self.expect(Expected::new(kind, Duty::Swallow).with_unnamed(Some(effect)));
    }

    pub(super) fn tracks_names(&self) -> bool {
        let is_wanted = self.link.rules.max_prepared > 0;
        self.link.client.maps_names.unwrap_or(is_wanted)
    }
}
