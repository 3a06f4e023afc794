//! Routes and storages of Odyssey, gathered before any setting is mapped: most options of a route depend on the others.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::ROUTE_DEFAULTS;
use crate::draft::Table;
use crate::leaf::Leaf;

/// Name of a block: its file, and the parts of its path.
pub(super) type Key = (String, Vec<String>);

/// A block `user` or `group` in a block `database`.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    /// Name of the database; None for `default`.
    pub(super) database: Option<String>,
    /// Name of the user or group; None for `default`.
    pub(super) user: Option<String>,
    pub(super) is_group: bool,
    pub(super) address: Option<String>,
    pub(super) connection: Option<String>,
    /// True if the storage is the console.
    pub(super) is_console: bool,
    values: BTreeMap<String, String>,
}

impl Route {
    /// Returns a value or its default.
    pub(super) fn value(&self, name: &str) -> String {
        let default = || {
            let mut all = ROUTE_DEFAULTS.iter();
            let row = all.find(|(known, _)| *known == name);
            row.map(|(_, value)| (*value).to_owned())
        };
        let value = self.values.get(name).cloned();
        value.or_else(default).unwrap_or_default()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// True if nobody may use the route.
    pub(super) fn is_blocked(&self) -> bool {
        self.value("authentication") == "block"
    }

    /// Entry of the database.
    pub(super) fn table(&self) -> Table {
        let name = self.database.as_deref().unwrap_or(weir_config::FALLBACK);
        Table::Database(name.to_owned())
    }
}

/// A block `storage`.
#[derive(Clone, Debug, Default)]
pub(super) struct Storage {
    pub(super) name: String,
    pub(super) host: String,
    pub(super) port: String,
    is_local: bool,
    pub(super) has_tls: bool,
    /// Login of its watchdog: user and database.
    pub(super) watch_user: Option<String>,
}

/// Place of an option that routes may disagree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Same value for all routes of servers.
    Everywhere,
    Table(Table),
    /// No table can hold the values of all routes.
    Nowhere,
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Routes in the order of the files.
    pub(super) routes: Vec<(Key, Route)>,
    pub(super) storages: BTreeMap<Key, Storage>,
    /// Values of the blocks `listen`, by name.
    pub(super) listens: BTreeMap<String, Vec<String>>,
    pub(super) global: BTreeMap<String, String>,
    /// Sizes of shared pools by name.
    pub(super) shared: BTreeMap<String, i64>,
    /// Names of all files that were given.
    pub(super) files: BTreeSet<String>,
    pub(super) has_hba_file: bool,
}

impl Facts {
    pub(super) fn gather(leaves: &[Leaf]) -> Self {
        let mut facts = Self::default();
        let mut databases: BTreeMap<Key, String> = BTreeMap::new();
        let mut pools: BTreeMap<Key, String> = BTreeMap::new();
        for leaf in leaves {
            facts.files.insert(leaf.file.clone());
            let key = |len: usize| {
                let path = leaf.path.get(..len).unwrap_or_default();
                (leaf.file.clone(), path.to_vec())
            };
            match *leaf.parts().as_slice() {
                [super::HBA, _] => facts.has_hba_file = true,
                [name] => {
                    facts.global.insert(name.to_owned(), leaf.text());
                }
                ["listen", _, name] => {
                    let values = facts.listens.entry(name.to_owned()).or_default();
                    values.push(leaf.text());
                }
                ["shared_pool", _, "name"] => {
                    pools.insert(key(2), leaf.text());
                }
                ["shared_pool", _, "pool_size"] => {
                    let name = pools.get(&key(2)).cloned().unwrap_or_default();
                    let size = leaf.number().unwrap_or_default();
                    facts.shared.insert(name, size);
                }
                ["storage", _, ref rest @ ..] => {
                    facts.storages.entry(key(2)).or_default().take(rest, leaf);
                }
                ["database", _, "name"] => {
                    databases.insert(key(2), leaf.text());
                }
                ["database", _, kind @ ("user" | "group"), _, name] => {
                    let database = databases.get(&key(2)).cloned();
                    if let Some(route) = facts.route_mut(key(4), kind, database) {
                        route.take(name, leaf);
                    }
                }
                _ => {}
            }
        }
        let local = facts.storages.values().filter(|storage| storage.is_local);
        let local: BTreeSet<String> = local.map(|storage| storage.name.clone()).collect();
        for (_, route) in &mut facts.routes {
            route.is_console = local.contains(&route.value("storage"));
        }
        facts
    }

    fn route_mut(&mut self, key: Key, kind: &str, database: Option<String>) -> Option<&mut Route> {
        let known = self.routes.iter().position(|(known, _)| *known == key);
        let at = known.unwrap_or(self.routes.len());
        if known.is_none() {
            let route = Route {
                database,
                is_group: kind == "group",
                ..Route::default()
            };
            self.routes.push((key, route));
        }
        self.routes.get_mut(at).map(|(_, route)| route)
    }

    pub(super) fn route(&self, leaf: &Leaf) -> Option<&Route> {
        let path = leaf.path.get(..4)?;
        let mut all = self.routes.iter();
        all.find(|((file, known), _)| *file == leaf.file && known == path)
            .map(|(_, route)| route)
    }

    /// Returns the routes to servers, without those to the console and those that nobody may use.
    pub(super) fn served(&self) -> impl Iterator<Item = &Route> + Clone {
        let routes = self.routes.iter().map(|(_, route)| route);
        routes.filter(|route| !route.is_console && !route.is_blocked())
    }

    pub(super) fn storage(&self, name: &str) -> Option<&Storage> {
        self.storages.values().find(|storage| storage.name == name)
    }

    /// Returns the kind of hosts that the routes of a database ask for, the first that asks.
    pub(super) fn target(&self, route: &Route) -> String {
        let same = self
            .served()
            .filter(|other| other.database == route.database);
        let mut targets = same.map(|other| other.value("target_session_attrs"));
        targets
            .find(|target| !target.is_empty())
            .unwrap_or_else(|| "any".to_owned())
    }

    /// True if a block of routes leads to the console alone.
    pub(super) fn is_console(&self, leaf: &Leaf) -> bool {
        let block = leaf.path.get(..2);
        let mut routes = self
            .routes
            .iter()
            .filter(|((file, path), _)| *file == leaf.file && path.get(..2) == block);
        let is_first = routes.next().is_some_and(|(_, route)| route.is_console);
        is_first && routes.all(|(_, route)| route.is_console)
    }

    /// Returns the databases that use a storage first.
    pub(super) fn databases_of(&self, storage: &str) -> Vec<Table> {
        let mut tables: Vec<Table> = Vec::new();
        for route in self.served() {
            let table = route.table();
            if self.storage_of(&table).as_deref() == Some(storage) && !tables.contains(&table) {
                tables.push(table);
            }
        }
        tables
    }

    /// Returns the storage of a database, which is that of its first route.
    pub(super) fn storage_of(&self, table: &Table) -> Option<String> {
        let mut routes = self.served().filter(|route| route.table() == *table);
        routes
            .find(|route| route.has("storage"))
            .map(|route| route.value("storage"))
    }

    /// Finds the widest place at which all routes have the value of this one.
    pub(super) fn place(&self, route: &Route, name: &str) -> Place {
        let value = route.value(name);
        let agree = |fits: &dyn Fn(&Route) -> bool| {
            self.served()
                .filter(|other| fits(other))
                .all(|other| other.value(name) == value)
        };
        if agree(&|_| true) {
            return Place::Everywhere;
        }
        let Some(user) = route.user.as_ref().filter(|_| !route.is_group) else {
            // Values of named users take precedence over those of the database.
            return Place::Table(route.table());
        };
        if agree(&|other| other.database == route.database) {
            Place::Table(route.table())
        } else if agree(&|other| other.user.as_ref() == Some(user)) {
            Place::Table(Table::User(user.clone()))
        } else {
            match &route.database {
                Some(database) => Place::Table(Table::Pool(database.clone(), user.clone())),
                // A route of every database is no entry of the fallback: databases with entries follow it as well.
                None => Place::Nowhere,
            }
        }
    }

    /// True if all blocks `listen` have one value of a setting.
    pub(super) fn listens_agree(&self, name: &str) -> bool {
        let values = self
            .listens
            .get(name)
            .map(Vec::as_slice)
            .unwrap_or_default();
        values.iter().all(|value| Some(value) == values.first())
    }
}

impl Route {
    fn take(&mut self, name: &str, leaf: &Leaf) {
        match name {
            "name" => self.user = Some(leaf.text()),
            "default" => {}
            "address" => self.address = Some(leaf.text()),
            "connection" => self.connection = Some(leaf.text()).filter(|kind| kind != "default"),
            _ => {
                self.values.insert(name.to_owned(), leaf.text());
            }
        }
    }
}

impl Storage {
    fn take(&mut self, rest: &[&str], leaf: &Leaf) {
        let text = leaf.text();
        match *rest {
            ["name"] => self.name = text,
            ["host"] => self.host = text,
            ["port"] => self.port = text,
            ["tls"] => self.has_tls = true,
            ["type"] => self.is_local = text == "local",
            ["watchdog", _, "storage_user"] => self.watch_user = Some(text),
            _ => {}
        }
    }

    /// Returns host, port and zone of each endpoint.
    pub(super) fn endpoints(&self, socket: &str) -> Vec<[String; 3]> {
        let port = match self.port.as_str() {
            "" => "5432",
            port => port,
        };
        if self.host.is_empty() {
            return vec![[socket.to_owned(), port.to_owned(), String::new()]];
        }
        let parts = self
            .host
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        parts.map(|part| endpoint(part, port)).collect()
    }
}

/// Reads `[tcp://|unix://]HOST[:PORT][:ZONE]`.
fn endpoint(text: &str, port: &str) -> [String; 3] {
    let text = text.strip_prefix("tcp://").unwrap_or(text);
    let text = text.strip_prefix("unix://").unwrap_or(text);
    let (host, rest) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((host, rest)) => (host, rest.trim_start_matches(':')),
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let (mut port, mut zone) = (port, "");
    for part in rest.split(':').filter(|part| !part.is_empty()) {
        match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => port = part,
            false => zone = part,
        }
    }
    [host, port, zone].map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn endpoints_have_scheme_port_and_zone() {
        let check = |text: &str, expected: [&str; 3]| {
            assert_eq!(
                endpoint(text, "5432"),
                expected.map(str::to_owned),
                "{text}"
            );
        };
        check("db1", ["db1", "5432", ""]);
        check("tcp://db1:5433:north", ["db1", "5433", "north"]);
        check("db1:north", ["db1", "5432", "north"]);
        check("[::1]:5433", ["::1", "5433", ""]);
        check("unix:///tmp", ["/tmp", "5432", ""]);
    }
}
