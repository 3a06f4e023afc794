//! Statements whose rows depend on nothing but the data: two databases with equal data give equal rows.

use pg_query::ParserOptions;
use serde_json::Value;

use crate::fingerprint::STATEMENT_MAX;
use crate::parsed::{Visitor, called, statements, walk};

/// Functions of PostgreSQL whose results depend on their arguments only, in any order of the rows. Sums and averages are among
/// them, although those of float columns depend on the order: whoever compares leaves columns of these types out.
const FUNCTIONS: &[&str] = &[
    "abs",
    "array_length",
    "array_position",
    "array_to_string",
    "avg",
    "bit_and",
    "bit_or",
    "bool_and",
    "bool_or",
    "btrim",
    "cardinality",
    "ceil",
    "ceiling",
    "char_length",
    "concat",
    "concat_ws",
    "count",
    "date_part",
    "date_trunc",
    "encode",
    "every",
    "extract",
    "floor",
    "format",
    "generate_series",
    "initcap",
    "json_array_length",
    "json_build_object",
    "jsonb_array_length",
    "jsonb_build_object",
    "left",
    "length",
    "like_escape",
    "lower",
    "lpad",
    "ltrim",
    "max",
    "md5",
    "min",
    "mod",
    "octet_length",
    "overlay",
    "position",
    "power",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "rpad",
    "rtrim",
    "sign",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "substring",
    "sum",
    "to_char",
    "to_date",
    "to_number",
    "to_timestamp",
    "translate",
    "trunc",
    "upper",
];

/// True if the rows of a statement depend on the data only, in any order: it calls no function but those of PostgreSQL that are
/// known for that, reads no clock, draws no sample, and returns no part of the rows (LIMIT) without naming their order. False too
/// if PostgreSQL's grammar rejects it, or if it is longer than 2 KiB.
///
/// ```
/// use weir_sql::has_same_rows;
///
/// assert!(has_same_rows("SELECT lower(a) FROM t WHERE b = $1"));
/// assert!(!has_same_rows("SELECT a FROM t LIMIT 10"));
/// assert!(!has_same_rows("SELECT now()"));
/// ```
#[must_use]
pub fn has_same_rows(statement: &str) -> bool {
    if statement.len() > STATEMENT_MAX {
        return false;
    }
    let Some(trees) = statements(statement, ParserOptions::default()) else {
        return false;
    };
    let mut found = Found { differs: false };
    trees.iter().for_each(|tree| walk(tree, &mut found));
    !found.differs
}

struct Found {
    differs: bool,
}

impl Visitor for Found {
    type Scope = ();

    fn enter(&mut self, name: &str, value: &Value) {
        let has = |field: &str| match value.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        self.differs |= match name {
            "FuncCall" | "funccall" => {
                let (schema, function) = called(value);
                let is_ours = schema.is_none_or(|schema| schema == "pg_catalog");
                // The rows of a window without an order, and an aggregate's own order, are more than a name tells.
                !is_ours || !FUNCTIONS.contains(&function) || has("over")
            }
            "SqlvalueFunction" | "SQLValueFunction" | "RangeTableSample" => true,
            "SelectStmt" | "select_stmt" | "larg" | "rarg" => {
                (has("limit_count") || has("limit_offset")) && !has("sort_clause")
                    || has("distinct_clause") && !has("sort_clause") && is_distinct_on(value)
            }
            _ => false,
        };
    }

    fn leave(&mut self, (): ()) {}
}

/// True if a DISTINCT names expressions, and so keeps one row of several.
fn is_distinct_on(select: &Value) -> bool {
    let clauses = select.get("distinct_clause").and_then(Value::as_array);
    let mut clauses = clauses.into_iter().flatten();
    clauses.any(|clause| clause.get("node").is_some_and(|node| !node.is_null()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_depend_on_the_data_only_are_told_from_others() {
        for text in [
            "SELECT a, count(*) FROM t GROUP BY a",
            "SELECT a FROM t ORDER BY a LIMIT 10",
            "SELECT DISTINCT a FROM t",
            "SELECT pg_catalog.lower(a) FROM t",
            "SELECT coalesce(a, 1), CASE WHEN a > 1 THEN 2 END FROM t",
            "VALUES (1), (2)",
        ] {
            assert!(has_same_rows(text), "{text}");
        }
        for text in [
            "SELECT a FROM t LIMIT 10",
            "SELECT a FROM t OFFSET 10",
            "SELECT * FROM (SELECT a FROM t LIMIT 1) AS one ORDER BY a",
            "SELECT 1 UNION ALL (SELECT a FROM t LIMIT 1)",
            "SELECT DISTINCT ON (a) a, b FROM t",
            "SELECT now()",
            "SELECT current_date",
            "SELECT current_user",
            "SELECT random() FROM t",
            "SELECT public.lower(a) FROM t",
            "SELECT own(a) FROM t",
            "SELECT string_agg(a, ',') FROM t",
            "SELECT row_number() OVER () FROM t",
            "SELECT sum(a) OVER (ROWS 1 PRECEDING) FROM t",
            "SELECT a FROM t TABLESAMPLE system (1)",
            "no SQL",
        ] {
            assert!(!has_same_rows(text), "{text}");
        }
    }
}
