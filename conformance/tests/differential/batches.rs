//! Batches of the extended protocol in random programs.

use crate::generate::Generator;
use crate::probe::NAMES;
use crate::program::Item;
use crate::topics::Topic;

/// Statements whose meaning depends on names that are resolved at the Parse.
const TYPED: [&str; 14] = [
    "insert into d1 values (7, $1)",
    "select count(*) from d1 where v = $1",
    "update d1 set v = $1 where k = 1",
    "select f($1)",
    "select $1::mood",
    "select $1::amount",
    "select $1 + 1",
    "insert into tt values ($1)",
    "select k, v from d1 where v > $1 order by 1, 2",
    "select * from t where k = $1 order by 1, 2",
    "select k, v, $1::text from w order by 1, 2",
    "select pg_typeof($1)::text, $1",
    "select coalesce(v, $1) from d1 order by 1",
    "select ($1::pair).b",
];

const VALUES: [&str; 9] = [
    "1",
    "2.25",
    "2020-01-02 03:04:05",
    "ok",
    "happy",
    "1.5",
    "(1;x)",
    "99999999999",
    "x",
];

const TYPES: [&str; 8] = [
    "int4",
    "int8",
    "text",
    "float4",
    "date",
    "timestamp",
    "numeric",
    "unknown",
];

impl Generator {
    /// Prepares, uses or closes a statement without parameters.
    pub(crate) fn prepared(&mut self) -> Vec<Item> {
        let name = self.name();
        let sql = self.single();
        let mut items = Vec::new();
        match self.random.below(10) {
            0 | 1 => items.push(parse(&name, &[], &sql)),
            2 => items.extend([Item::Close(b'S', name.clone()), parse(&name, &[], &sql)]),
            3 => items.push(Item::Describe(b'S', name)),
            4 => items.push(Item::Close(b'S', name)),
            5 => {
                items.extend([Item::Close(b'S', name.clone()), parse(&name, &[], &sql)]);
                items.extend(execution(&name, &[]));
            }
            _ => items.extend(execution(&name, &[])),
        }
        items.push(Item::Sync);
        items
    }

    /// Uses a statement with a parameter, usually named; prepares it if necessary, or again.
    pub(crate) fn typed(&mut self) -> Vec<Item> {
        let name = self.name();
        let mut items = Vec::new();
        let value = self.value();
        if self.random.chance(55) {
            let sql = self.pick(&TYPED);
            let types: &[&str] = match self.random.chance(35) {
                true => &[self.pick(&TYPES)],
                false => &[],
            };
            if !name.is_empty() && self.random.chance(85) {
                items.push(Item::Close(b'S', name.clone()));
            }
            items.push(parse(&name, types, sql));
            if self.random.chance(50) {
                items.push(Item::Describe(b'S', name.clone()));
            }
            if self.random.chance(30) {
                items.push(Item::Sync);
                return items;
            }
        }
        items.extend(execution(&name, &[value]));
        items.push(Item::Sync);
        items
    }

    /// Sends several batches at once, with portal limits, and Flush in place of Sync.
    pub(crate) fn pipeline(&mut self) -> Vec<Item> {
        let count = 2 + self.random.below(4);
        let mut items = Vec::new();
        for _ in 0..count {
            match self.random.below(8) {
                0 => items.extend(self.portal()),
                1 => items.extend([Item::Sync, Item::Query(self.statement())]),
                2 => items.push(Item::Flush),
                3 => items.push(Item::Sync),
                4 => {
                    let name = self.name();
                    items.extend(execution(&name, &[]));
                }
                _ => {
                    let sql = self.single();
                    items.push(parse("", &[], &sql));
                    items.extend(execution("", &[]));
                }
            }
        }
        items.push(match self.random.chance(20) {
            true => Item::Flush,
            false => Item::Sync,
        });
        items
    }

    fn portal(&mut self) -> Vec<Item> {
        let portal = self.pick(&["p1", "p2"]).to_owned();
        let texts = [
            "select generate_series(1, 5)",
            "select k, v from t order by k, v",
            "select set_config('app.x', 'portal', false)",
            "values (1), (2)",
        ];
        let mut items = vec![
            parse("", &[], self.pick(&texts)),
            Item::Bind {
                portal: portal.clone(),
                statement: String::new(),
                values: Vec::new(),
            },
        ];
        for _ in 0..self.random.below(4) {
            let rows = i32::try_from(self.random.below(3)).unwrap_or(0);
            items.push(Item::Execute(portal.clone(), rows));
        }
        if self.random.chance(40) {
            items.push(Item::Close(b'P', portal));
        }
        items
    }

    fn name(&mut self) -> String {
        match self.random.chance(15) {
            true => String::new(),
            false => self.pick(&NAMES).to_owned(),
        }
    }

    fn value(&mut self) -> Option<&'static str> {
        match self.random.chance(6) {
            true => None,
            false => Some(self.pick(&VALUES)),
        }
    }

    /// Text for the extended protocol, usually one statement.
    fn single(&mut self) -> String {
        if self.has(Topic::Types) && self.random.chance(30) {
            let texts = [
                "select k, v from d1 order by 1, 2",
                "select * from w order by 1, 2",
                "select * from t order by 1, 2",
                "select f(1)",
            ];
            return self.pick(&texts).to_owned();
        }
        match self.statement() {
            // Left out until `found::NOT_YET` is empty: an error later in its batch.
            sql if sql == "discard all" && self.has(Topic::Startup) => "discard plans".to_owned(),
            sql => sql,
        }
    }
}

fn parse(name: &str, types: &[&str], sql: &str) -> Item {
    Item::Parse {
        name: name.to_owned(),
        types: types.iter().map(|&name| name.to_owned()).collect(),
        sql: sql.to_owned(),
    }
}

/// Bind, Describe and Execute of the unnamed portal.
fn execution(statement: &str, values: &[Option<&str>]) -> Vec<Item> {
    let bind = Item::Bind {
        portal: String::new(),
        statement: statement.to_owned(),
        values: values
            .iter()
            .map(|value| value.map(str::to_owned))
            .collect(),
    };
    let describe = Item::Describe(b'P', String::new());
    vec![bind, describe, Item::Execute(String::new(), 0)]
}
