//! Queries that read PostgreSQL's catalogue.
//!
//! Every user may read all of it. Each query is one text, whose statements share a transaction and do not depend on the
//! session's settings.

/// Keeps objects of the database and timeouts of the role out of the way. The five statements of a load take at most 15
/// s.
const PREAMBLE: &str = "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL statement_timeout = '3s'; \
    SET LOCAL lock_timeout = '1s';";

/// First OID of user objects; lower ones are PostgreSQL's own (transam.h: FirstNormalObjectId).
const OWN: &str = "16384";

/// Returns the query for the stamp, which changes with the objects that [`load_query`] reads: one row, first column.
pub fn stamp_query() -> String {
    format!("{PREAMBLE}SELECT {}", stamp())
}

/// Returns the query whose rows make a [`super::Catalogue`]. `version` is the server's major version.
pub fn load_query(version: u32) -> String {
    let [functions, volatility] = [functions(version), volatility(version)];
    let [stamp, edges, direct, system] = [stamp(), edges(PARTS), direct(), system()];
    let names = NAMES.replace("{own}", OWN);
    format!(
        "{PREAMBLE}SELECT 'H', {stamp}, '', '', '' UNION ALL {functions} UNION ALL {volatility}; {edges}; \
         {names} UNION ALL {KINDS} UNION ALL {ISOLATION}; {direct}; {system}"
    )
}

fn stamp() -> String {
    let tables = [
        ("pg_proc", "oid::text || xmin::text"),
        ("pg_trigger", "oid::text || xmin::text"),
        ("pg_rewrite", "oid::text || xmin::text"),
        ("pg_attrdef", "oid::text || xmin::text"),
        ("pg_policy", "oid::text || xmin::text"),
        ("pg_constraint", "oid::text || xmin::text"),
        ("pg_operator", "oid::text || xmin::text"),
        ("pg_cast", "oid::text || xmin::text"),
        ("pg_event_trigger", "oid::text || xmin::text"),
    ];
    let own = tables.map(|(table, row)| {
        format!(
            "(SELECT count(*) || '.' || coalesce(sum(hashtext({row})::int8), 0) FROM {table} WHERE oid >= {OWN})"
        )
    });
    let more = [
        format!(
            "(SELECT coalesce(sum(hashtext(oid::text || relname || relpersistence::text)::int8), 0)::text FROM pg_class \
             WHERE oid >= {OWN} AND relkind IN ('r', 'v', 'm', 'p', 'f', 'S') AND relpersistence <> 't')"
        ),
        format!(
            "(SELECT coalesce(sum(hashtext(oid::text || nspname)::int8), 0)::text FROM pg_namespace \
             WHERE oid >= {OWN} AND nspname !~ '^pg_')"
        ),
        "(SELECT coalesce(sum(hashtext(inhrelid::text || inhparent::text)::int8), 0)::text FROM pg_inherits)"
            .to_owned(),
        "(SELECT count(*)::text FROM pg_db_role_setting WHERE setconfig::text ~* 'default_transaction_isolation')"
            .to_owned(),
    ];
    let all: Vec<_> = own.into_iter().chain(more).collect();
    format!("concat_ws(' ', {})", all.join(", "))
}

/// Returns the query for functions in languages with code, for aggregates, whose functions are found by dependencies,
/// and for functions of a row, which can be written like a column.
fn functions(version: u32) -> String {
    let parsed = match version >= 14 {
        true => "coalesce(pg_get_function_sqlbody(p.oid), '')",
        false => "''",
    };
    let aggregate = match version >= 11 {
        true => "prokind = 'a'",
        false => "proisagg",
    };
    format!(
        "SELECT 'F', 'p' || p.oid, proname::text, lanname::text, \
           prosrc || ' ; ' || {parsed} || ' ; ' || coalesce(pg_get_expr(proargdefaults, 0), '') \
         FROM pg_proc p JOIN pg_language l ON l.oid = prolang \
         WHERE p.oid >= {OWN} AND lanname NOT IN ('internal', 'c') \
         UNION ALL SELECT 'N', 'p' || oid, proname::text, '', '' FROM pg_proc WHERE oid >= {OWN} AND {aggregate} \
         UNION ALL SELECT 'A', 'p' || p.oid, '', '', '' FROM pg_proc p JOIN pg_type t ON t.oid = proargtypes[0] \
         WHERE p.oid >= {OWN} AND pronargs = 1 AND typtype = 'c'"
    )
}

/// Returns the query for the volatility of functions that are not PostgreSQL's own. Procedures count as VOLATILE, and so
/// do aggregates with a VOLATILE part. Functions of triggers cannot be called.
fn volatility(version: u32) -> String {
    let (procedure, aggregate) = match version >= 11 {
        true => ("prokind = 'p'", "prokind = 'a'"),
        false => ("false", "proisagg"),
    };
    format!(
        "SELECT 'P', 'p' || p.oid, proname::text, nspname::text, \
           CASE WHEN provolatile = 'v' OR {procedure} OR {aggregate} AND EXISTS (SELECT FROM pg_aggregate a \
             JOIN pg_proc f ON f.oid IN (a.aggtransfn::oid, a.aggfinalfn::oid) \
             WHERE a.aggfnoid = p.oid AND f.provolatile = 'v') THEN 'v' ELSE '' END || \
           CASE WHEN EXISTS (SELECT FROM pg_proc b WHERE b.proname = p.proname \
             AND b.pronamespace = 'pg_catalog'::regnamespace) THEN 'b' ELSE '' END \
         FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace \
         WHERE (nspname <> 'pg_catalog' OR p.oid >= {OWN}) AND nspname !~ '^pg_(temp|toast)' \
           AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)"
    )
}

/// Query for relations that a replica cannot read, and for materialized views.
const KINDS: &str = "SELECT 'R', 'r' || oid, relname::text, '', CASE WHEN relkind = 'm' THEN 'm' \
      WHEN relkind = 'f' THEN 'f' WHEN relkind = 'S' THEN 's' ELSE 'u' END \
    FROM pg_class WHERE relpersistence <> 't' AND (relkind IN ('f', 'm', 'S') \
      OR relpersistence = 'u' AND relkind IN ('r', 'p'))";

/// Query for a row if transactions of a role may not be READ COMMITTED by default: by postgresql.conf, or by ALTER ROLE or
/// ALTER DATABASE for any role, since the answer serves them all.
const ISOLATION: &str = "SELECT 'I', '', '', '', '' FROM pg_settings \
    WHERE name = 'default_transaction_isolation' AND (reset_val <> 'read committed' \
      OR EXISTS (SELECT FROM pg_db_role_setting WHERE setconfig::text ~* 'default_transaction_isolation'))";

/// Returns the query for PostgreSQL's own functions and relations in definitions of views and in policies for reading,
/// on which no dependency is recorded, and for such definitions that call `current_setting`. Functions behind casts
/// read only.
fn system() -> String {
    // An OID of PostgreSQL's own has at most five digits. Names in a tree have a backslash before each space.
    let numbers = |label: &str| {
        format!(
            "SELECT DISTINCT n, substring(rest from '^[0-9]{{1,5}} ')::oid AS number FROM definition, \
             unnest((string_to_array(tree, ':{label} '))[2:]) AS parts(rest)"
        )
    };
    let (functions, relations) = (numbers("funcid"), numbers("relid"));
    format!(
        "WITH definition(n, tree, view, policy) AS (\
           SELECT 'r' || ev_class, ev_action::text, ev_class, NULL::oid FROM pg_rewrite \
             JOIN pg_class c ON c.oid = ev_class WHERE pg_rewrite.oid >= {OWN} AND ev_type = '1' AND relkind = 'v' \
           UNION ALL SELECT 'r' || polrelid, polqual::text, NULL, oid FROM pg_policy \
             WHERE polcmd IN ('r', '*') AND polqual IS NOT NULL), \
         settings(x) AS (SELECT ':funcid (' || string_agg(oid::text, '|') || ') ' FROM pg_proc \
           WHERE proname = 'current_setting' AND pronamespace = 'pg_catalog'::regnamespace) \
         SELECT 'V', n, proname::text, nspname::text, 'f' FROM ({functions}) AS f JOIN pg_proc p ON p.oid = number \
           JOIN pg_namespace s ON s.oid = pronamespace \
           WHERE number < {OWN} AND number NOT IN (SELECT castfunc FROM pg_cast) \
         UNION ALL SELECT 'V', n, relname::text, nspname::text, 'r' FROM ({relations}) AS r \
           JOIN pg_class c ON c.oid = number JOIN pg_namespace s ON s.oid = relnamespace WHERE number < {OWN} \
         UNION ALL SELECT 'S', n, '', '', CASE WHEN policy IS NULL THEN pg_get_viewdef(view) \
           ELSE (SELECT pg_get_expr(polqual, polrelid) FROM pg_policy WHERE oid = policy) END \
           FROM definition, settings WHERE tree ~ x"
    )
}

/// Table of the parts of objects, by class and OID, with the use of the object that they belong to.
const PARTS: &str = "part(c, o, n) AS (\
    SELECT 'pg_rewrite'::regclass::oid, oid, CASE ev_type WHEN '1' THEN 'r' ELSE 'w' END || ev_class FROM pg_rewrite \
    UNION ALL SELECT 'pg_trigger'::regclass, oid, 'w' || tgrelid FROM pg_trigger WHERE NOT tgisinternal \
    UNION ALL SELECT 'pg_attrdef'::regclass, oid, 'w' || adrelid FROM pg_attrdef \
    UNION ALL SELECT 'pg_policy'::regclass, oid, 'r' || polrelid FROM pg_policy \
    UNION ALL SELECT 'pg_constraint'::regclass, oid, CASE conrelid WHEN 0 THEN 't' || contypid ELSE 'w' || conrelid END \
      FROM pg_constraint WHERE contype = 'c' \
    UNION ALL SELECT 'pg_class'::regclass, indexrelid, 'w' || indrelid FROM pg_index \
    UNION ALL SELECT 'pg_proc'::regclass, oid, 'p' || oid FROM pg_proc \
    UNION ALL SELECT 'pg_type'::regclass, oid, 't' || oid FROM pg_type WHERE typtype = 'd' \
    UNION ALL SELECT 'pg_operator'::regclass, oid, 'o' FROM pg_operator \
    UNION ALL SELECT 'pg_cast'::regclass, oid, 'o' FROM pg_cast \
    UNION ALL SELECT 'pg_event_trigger'::regclass, oid, 'e' FROM pg_event_trigger)";

/// Returns the query for uses between objects: parts that depend on functions, views on relations, anything on domains.
/// Includes partitions and children, which a statement reaches by the parent, and rows that a foreign key deletes or
/// changes.
fn edges(parts: &str) -> String {
    format!(
        "WITH {parts} \
         SELECT DISTINCT 'E', n, 'p' || refobjid, '', '' FROM part JOIN pg_depend ON classid = c AND objid = o \
           WHERE refclassid = 'pg_proc'::regclass AND refobjid >= {OWN} \
         UNION ALL SELECT DISTINCT 'E', n, left(n, 1) || refobjid, '', '' \
           FROM part JOIN pg_depend ON classid = c AND objid = o \
           WHERE c IN ('pg_rewrite'::regclass, 'pg_policy'::regclass) AND refclassid = 'pg_class'::regclass \
             AND refobjid >= {OWN} AND n <> left(n, 1) || refobjid \
         UNION ALL SELECT DISTINCT 'E', n, 't' || t.oid, '', '' FROM part \
           JOIN pg_depend ON classid = c AND objid = o JOIN pg_type t ON t.oid = refobjid AND typtype = 'd' \
           WHERE refclassid = 'pg_type'::regclass AND refobjid >= {OWN} AND n <> 't' || t.oid \
         UNION ALL SELECT DISTINCT 'E', 'w' || attrelid, 't' || atttypid, '', '' FROM pg_attribute \
           JOIN pg_type t ON t.oid = atttypid AND typtype = 'd' WHERE t.oid >= {OWN} AND NOT attisdropped \
         UNION ALL SELECT 'E', kind || inhparent, kind || inhrelid, '', '' \
           FROM pg_inherits, (VALUES ('r'), ('w')) AS kinds(kind) \
         UNION ALL SELECT DISTINCT 'E', 'w' || confrelid, 'w' || conrelid, '', '' FROM pg_constraint \
           WHERE contype = 'f' AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))"
    )
}

/// Query for the names of relations and domains.
const NAMES: &str = "SELECT 'N', kind || oid, relname::text, '', '' \
    FROM pg_class, (VALUES ('r'), ('w')) AS kinds(kind) \
    WHERE oid >= {own} AND relkind IN ('r', 'v', 'm', 'p', 'f') AND relpersistence <> 't' \
    UNION ALL SELECT 'N', 't' || oid, typname::text, '', '' FROM pg_type WHERE typtype = 'd' AND oid >= {own}";

/// Returns the query for definitions that directly call a function which changes the session, or that read the list of
/// prepared statements. These functions and the list are PostgreSQL's own, so no dependency on them is recorded.
fn direct() -> String {
    let names: Vec<_> = crate::functions::that_change()
        .chain(["pg_prepared_statement"])
        .map(|name| format!("'{name}'"))
        .collect();
    let names = names.join(", ");
    format!(
        "WITH f(x) AS (SELECT ':(funcid (' || string_agg(oid::text, '|') || ')|relid ' || \
           'pg_catalog.pg_prepared_statements'::regclass::oid || ') ' FROM pg_proc WHERE proname IN ({names})) \
         SELECT 'D', CASE ev_type WHEN '1' THEN 'r' ELSE 'w' END || ev_class, '', '', pg_get_ruledef(oid) \
           FROM pg_rewrite, f WHERE oid >= {OWN} AND ev_action::text || ev_qual::text ~ x \
         UNION ALL SELECT 'D', 'w' || adrelid, '', '', pg_get_expr(adbin, adrelid) FROM pg_attrdef, f \
           WHERE adbin::text ~ x \
         UNION ALL SELECT 'D', 'r' || polrelid, '', '', \
           concat_ws(' ; ', pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) FROM pg_policy, f \
           WHERE concat(polqual::text, polwithcheck::text) ~ x \
         UNION ALL SELECT 'D', CASE conrelid WHEN 0 THEN 't' || contypid ELSE 'w' || conrelid END, '', '', \
           pg_get_constraintdef(oid) FROM pg_constraint, f WHERE contype = 'c' AND conbin::text ~ x \
         UNION ALL SELECT 'D', 'w' || tgrelid, '', '', pg_get_triggerdef(oid) FROM pg_trigger, f \
           WHERE NOT tgisinternal AND tgqual::text ~ x \
         UNION ALL SELECT 'D', 't' || oid, '', '', typdefault FROM pg_type, f \
           WHERE typtype = 'd' AND typdefaultbin::text ~ x"
    )
}
