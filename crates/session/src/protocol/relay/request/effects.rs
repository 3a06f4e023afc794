//! Records the effects of the client's requests on its session for the question that follows, or refuses the requests.

use std::sync::Arc;

use weir_sql::{Asks, Effects, Reason, Reasons, Resets, Sequences};
use weir_wire::backend::TransactionStatus;
use weir_wire::before_nul;
use weir_wire::encode;

use super::{Link, Message, Work};
use crate::client::Pin;
use crate::expected::{Duty, Expected, Kind, Refusal, Undo};
use crate::own_settings::{WrongSetting, is_own};
use crate::rarities::{ClientRarity, ServerRarity};
use crate::relay::{SequencePolicy, StatePolicy};
use crate::server::Sent;
use crate::state::Question;
use crate::statement::Statement;
use crate::unnamed;

/// Statement that fails when it is parsed, sent in place of a refused one. The server thus treats the transaction as
/// after any other error. The client never sees the text of this error.
const REFUSED: &[u8] = b"SELECT ''::pg_catalog.int4";

/// Large-object functions (pg_proc.dat) that drivers call by OID. Large-object descriptors end with the transaction.
const LARGE_OBJECT_FUNCTIONS: [u32; 17] = [
    715, 764, 765, 767, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171, 3172, 3457,
];

/// OID of `set_config`, which accepts any name.
const SET_CONFIG: u32 = 2078;

impl Work<'_, '_, '_, '_> {
    /// Returns the effects of a simple query, if it has any.
    pub(super) fn effects_of_query(&mut self, message: Message) -> Option<Arc<Effects>> {
        if !self.is_judging() || self.link.server.queue.is_skipping() {
            return None;
        }
        let body = self.body(message);
        let effects = match body.strip_suffix(b"\0").filter(|_| message.is_whole()) {
            Some(text) => self.judge(text),
            None => {
                let effects = unseen(body);
                let rarities = &mut self.link.server.rarities;
                if !effects.names {
                    rarities.insert(ServerRarity::UnreadEnd);
                } else if !self.link.client.startup.is_empty() {
                    rarities.insert(ServerRarity::RanUnread);
                }
                Some(effects)
            }
        };
        if effects.is_none() {
            self.note_plain();
        }
        effects
    }

    /// Starts to read a query that is passed on while it arrives.
    pub(super) fn begin_pieces(&mut self, message: Message) {
        if !message.is_whole() && self.link.server.rarities.has(ServerRarity::UnreadEnd) {
            self.link.server.pieces = Some(Box::default());
            self.read_piece(self.body(message));
        }
    }

    /// Reads the next part of a query that is passed on while it arrives.
    #[inline]
    pub(super) fn note_piece(&mut self, piece: &[u8]) {
        if self.link.server.pieces.is_some() {
            self.read_piece(piece);
            if self.link.client.owed == 0 {
                self.link.server.pieces = None;
            }
        }
    }

    #[cold]
    fn read_piece(&mut self, piece: &[u8]) {
        let Link { server, judge, .. } = &mut *self.link;
        let pieces = server.pieces.as_deref_mut();
        if let Some(effects) = pieces.and_then(|pieces| judge.piece(pieces, piece)) {
            self.note(&effects);
        }
    }

    /// True if effects of statements matter. They do even where clients keep their servers: a RESET returns to the
    /// client's own values, and some state can never be removed.
    #[inline]
    fn is_judging(&self) -> bool {
        self.link.rules.state != StatePolicy::Off
    }

    /// Records a statement without effects of its own. The client's `search_path` may make its new objects temporary.
    #[inline]
    fn note_plain(&mut self) {
        let Link { client, server, .. } = &mut *self.link;
        if client.rarities.is_empty() {
            return;
        }
        if client.rarities.has(ClientRarity::MakesTemporary) {
            server.question.add_reason(Reason::TemporaryObject);
        }
        if client.rarities.has(ClientRarity::ReadsStatistics) {
            self.note_counted();
        }
    }

    /// Has the server report its statistics before it goes to another client, so that a client that reads statistics
    /// finds its own activity from any server. Otherwise a server does so by itself within one to ten seconds (manual
    /// 28.2.2).
    #[cold]
    fn note_counted(&mut self) {
        let Link {
            client,
            server,
            rules,
            ..
        } = &mut *self.link;
        let shares = matches!(rules.state, StatePolicy::Track | StatePolicy::Refuse);
        if shares && client.pin().is_none() && server.can_report() {
            server.question.report();
        }
    }

    /// Returns the effects that the statement in a Parse has when it is run, if any.
    pub(super) fn effects_of_parse(
        &mut self,
        message: Message,
        definition: &[u8],
    ) -> Option<Arc<Effects>> {
        if !self.is_judging() {
            return None;
        }
        match message.is_whole() {
            true => self.link.judge.effects(before_nul(definition), true),
            false => Some(unknown()),
        }
    }

    /// Returns the effects of a prepared statement, which are judged once.
    pub(super) fn effects_of(&mut self, statement: &Statement) -> Option<Arc<Effects>> {
        if !self.is_judging() {
            return None;
        }
        statement.effects(self.link.judge)
    }

    fn judge(&mut self, text: &[u8]) -> Option<Arc<Effects>> {
        let Link { client, server, .. } = &*self.link;
        // The session may hold state that no question has covered yet; and a statement that ends a pin has other
        // effects too.
        let pinned =
            client.pin().is_some() || client.subscriptions.is_some() || server.is_uncertain();
        self.link.judge.effects(text, pinned)
    }

    /// Records the effects of a statement that is bound and so about to run. Returns false if the Bind must wait.
    pub(super) fn note_bound(&mut self, portal: &[u8], name: &[u8]) -> bool {
        if !self.is_judging() {
            return true;
        }
        let client = &mut *self.link.client;
        let mut begins_trial = false;
        let effects = if name.is_empty() {
            client.unnamed_effects().cloned()
        } else if let Some((_, Some(known))) = client.statement(name) {
            begins_trial = client.sequences.is_tried_by(known.text());
            known.effects(self.link.judge)
        } else if client.own_names.is_some() {
            return self.note_own(portal, name);
        } else {
            client.has_untracked_effects.then(unknown)
        };
        let sequences = effects.as_ref().map(|effects| effects.sequences);
        self.clean_sequences(sequences.unwrap_or_default(), begins_trial);
        if self.link.server.queue.awaits_required() {
            return self.stall();
        }
        self.note_portal(portal, effects.as_deref());
        match effects {
            Some(effects) if effects.names && !self.share_names_for(name, &effects, true) => {
                return false;
            }
            Some(effects) => self.note(&effects),
            None => self.note_plain(),
        }
        true
    }

    /// Does the same as [`Work::note_bound`] for a statement under the client's own name.
    fn note_own(&mut self, portal: &[u8], name: &[u8]) -> bool {
        let all = self.effects_of_own(name);
        all.iter()
            .for_each(|effects| self.clean_sequences(effects.sequences, false));
        if self.link.server.queue.awaits_required() {
            return self.stall();
        }
        self.note_portal(portal, all.last().map(|effects| &**effects));
        if self.link.client.has_untracked_effects {
            self.note(&unknown());
        }
        for effects in &all {
            if effects.names && !self.share_names_for(name, effects, true) {
                return false;
            }
            self.note(effects);
        }
        if all.is_empty() {
            self.note_plain();
        }
        true
    }

    /// Records a function called by OID.
    pub(super) fn note_function(&mut self, message: Message) {
        if matches!(
            self.link.rules.state,
            StatePolicy::Off | StatePolicy::Session
        ) {
            return;
        }
        let number = self.body(message).first_chunk().copied();
        let number = number.map(u32::from_be_bytes);
        match number {
            Some(SET_CONFIG) => self.note(&unknown()),
            Some(number) if LARGE_OBJECT_FUNCTIONS.contains(&number) => {}
            number => {
                let known = number.and_then(|number| self.link.judge.function(number));
                self.note(&known.unwrap_or_else(|| everything(Reasons::EMPTY)));
            }
        }
    }

    /// Records the effects of a statement that is about to be sent.
    pub(super) fn note(&mut self, effects: &Effects) {
        if self.link.rules.state == StatePolicy::Pin {
            let changes = !effects.asks.is_nothing() || !effects.reasons.is_empty();
            if changes {
                self.link.client.set_pin(Pin::Policy);
            }
            return;
        }
        let Link { client, server, .. } = &mut *self.link;
        if effects.reasons.contains(Reason::Library) {
            server.rarities.insert(ServerRarity::Loads);
        }
        if discards(effects, server.status()) && !client.startup.is_empty() {
            server.discard.fall_due();
            server.rarities.insert(ServerRarity::Discards);
        }
        if self.link.rules.state == StatePolicy::Session {
            if effects.certain.iter().any(spoils) {
                self.link.server.future.spoil();
            }
            return;
        }
        if effects.reads_statistics {
            self.link
                .client
                .rarities
                .insert(ClientRarity::ReadsStatistics);
        }
        if let Some(subscriptions) = &mut self.link.client.subscriptions {
            subscriptions.note(effects);
            self.lend_channels(effects, self.link.server.sent != Sent::OpenBatch);
        }
        self.note_sequences(effects.sequences);
        let Link { client, server, .. } = &mut *self.link;
        let held = server.may_hold(client.held_reasons());
        if held.contains(Reason::Unknown) {
            server.question.join(Question::everything());
        }
        server.question.add(effects, held);
        if !effects.defines.is_empty() {
            server.defines.extend(effects.defines.iter().cloned());
        }
        if effects.resets == Resets::All && effects.statements == 1 && server.is_outside() {
            server.question.reset_all();
        }
        if effects.certain.contains(Reason::Setting) {
            server.question.forget_reset_all();
            let asked = server.asked.iter_mut();
            asked.for_each(|asked| asked.0.forget_reset_all());
        }
        for reason in effects.certain.iter() {
            client.certain.insert(reason);
            if spoils(reason) {
                server.future.spoil();
            }
        }
        self.note_plain();
    }

    /// Lends the client's subscriptions to its server for a statement that lists the session's channels. The server
    /// then listens to the same channels until the transaction is over. Not inside a transaction, where LISTEN would
    /// have no effect yet. `begins` is true if the message is the first of its batch.
    pub(super) fn lend_channels(&mut self, effects: &Effects, begins: bool) {
        let Link { client, server, .. } = &mut *self.link;
        let Some(own) = client
            .subscriptions
            .as_ref()
            .filter(|_| effects.lists_channels)
        else {
            return;
        };
        let is_outside = server.status() == TransactionStatus::Idle && server.queue.is_ours();
        if server.lent.is_some() || !is_outside || !begins {
            return;
        }
        let Some((listen, unlisten)) = own.statements() else {
            return;
        };
        // Cannot fail: quoted names contain no NUL.
        let out = self.to_server.insert();
        if server.ask_for(&listen, Duty::Try, out).is_ok() {
            server.lent = Some(unlisten.into());
            server.question.add_reason(Reason::Listen);
        }
    }

    // --- refusing ---

    /// Returns the reason for which a text with these effects is refused, if it is.
    pub(super) fn refusal_of(&self, effects: &Effects, text: &[u8]) -> Option<Refusal> {
        let sets_own = effects.asks.names.iter().any(|name| is_own(name));
        if sets_own
            && self.link.client.checks_own_settings
            && let Some(wrong) = WrongSetting::in_text(text)
        {
            return Some(Refusal::Setting(Box::new(wrong)));
        }
        self.refused_state(effects).map(Refusal::State)
    }

    fn refused_state(&self, effects: &Effects) -> Option<Reasons> {
        let rules = self.link.rules;
        let refuses_values = rules.sequences == SequencePolicy::Refuse;
        match rules.state {
            StatePolicy::Refuse => Some(effects.reasons).filter(|reasons| !reasons.is_empty()),
            StatePolicy::Track if refuses_values && effects.sequences == Sequences::Reads => {
                Some(Reasons::of(Reason::Sequence))
            }
            _ => None,
        }
    }

    pub(super) fn refuse_query(&mut self, refusal: Refusal) {
        let effect = self.define_unnamed(unnamed::NONE, &[], None);
        // Cannot fail: a constant text fits.
        let _ = encode::query(self.to_server.insert(), REFUSED);
        let entry = Expected::new(Kind::Query, Duty::Forward).with_unnamed(effect);
        self.expect(entry.with_undo(Undo::Refused(refusal)));
    }

    pub(super) fn refuse_parse(&mut self, name: &[u8], refusal: Refusal) {
        // Cannot fail: the name comes from a message, and the text is a constant.
        let _ = encode::parse(self.to_server.insert(), name, REFUSED, &[0, 0]);
        let effect = if name.is_empty() {
            let serial = self.link.registry.serial();
            self.define_unnamed(serial, &[], None)
        } else {
            None
        };
        let entry = Expected::new(Kind::Parse, Duty::Forward).with_unnamed(effect);
        self.expect(entry.with_undo(Undo::Refused(refusal)));
    }
}

/// True if DISCARD ALL can succeed: alone in its text, and outside a transaction block.
fn discards(effects: &Effects, status: TransactionStatus) -> bool {
    let is_alone = effects.statements <= 1 && status == TransactionStatus::Idle;
    effects.resets == Resets::Session && is_alone
}

/// True if state held for this reason can never be removed.
fn spoils(reason: Reason) -> bool {
    !matches!(reason, Reason::Sequence | Reason::Setting)
}

/// Returns the effects assumed for a long text of which only the beginning has arrived. A text that begins like most
/// long ones is taken for data with little SQL around it: only state that the server can report is asked for. Any other
/// text may set what the server cannot report.
fn unseen(beginning: &[u8]) -> Arc<Effects> {
    let begins_with = |word: &[u8]| {
        let text = beginning.trim_ascii_start();
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let is_about_data = [
        b"insert".as_slice(),
        b"update",
        b"delete",
        b"select",
        b"with",
        b"merge",
        b"copy",
        b"values",
    ]
    .into_iter()
    .any(begins_with);
    if is_about_data {
        everything(Reasons::EMPTY)
    } else {
        Arc::new(Effects {
            names: true,
            ..Effects::clone(&unknown())
        })
    }
}

/// Returns the effects assumed for a text that was not read: everything.
fn unknown() -> Arc<Effects> {
    everything(Reasons::of(Reason::Setting))
}

fn everything(certain: Reasons) -> Arc<Effects> {
    Arc::new(Effects {
        asks: Asks {
            all: true,
            ..Asks::default()
        },
        resets: Resets::Nothing,
        reasons: Reasons::of(Reason::Unknown).union(certain),
        certain,
        ..Effects::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_sql::{Functions, Judge};
    use weir_wire::backend::TransactionStatus;
    use weir_wire::encode;

    use crate::client::Client;
    use crate::custom::CustomNames;
    use crate::relay::{Link, Rules, SequencePolicy, StatePolicy, replies, requests};
    use crate::server::Server;
    use crate::settings::Settings;
    use crate::splice::Splice;
    use crate::statement::{Proven, Registry};

    /// Returns the messages that the server gets for these.
    fn sent(client: &mut Client, server: &mut Server, messages: &[u8]) -> String {
        sent_to(&mut pool(), client, server, messages)
    }

    type Pool = (Registry, Arc<Proven>);

    fn pool() -> Pool {
        (Registry::new(0, 1), Arc::default())
    }

    fn sent_to(
        (registry, proven): &mut Pool,
        client: &mut Client,
        server: &mut Server,
        messages: &[u8],
    ) -> String {
        let mut buffer = Vec::new();
        let mut link = Link {
            client,
            server,
            registry,
            judge: &mut Judge::new(Functions::default()),
            proven,
            rules: Rules {
                max_prepared: 10,
                tracks_unnamed: true,
                prepare_unnamed: 0,
                refuse_simple_query: false,
                message_max: u32::MAX,
                state: StatePolicy::Track,
                sequences: SequencePolicy::Learn,
            },
            digests: None,
            ruling: None,
        };
        let mut out = Splice::new(messages, &mut buffer);
        requests(&mut link, messages, &mut out, &mut Vec::new()).unwrap();
        String::from_utf8_lossy(out.finish()).into_owned()
    }

    fn query(text: &str) -> Vec<u8> {
        let mut message = Vec::new();
        encode::query(&mut message, text.as_bytes()).unwrap();
        message
    }

    #[test]
    fn what_is_made_under_a_path_that_turns_out_to_be_temporary_is_asked_about() {
        let asks = |path: &str| {
            let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
            let text = "set search_path to x; create table t (a int)";
            sent(&mut client, &mut server, &query(text));
            let mut answer = |bytes: &dyn Fn(&mut Vec<u8>)| {
                let (mut message, mut buffer) = (Vec::new(), Vec::new());
                bytes(&mut message);
                encode::ready_for_query(&mut message, TransactionStatus::Idle).unwrap();
                let mut out = Splice::new(&message, &mut buffer);
                replies(&mut client, &mut server, &message, &mut out).unwrap();
                let mut question = Vec::new();
                server.ask_state(&CustomNames::default(), &mut question);
                String::from_utf8_lossy(&question).into_owned()
            };
            answer(&|message| encode::command_complete(message, b"SET").unwrap());
            let row = [Some(&b"s"[..]), Some(b"search_path"), Some(path.as_bytes())];
            let question = answer(&|message| encode::data_row(message, &row).unwrap());
            question.contains("pg_my_temp_schema")
        };
        assert!(asks("pg_temp, public"));
        assert!(!asks("public"));
    }

    #[test]
    fn cor_38_what_follows_a_reset_in_one_batch_finds_the_clients_own_value() {
        let startup = Settings::from_pairs([("work_mem", "5MB")]);
        let mut client = Client::new(startup.into(), Arc::default());
        let mut server = Server::new(Arc::default());
        let text = query("reset work_mem; show work_mem");
        let sent_texts = sent(&mut client, &mut server, &text);
        assert!(
            sent_texts.contains("reset work_mem\n;SET \"work_mem\" TO E'5MB'; show work_mem\0")
        );

        let mut batch = Vec::new();
        for text in ["set local work_mem to default", "show work_mem"] {
            encode::parse(&mut batch, b"", text.as_bytes(), &[0, 0]).unwrap();
            encode::bind_head(&mut batch, b"", b"", 6).unwrap();
            batch.extend_from_slice(&[0; 6]);
            encode::execute(&mut batch, b"", 0).unwrap();
        }
        encode::sync(&mut batch).unwrap();
        let sent_texts = sent(&mut client, &mut server, &batch);
        let place = |text: &str| sent_texts.find(text).unwrap();
        assert!(place("SET LOCAL \"work_mem\" TO E'5MB'") < place("show work_mem"));
    }

    #[test]
    fn cor_15_a_statement_is_prepared_elsewhere_under_the_settings_that_its_literals_were_read_by()
    {
        let (mut pool, mut client) = (pool(), Client::default());
        client.settings = Settings::from_pairs([("datestyle", "ISO, DMY")]).into();
        let mut batch = Vec::new();
        encode::parse(&mut batch, b"s", b"select '3/2/1'::date", &[0, 0]).unwrap();
        let mut server = Server::new(Arc::default());
        let parsed = sent_to(&mut pool, &mut client, &mut server, &batch);
        assert!(!parsed.contains("SET"), "{parsed}");

        client.settings = Settings::from_pairs([("timezone", "CET")]).into();
        let mut batch = Vec::new();
        encode::bind_head(&mut batch, b"", b"s", 6).unwrap();
        batch.extend_from_slice(&[0; 6]);
        let mut server = Server::new(Arc::default());
        let bound = sent_to(&mut pool, &mut client, &mut server, &batch);
        let texts = [
            "SET \"datestyle\" TO E'ISO, DMY'",
            "RESET \"timezone\"",
            "select '3/2/1'::date",
            "RESET \"datestyle\"",
            "SET \"timezone\" TO E'CET'",
        ];
        let places: Vec<_> = texts.iter().map(|text| bound.find(text).unwrap()).collect();
        assert!(places.is_sorted(), "{bound}");

        // Under another search_path it is another statement, resolved now.
        let settings = [("timezone", "CET"), ("search_path", "there")];
        client.settings = Settings::from_pairs(settings).into();
        let mut server = Server::new(Arc::default());
        let elsewhere = sent_to(&mut pool, &mut client, &mut server, &batch);
        assert!(elsewhere.contains("select") && !elsewhere.contains("SET"));
    }
}
