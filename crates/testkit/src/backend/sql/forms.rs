//! PostgreSQL's own statements, in the forms that the model understands.

use super::{
    Ask, Held, Lock, NUMBERS, Name, Notice, OnCommit, Part, Reader, Select, Setting, Sql, Token,
};

/// Parses a statement; none if it has none of the known forms.
pub(super) fn statement(tokens: &[Token]) -> Option<Sql> {
    let mut rest = Reader(tokens);
    let Token::Word(verb) = rest.next()? else {
        return None;
    };
    let rest = &mut rest;
    let sql = match verb.as_str() {
        "alter" => alter(rest)?,
        "begin" => {
            rest.takes("isolation level read committed");
            Sql::Begin(rest.takes("read only"))
        }
        "start" => {
            rest.expect("transaction")?;
            Sql::Begin(rest.takes("read only"))
        }
        "commit" | "end" => Sql::Commit,
        "abort" => Sql::Rollback,
        "rollback" if rest.takes("to") => {
            rest.takes("savepoint");
            Sql::RollbackTo(rest.name()?)
        }
        "rollback" => Sql::Rollback,
        "savepoint" => Sql::Savepoint(rest.name()?),
        "release" => {
            rest.takes("savepoint");
            Sql::Release(rest.name()?)
        }
        "set" => set(rest)?,
        "reset" => reset(rest)?,
        "show" => Sql::Show(rest.dotted()?),
        "select" => select(rest)?,
        "prepare" => {
            let name = rest.name()?;
            rest.expect("as")?;
            let query = statement(std::mem::take(&mut rest.0))?;
            let takes = matches!(query, Sql::InsertParameter { .. });
            (query.is_plannable() && !takes).then_some(())?;
            Sql::Prepare(name, Box::new(query))
        }
        "execute" => Sql::Execute(rest.name()?),
        "deallocate" => {
            rest.takes("prepare");
            let name = rest.name()?;
            Sql::Deallocate((name != "all").then_some(name))
        }
        "create" => create(rest)?,
        "insert" => insert(rest)?,
        "drop" => drop(rest)?,
        "copy" => copy(rest)?,
        "declare" => declare(rest)?,
        "fetch" => {
            let count = rest.number()?;
            rest.takes("from");
            Sql::Fetch(count, rest.name()?)
        }
        "close" => {
            let name = rest.name()?;
            Sql::CloseCursor((name != "all").then_some(name))
        }
        "listen" => Sql::Listen(rest.name()?),
        "unlisten" if rest.takes("*") => Sql::Unlisten(None),
        "unlisten" => Sql::Unlisten(Some(rest.name()?)),
        "notify" => notify(rest)?,
        "discard" => discard(rest)?,
        "do" => block(rest)?,
        "load" => rest.text().map(|_| Sql::Load)?,
        _ => return None,
    };
    rest.end()?;
    Some(sql)
}

fn alter(rest: &mut Reader<'_>) -> Option<Sql> {
    rest.expect("table")?;
    let table = rest.table()?.table;
    rest.expect("alter column v type")?;
    if table.starts_with("kind_") {
        let number = NUMBERS
            .into_iter()
            .find(|number| rest.takes(number.name()))?;
        return Some(Sql::Retype(table, number));
    }
    if rest.takes("text") {
        return Some(Sql::Alter(table, false));
    }
    rest.expect("int using v : : int")?;
    Some(Sql::Alter(table, true))
}

fn set(rest: &mut Reader<'_>) -> Option<Sql> {
    let local = rest.takes("local");
    if !local {
        rest.takes("session");
    }
    let setting = |name: &str, value| {
        Sql::Set(Setting {
            name: name.to_owned(),
            value,
            local,
            any: false,
        })
    };
    // The shorthand `set NAME VALUE` has no TO.
    if rest.0.len() == 2 && rest.takes("role") {
        let who = value(rest)?;
        return Some(setting("role", (who != "none").then_some(who)));
    }
    if rest.takes("session authorization") || rest.takes("authorization") {
        let default = rest.takes("default");
        let who = if default { None } else { Some(value(rest)?) };
        return Some(setting("session_authorization", who));
    }
    if rest.takes("time zone") {
        return Some(setting("TimeZone", Some(value(rest)?)));
    }
    let name = rest.dotted()?;
    if !rest.takes("to") && !rest.takes("=") {
        return None;
    }
    if rest.takes("default") {
        return Some(setting(&name, None));
    }
    let mut values = vec![value(rest)?];
    while rest.takes(",") {
        values.push(value(rest)?);
    }
    if name.eq_ignore_ascii_case("search_path") {
        values = values.iter().map(|value| identifier(value)).collect();
    }
    Some(setting(&name, Some(values.join(", "))))
}

/// Quotes an identifier if necessary (`quote_identifier` in ruleutils.c).
fn identifier(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

fn value(rest: &mut Reader<'_>) -> Option<String> {
    let minus = rest.takes("-");
    match rest.next()? {
        Token::Number(number) if minus => Some(format!("-{number}")),
        Token::Word(value) | Token::Quoted(value) | Token::Text(value) | Token::Number(value) => {
            Some(value.clone())
        }
        Token::Symbol(_) => None,
    }
}

fn reset(rest: &mut Reader<'_>) -> Option<Sql> {
    if rest.takes("all") {
        return Some(Sql::ResetAll);
    }
    if rest.takes("session authorization") {
        return Some(Sql::Reset("session_authorization".to_owned()));
    }
    rest.dotted().map(Sql::Reset)
}

fn create(rest: &mut Reader<'_>) -> Option<Sql> {
    if rest.takes("view ann . spot as select") {
        let row = rest.text()?;
        rest.expect(": : text as name")?;
        return (row == "ann").then_some(Sql::View(true));
    }
    if !rest.takes("temp") {
        rest.expect("temporary")?;
    }
    rest.expect("table")?;
    let table = rest.name()?;
    rest.expect("( a text )")?;
    let on_commit = if rest.takes("on commit drop") {
        OnCommit::Drop
    } else if rest.takes("on commit delete rows") {
        OnCommit::DeleteRows
    } else {
        OnCommit::PreserveRows
    };
    Some(Sql::CreateTemp { table, on_commit })
}

fn drop(rest: &mut Reader<'_>) -> Option<Sql> {
    if rest.takes("view ann . spot") {
        return Some(Sql::View(false));
    }
    rest.expect("table")?;
    rest.name().map(Sql::Drop)
}

fn insert(rest: &mut Reader<'_>) -> Option<Sql> {
    rest.expect("into")?;
    let table = rest.table()?;
    rest.expect("values (")?;
    if rest.takes("$") {
        return insert_parameter(table, rest);
    }
    let value = rest.text()?;
    rest.expect(")")?;
    Some(Sql::Insert(table, value))
}

fn insert_parameter(table: Name, rest: &mut Reader<'_>) -> Option<Sql> {
    let mut one = || rest.number::<u8>().filter(|number| *number == 1);
    one()?;
    rest.expect(")")?;
    let returns = rest.takes("returning pg_typeof ( $");
    if returns {
        rest.number::<u8>().filter(|number| *number == 1)?;
        rest.expect(") : : text")?;
    }
    Some(Sql::InsertParameter {
        table,
        returns,
        number: None,
    })
}

fn copy(rest: &mut Reader<'_>) -> Option<Sql> {
    if rest.takes("( select") {
        let Select::Series(lines, what) = series(rest)? else {
            return None;
        };
        rest.expect(") to stdout")?;
        return Some(Sql::CopyOut {
            lines,
            first: 1,
            what,
        });
    }
    let table = rest.table()?;
    rest.expect("from stdin")?;
    Some(Sql::CopyIn(Some(table)))
}

fn declare(rest: &mut Reader<'_>) -> Option<Sql> {
    let name = rest.name()?;
    rest.expect("cursor")?;
    let hold = rest.takes("with hold");
    rest.expect("for")?;
    let query = statement(std::mem::take(&mut rest.0))?;
    matches!(query, Sql::Select(_)).then(|| Sql::Declare {
        name,
        hold,
        query: Box::new(query),
    })
}

fn notify(rest: &mut Reader<'_>) -> Option<Sql> {
    let channel = rest.name()?;
    let payload = if rest.takes(",") {
        rest.text()?
    } else {
        String::new()
    };
    Some(Sql::Notify(channel, payload))
}

fn discard(rest: &mut Reader<'_>) -> Option<Sql> {
    Some(match rest.name()?.as_str() {
        "all" => Sql::DiscardAll,
        "plans" => Sql::Discard(Part::Plans),
        "sequences" => Sql::Discard(Part::Sequences),
        "temp" | "temporary" => Sql::Discard(Part::Temp),
        _ => return None,
    })
}

/// Parses `DO` with a block of one statement.
fn block(rest: &mut Reader<'_>) -> Option<Sql> {
    let text = rest.text()?;
    let mut statements = super::token::statements(&text)?;
    statements.retain(|(text, _)| !text.eq_ignore_ascii_case("end"));
    let [(_, only)] = statements.as_slice() else {
        return None;
    };
    let mut inner = Reader(only);
    inner.expect("begin")?;
    if inner.takes("null") {
        return inner.end().map(|()| Sql::Do);
    }
    if inner.takes("raise notice") {
        let text = inner.text()?;
        return inner.end().map(|()| Sql::Notice(Notice::Notice, text));
    }
    inner.expect("perform set_config (")?;
    let name = inner.text()?;
    inner.expect(",")?;
    let value = inner.text()?;
    inner.expect(", false )")?;
    Some(Sql::DoSet(name, value))
}

// === SELECT ===

fn select(rest: &mut Reader<'_>) -> Option<Sql> {
    if rest.takes("pg_terminate_backend ( pg_backend_pid ( ) )") {
        return Some(Sql::Die);
    }
    let mut ahead = *rest;
    let found = if let Some(found) = series(&mut ahead) {
        found
    } else {
        ahead = *rest;
        expression(&mut ahead).or_else(|| {
            ahead = *rest;
            column(&mut ahead)
        })?
    };
    *rest = ahead;
    Some(Sql::Select(found))
}

fn expression(rest: &mut Reader<'_>) -> Option<Select> {
    match *rest.0.first()? {
        Token::Text(ref text) => {
            rest.next();
            return Some(Select::Literal(text.clone()));
        }
        Token::Number(ref number) => {
            rest.next();
            if rest.0.is_empty() {
                return Some(Select::Integer(number.clone()));
            }
            if rest.takes("/ (") {
                rest.number::<u8>()?;
                rest.expect("* random ( ) )")?;
                return Some(Select::FailsLate);
            }
            rest.expect("/")?;
            rest.number::<u8>()?;
            return Some(Select::FailsEarly);
        }
        _ => {}
    }
    rest.takes("pg_catalog .");
    let function = rest.name()?;
    let found = match function.as_str() {
        "current_user" => return Some(Select::CurrentUser),
        "session_user" => return Some(Select::SessionUser),
        "coalesce" => return custom(rest),
        _ => {
            rest.expect("(")?;
            call(&function, rest)?
        }
    };
    rest.expect(")")?;
    Some(found)
}

fn call(function: &str, rest: &mut Reader<'_>) -> Option<Select> {
    Some(match function {
        "set_config" => {
            let name = rest.text()?;
            rest.expect(",")?;
            let value = rest.text()?;
            rest.expect(",")?;
            let local = rest.name()? == "true";
            Select::SetConfig { name, value, local }
        }
        "current_setting" => Select::CurrentSetting(rest.text()?),
        "nextval" => Select::Nextval(rest.text()?),
        "note" => Select::Note(rest.text()?),
        "currval" => Select::Currval(rest.text()?),
        "lastval" => Select::Lastval,
        "pg_advisory_lock" => Select::Lock(Lock::Take, rest.number()?),
        "pg_advisory_xact_lock" => Select::Lock(Lock::Transaction, rest.number()?),
        "pg_try_advisory_lock" => Select::Lock(Lock::Try, rest.number()?),
        "pg_advisory_unlock" => Select::Lock(Lock::Unlock, rest.number()?),
        "pg_listening_channels" => Select::Channels,
        "pg_advisory_unlock_all" => Select::Lock(Lock::UnlockAll, 0),
        _ => return None,
    })
}

fn custom(rest: &mut Reader<'_>) -> Option<Select> {
    rest.expect("( nullif ( current_setting (")?;
    let name = rest.text()?;
    rest.expect(", true ) ,")?;
    let (empty, comma, none) = (rest.text()?, rest.takes(") ,"), rest.text()?);
    (empty.is_empty() && comma && none == "none").then_some(())?;
    rest.expect(")")?;
    Some(Select::CustomSetting(name))
}

/// Parses `'x'||i FROM generate_series(1,n) i`.
fn series(rest: &mut Reader<'_>) -> Option<Select> {
    let what = rest.text()?;
    rest.expect("| | i from generate_series (")?;
    rest.number::<u8>().filter(|from| *from == 1)?;
    rest.expect(",")?;
    let count = rest.number()?;
    rest.expect(") i")?;
    Some(Select::Series(count, what))
}

fn column(rest: &mut Reader<'_>) -> Option<Select> {
    let column = rest.name()?;
    rest.expect("from")?;
    let table: Name = rest.table()?;
    if rest.takes("where a < >") {
        let is_ledger = column == "a" && table.table == "sink";
        return is_ledger.then_some(Select::Ledger(rest.text()?));
    }
    Some(Select::Table(table, column))
}

// === Weir's query about session state ===

/// Parses the query of `weir_session::state`: parts joined by UNION ALL, recognized by the objects they
/// read.
pub(super) fn question(text: &str) -> Option<Sql> {
    if !text.starts_with("SELECT 's', ") && !text.starts_with("SELECT 'p', ") {
        return None;
    }
    let parts = text.split(" UNION ALL ").map(part);
    let parts: Option<Vec<Ask>> = parts.collect();
    parts.map(|parts| Sql::Select(Select::Question(parts)))
}

/// Parses the statement of `weir_session::relay::guard`.
pub(super) fn guard(text: &str) -> Option<Sql> {
    let rest = text.strip_prefix("SELECT WHERE 1 / (pg_is_in_recovery() AND ")?;
    let (_, rest) = rest.split_once('\'')?;
    let (lsn, _) = rest.split_once('\'')?;
    let (high, low) = lsn.split_once('/')?;
    let half = |digits| u64::from_str_radix(digits, 16).ok();
    Some(Sql::Select(Select::Guard((half(high)? << 32) + half(low)?)))
}

fn part(text: &str) -> Option<Ask> {
    if text.contains("pg_catalog.pg_settings") {
        return Some(Ask::AllSettings);
    }
    if text.starts_with("SELECT 'n', name") {
        return text.ends_with("NOT from_sql").then_some(Ask::Statements);
    }
    let tokens = super::token::statements(text)?;
    let mut rest = Reader(&tokens.first()?.1);
    rest.expect("select")?;
    let kind = rest.text()?;
    rest.expect(",")?;
    let name = rest.text()?;
    if kind == "s" {
        return Some(Ask::Setting(name));
    }
    let about = [
        ("pg_catalog.pg_locks", Held::Locks),
        ("pg_catalog.pg_cursors", Held::Cursors),
        ("pg_catalog.pg_listening_channels", Held::Channels),
        ("pg_catalog.pg_prepared_statements", Held::Prepared),
        ("pg_catalog.pg_my_temp_schema", Held::Temporary),
    ];
    let found = about.into_iter().find(|(table, _)| text.contains(table));
    found.map(|(_, held)| Ask::Pinned(name, held))
}
