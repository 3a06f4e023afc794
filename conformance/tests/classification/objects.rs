//! Names of a database's own objects, read from its catalogue as the verdict needs them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Context, Result};
use weir_conformance::Raw;
use weir_sql::{Access, Called, Cause, Names, Nature, Objects, Relation, Why, access};

const FUNCTIONS: &str = "
    SELECT p.proname, bool_or(p.provolatile = 'v' OR p.prokind = 'p'), string_agg(DISTINCT n.nspname, ' '),
        EXISTS (SELECT FROM pg_catalog.pg_proc b
                WHERE b.proname = p.proname AND b.pronamespace = 'pg_catalog'::regnamespace)
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname <> 'pg_catalog'
    GROUP BY p.proname
    HAVING bool_or(p.provolatile = 'v' OR p.prokind = 'p')
        OR NOT EXISTS (SELECT FROM pg_catalog.pg_proc b
                       WHERE b.proname = p.proname AND b.pronamespace = 'pg_catalog'::regnamespace)";

/// Relations that no standby can read, and those that inherit from or are partitioned into one.
const RELATIONS: &str = "
    WITH RECURSIVE bad(oid, why) AS (
        SELECT oid, CASE WHEN relkind = 'S' THEN 's' WHEN relkind = 'f' THEN 'f' ELSE 'u' END
        FROM pg_catalog.pg_class WHERE relkind IN ('S', 'f') OR relpersistence = 'u' AND relkind IN ('r', 'm')
        UNION SELECT i.inhparent, bad.why FROM bad JOIN pg_catalog.pg_inherits i ON i.inhrelid = bad.oid)
    SELECT c.relname, bad.why FROM bad JOIN pg_catalog.pg_class c USING (oid)";

const VIEWS: &str = "
    SELECT c.oid::text || '.' || c.xmin::text, c.relname
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'v' AND n.nspname NOT IN ('pg_catalog', 'information_schema')";

/// Reader of one database's names. Definitions of views are kept, since asking for them is slow.
pub(crate) struct Catalogue {
    raw: Raw,
    views: HashMap<String, String>,
}

impl Catalogue {
    /// # Errors
    /// When the server refuses the login.
    pub(crate) fn of(port: u16, database: &str) -> Result<Self> {
        let mut raw = Raw::connect(port, database)?;
        // A client may have locked a view whose definition is asked for.
        raw.query("SET lock_timeout = '100ms'")?;
        Ok(Self {
            raw,
            views: HashMap::new(),
        })
    }

    /// Reads the objects that are committed now.
    ///
    /// # Errors
    /// When a query fails.
    pub(crate) fn load(&mut self) -> Result<Names> {
        let mut objects = Objects::default();
        for row in self.raw.query(FUNCTIONS)? {
            let [name, is_volatile, schemas, is_built_in_too] = columns(row)?;
            let nature = Nature {
                is_volatile: is_volatile == "t",
                is_built_in_too: is_built_in_too == "t",
            };
            for schema in schemas.split(' ') {
                let function = Called {
                    schema: schema.into(),
                    name: name.as_str().into(),
                };
                objects.add_function(&function, nature);
            }
        }
        for row in self.raw.query(RELATIONS)? {
            let [name, why] = columns(row)?;
            let why = match why.as_str() {
                "s" => Why::Sequence,
                "f" => Why::Foreign,
                _ => Why::Unlogged,
            };
            objects.add_relation(&name, &unread(why));
        }
        let views = self.views()?;
        Ok(with_views(objects, &views))
    }

    /// Returns name and definition of each view.
    fn views(&mut self) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        let mut kept = HashMap::new();
        for row in self.raw.query(VIEWS)? {
            let [version, name] = columns(row)?;
            let definition = match self.views.remove(&version) {
                Some(definition) => definition,
                None => {
                    let oid = version.split('.').next().unwrap_or_default();
                    let sql = format!("SELECT pg_catalog.pg_get_viewdef({oid}::oid)");
                    // A view that is dropped or locked meanwhile has none.
                    self.raw.query_one(&sql).unwrap_or_default()
                }
            };
            if !definition.is_empty() {
                kept.insert(version, definition.clone());
            }
            all.push((name, definition));
        }
        self.views = kept;
        Ok(all)
    }
}

/// Returns a relation that no replica can read.
fn unread(why: Why) -> Relation {
    Relation {
        why: Some(why),
        ..Relation::default()
    }
}

/// Adds the views that a standby cannot answer, and views of these views.
fn with_views(mut objects: Objects, views: &[(String, String)]) -> Names {
    let no_lists = Names::new(Vec::new(), Vec::new());
    let known = objects.relations().map(|(name, _)| name.to_owned());
    let mut known: HashSet<String> = known.collect();
    loop {
        let names = no_lists.clone().with_objects(&Arc::new(objects.clone()));
        let mut found = false;
        for (view, definition) in views {
            if known.contains(view) {
                continue;
            }
            let why = match access(definition.as_bytes(), &names) {
                Access::Read { .. } => continue,
                Access::Primary(Cause::Function(_, why) | Cause::Relation(_, why)) => why,
                _ => Why::Unknown,
            };
            objects.add_relation(view, &unread(why));
            known.insert(view.clone());
            found = true;
        }
        if !found {
            return names;
        }
    }
}

fn columns<const N: usize>(row: Vec<Option<String>>) -> Result<[String; N]> {
    let text = format!("{row:?}");
    let values: Vec<String> = row.into_iter().flatten().collect();
    values.try_into().ok().context(text)
}
