//! A client's session in a form that another Weir process can take over: plain values, nothing shared.
//!
//! Only a client that holds no server state and has nothing in flight can move. A client stays if its session cannot be
//! expressed as values without loss. Examples: a statement whose reply has changed, an unnamed statement that may
//! change the session.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::client::{Client, Parsed, Refusing};
use crate::rarities::ClientRarity;
use crate::relay::lost_block::LostBlock;
use crate::relay::request::deallocate::Deallocating;
use crate::sequences::{self, PortableUse};
use crate::settings::{Reported, Settings};
use crate::statement::{Proven, Registry, Statement};
use crate::unnamed;

/// Pairs of name and value.
type Pairs = Vec<(String, String)>;

/// Exported session of a client, see the module documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portable {
    settings: Pairs,
    startup: Pairs,
    reported: Pairs,
    statements: Vec<PortableStatement>,
    unnamed: Option<PortableUnnamed>,
    /// True if the client's statements have our names on servers; `None` until its first statement decides.
    maps_names: Option<bool>,
    /// Process id that the client was given at login.
    process: u32,
    sequences: PortableUse,
}

/// A statement under the client's own name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PortableStatement {
    name: Vec<u8>,
    /// True if the Parse was answered without a server.
    is_deferred: bool,
    meaning: Meaning,
}

/// Text and parameter types of a statement, and their meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Meaning {
    body: Vec<u8>,
    /// Settings that the meaning depends on; `None` if they are unknown, so the statement is not shared.
    settings: Option<Pairs>,
    /// Parameter types and columns, if known.
    description: Option<(Vec<u8>, u64)>,
}

/// The unnamed statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PortableUnnamed {
    body: Vec<u8>,
    stand_in: Option<Meaning>,
    /// Name of the statement that it deallocates.
    deallocates: Option<Vec<u8>>,
}

fn pairs<'a>(values: impl Iterator<Item = (&'a str, &'a str)>) -> Pairs {
    values
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn settings(pairs: &Pairs) -> Settings {
    Settings::from_pairs(pairs.iter().map(|(name, value)| (&**name, &**value)))
}

impl Meaning {
    fn of(statement: &Statement) -> Self {
        let known = statement.description();
        Self {
            body: statement.body.to_vec(),
            settings: statement.context_settings(),
            description: known.map(|known| (known.types.to_vec(), known.shape)),
        }
    }

    fn statement(&self, registry: &mut Registry, pool: &Arc<Proven>) -> Arc<Statement> {
        let like = registry.private(&self.body);
        if let Some((types, shape)) = &self.description {
            like.describe(types, *shape);
        }
        match &self.settings {
            Some(values) => {
                let context = registry.context(&settings(values), pool);
                registry.version(&context, &like)
            }
            None => like,
        }
    }
}

impl Client {
    /// Exports the session if it can move to another process now, else returns `None`. The client has no server: with
    /// its last lease it gave up portals, statements under its own names, sequence values and a trial.
    pub fn export(&mut self) -> Option<Portable> {
        self.leave_own_names();
        let is_quiet = self.owed == 0
            && self.refusing == Refusing::Nothing
            && self.lost_block == LostBlock::None
            && self.subscriptions().is_none();
        let is_held = self.pin().is_some() || !self.held_reasons().is_empty();
        let reads_statistics = self.rarities.has(ClientRarity::ReadsStatistics);
        let has_more = self.wants_new || reads_statistics || self.has_untracked_effects;
        if !is_quiet || is_held || has_more {
            return None;
        }
        let mut named: Vec<_> = self.named().collect();
        named.sort_unstable_by_key(|(name, ..)| *name);
        let statements = named.into_iter().map(|(name, parsed, statement)| {
            let statement = statement?;
            Some(PortableStatement {
                name: name.to_vec(),
                is_deferred: match parsed {
                    Parsed::Deferred => true,
                    Parsed::Known(_) => !statement.is_settled(),
                    Parsed::Sent(_) => return None,
                },
                meaning: Meaning::of(statement),
            })
        });
        Some(Portable {
            settings: pairs(self.settings.iter()),
            startup: pairs(self.startup.iter()),
            reported: pairs(self.reported.iter()),
            statements: statements.collect::<Option<_>>()?,
            unnamed: self.export_unnamed()?,
            maps_names: self.maps_names,
            process: self.process,
            sequences: self.sequences.export(),
        })
    }

    /// Exports the unnamed statement: `None` if it cannot move, `Some(None)` if there is none.
    fn export_unnamed(&self) -> Option<Option<PortableUnnamed>> {
        if self.has_unnamed_on_its_way() || self.unnamed_effects().is_some() {
            return None;
        }
        let (serial, body) = self.current_unnamed();
        if serial == unnamed::NONE {
            return Some(None);
        }
        let stand_in = match self.unnamed_stand_in() {
            Some(statement) => Some(Meaning::of(statement)),
            // Too long to keep, so only the client's server knows it.
            None if body.is_empty() => return None,
            None => None,
        };
        let deallocating = self.deallocating.as_ref();
        let deallocates = deallocating.and_then(|deallocating| deallocating.unnamed_name(serial));
        Some(Some(PortableUnnamed {
            body: body.to_vec(),
            stand_in,
            deallocates: deallocates.map(<[u8]>::to_vec),
        }))
    }

    /// Restores a client's session that another process exported, with the statements known here.
    #[must_use]
    pub fn import(portable: &Portable, registry: &mut Registry, pool: &Arc<Proven>) -> Self {
        let mut reported = Reported::default();
        for (name, value) in &portable.reported {
            // The other process had the same limit. A value beyond it is reported to the client again.
            let _ = reported.set(name, value);
        }
        let mut client = Self::new(Arc::new(settings(&portable.settings)), Arc::new(reported));
        if portable.startup != portable.settings {
            client.startup = Arc::new(settings(&portable.startup));
        }
        client.maps_names = portable.maps_names;
        client.process = portable.process;
        client.sequences = sequences::Use::import(portable.sequences);
        if portable.sequences.reads {
            let application = client.reported.get("application_name");
            pool.readers.learn(application.unwrap_or_default());
        }
        for known in &portable.statements {
            let statement = known.meaning.statement(registry, pool);
            let parsed = match known.is_deferred {
                true => Parsed::Deferred,
                false => Parsed::of(&statement),
            };
            client.remember(known.name.as_slice().into(), Some(statement), parsed);
        }
        if let Some(unnamed) = &portable.unnamed {
            let stand_in = unnamed.stand_in.as_ref();
            let stand_in = stand_in.map(|meaning| meaning.statement(registry, pool));
            let serial = registry.serial();
            let kept = client.unnamed();
            kept.define(serial, &unnamed.body, None);
            if let Some(statement) = &stand_in {
                kept.stand_in(statement);
            }
            kept.confirm();
            let name = unnamed.deallocates.as_deref();
            client.deallocating = name.map(|name| Box::new(Deallocating::by_unnamed(serial, name)));
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Arc<Settings> {
        Arc::new(Settings::from_pairs(pairs.iter().copied()))
    }

    fn client() -> Client {
        let mut reported = Reported::default();
        reported.set("TimeZone", "UTC").unwrap();
        let mut client = Client::new(asked(&[("timezone", "MST")]), Arc::new(reported));
        client.settings = asked(&[("timezone", "UTC"), ("search_path", "a, b")]);
        client
    }

    /// Exports a client and imports it into a process that knows nothing.
    fn moved(client: &mut Client) -> Client {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        Client::import(&client.export().unwrap(), &mut registry, &pool)
    }

    #[test]
    fn settings_and_what_was_told_arrive_as_they_were() {
        let mut client = client();
        let arrived = moved(&mut client);
        assert_eq!(arrived.settings, client.settings);
        assert_eq!(arrived.startup, client.startup);
        assert_eq!(arrived.reported, client.reported);
        assert!(arrived.is_plain());
    }

    #[test]
    fn statements_arrive_with_what_they_mean() {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        let mut client = client();
        let context = registry.context(&asked(&[("datestyle", "German")]), &pool);
        let dated = registry.intern(&context, b"select '1.2.2003'::date\0\0\0");
        dated.describe(&[0, 0], 7);
        client.remember(b"d"[..].into(), Some(dated), Parsed::known(1));
        let own = registry.private(b"select 1\0\0\0");
        client.remember(b"o"[..].into(), Some(own), Parsed::Deferred);
        let mut arrived = moved(&mut client);
        assert_eq!(arrived.statement_count(), 2);
        let (_, found) = arrived.statement(b"d").unwrap();
        let found = found.unwrap();
        assert_eq!(&*found.body, b"select '1.2.2003'::date\0\0\0");
        assert_eq!(found.shape(), 7);
        let (first, _) = found.literals(&client.settings);
        assert!(first.iter().any(|sql| sql.contains("German")), "{first:?}");
        let (_, parsed) = arrived.statement_to_use(b"o").unwrap();
        assert_eq!(parsed, Parsed::Deferred);
        assert!(arrived.statement(b"o").unwrap().1.unwrap().is_private());
        assert_eq!(arrived.export(), moved(&mut arrived).export());
    }

    #[test]
    fn statements_with_one_text_that_return_different_things_stay_apart() {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        let meaning = |shape| Meaning {
            body: b"select * from t\0\0\0".to_vec(),
            settings: Some(Vec::new()),
            description: Some((vec![0, 0], shape)),
        };
        let one = meaning(1).statement(&mut registry, &pool);
        let same = meaning(1).statement(&mut registry, &pool);
        let other = meaning(2).statement(&mut registry, &pool);
        assert!(Arc::ptr_eq(&one, &same));
        assert_ne!(one.id, other.id);
        assert_eq!((one.shape(), other.shape()), (1, 2));
    }

    #[test]
    fn the_unnamed_statement_arrives() {
        let mut client = client();
        client.unnamed().define(5, b"select 2\0\0\0", None);
        assert!(client.export().is_none(), "it is on its way");
        client.unnamed().confirm();
        let arrived = moved(&mut client);
        assert_eq!(arrived.current_unnamed().1, b"select 2\0\0\0");
        assert_ne!(arrived.current_unnamed().0, unnamed::NONE);
    }

    #[test]
    fn an_unnamed_statement_that_deallocates_arrives_as_one() {
        let mut client = client();
        client.unnamed().define(5, b"\0\0\0", None);
        client.unnamed().confirm();
        client.deallocating = Some(Box::new(Deallocating::by_unnamed(5, b"s")));
        let arrived = moved(&mut client);
        let deallocating = arrived.deallocating.as_ref().unwrap();
        let name = deallocating.unnamed_name(arrived.current_unnamed().0);
        assert_eq!(name, Some(&b"s"[..]));
        // One that came later deallocates nothing.
        client.unnamed().define(6, b"select 1\0\0\0", None);
        client.unnamed().confirm();
        assert!(moved(&mut client).deallocating.is_none());
    }

    #[test]
    fn statements_under_own_names_arrive_once_the_server_is_given_up() {
        let mut client = client();
        let statement = Registry::new(0, 1).private(b"select 1\0\0\0");
        client.own_names = Some(Box::default());
        client.owns(&b"s"[..].into(), &statement);
        client.remember_own(b"lost"[..].into());
        let arrived = moved(&mut client);
        assert!(arrived.own_names.is_none());
        assert_eq!(arrived.statement_count(), 1);
        assert!(arrived.statement(b"s").unwrap().1.is_some());
    }

    #[test]
    fn what_is_known_of_its_use_of_sequences_arrives() {
        let mut client = client();
        client.sequences.moved(false);
        client.rarities.insert(ClientRarity::UsesSequences);
        assert!(client.sequences.is_on_trial());
        client.sequences.reads = true;
        client.process = 4711;
        client.maps_names = Some(true);
        let (mut registry, pool) = (Registry::new(0, 1), Arc::<Proven>::default());
        let portable = client.export().unwrap();
        let arrived = Client::import(&portable, &mut registry, &pool);
        assert!(arrived.sequences.has_moved && !arrived.sequences.is_on_trial());
        assert!(pool.readers.has(""), "its application reads");
        assert_eq!((arrived.process, arrived.maps_names), (4711, Some(true)));
    }

    #[test]
    fn who_holds_something_or_has_something_on_its_way_stays() {
        let changes: [fn(&mut Client); 5] = [
            |client| client.set_pin(crate::client::Pin::Session),
            |client| client.owed = 1,
            |client| client.refuse_batch(b'P'),
            |client| client.has_untracked_effects = true,
            |client| client.remember_own(b"x"[..].into()),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut client = client();
            assert!(client.export().is_some());
            change(&mut client);
            assert!(client.export().is_none(), "change {number}");
        }
        let mut client = client();
        let sent = Registry::new(0, 1).private(b"select 1\0\0\0");
        client.remember(b"x"[..].into(), Some(sent), Parsed::Sent(1));
        assert!(client.export().is_none(), "nobody has said what it is");
    }
}
