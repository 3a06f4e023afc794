//! Statements of random programs, by topic.

use crate::generate::Generator;
use crate::topics::Topic;

/// Settings that a start-up packet may have, and that are reported.
pub(crate) const REPORTED: [(&str, [&str; 3]); 4] = [
    ("DateStyle", ["German", "SQL, DMY", "ISO, YMD"]),
    ("TimeZone", ["Asia/Tokyo", "America/New_York", "UTC"]),
    ("IntervalStyle", ["iso_8601", "sql_standard", "postgres"]),
    ("application_name", ["one", "two", ""]),
];

const UNREPORTED: [(&str, [&str; 3]); 11] = [
    ("work_mem", ["5MB", "6MB", "7000kB"]),
    ("search_path", ["one", "two, public", "\"$user\", public"]),
    ("extra_float_digits", ["0", "-3", "3"]),
    ("statement_timeout", ["1h", "2h", "0"]),
    ("default_transaction_read_only", ["on", "off", "off"]),
    (
        "default_transaction_isolation",
        ["serializable", "repeatable read", "read committed"],
    ),
    ("bytea_output", ["escape", "hex", "hex"]),
    (
        "plan_cache_mode",
        ["force_generic_plan", "force_custom_plan", "auto"],
    ),
    ("standard_conforming_strings", ["off", "on", "on"]),
    ("client_min_messages", ["error", "notice", "warning"]),
    ("log_min_duration_statement", ["3000", "4000", "-1"]),
];

const CUSTOM: [&str; 3] = ["app.tenant", "app.x", "my.var"];
const TENANTS: [&str; 4] = ["a", "b", "c", "it''s"];
const ROLES: [&str; 4] = ["ra", "rb", "rc", "none"];
const SAVEPOINTS: [&str; 2] = ["x", "y"];

impl Generator {
    /// Returns a statement on one of the program's topics, or one that shows the current user and
    /// settings.
    pub(crate) fn statement(&mut self) -> String {
        match self.random.below(100) {
            0..4 if self.has(Topic::Large) => return self.large(),
            0..12 => return self.control(),
            12..24 => return self.witness(),
            24..29 => {
                return self
                    .pick(&["select 1/0", "selec 1", "select 1", ""])
                    .to_owned();
            }
            _ => {}
        }
        let topics = self.topics.clone();
        match self.pick(&topics) {
            Topic::Cursors => self.cursor(),
            Topic::Ddl => self.ddl(),
            Topic::Discard => self.discard(),
            Topic::Functions => self.function(),
            Topic::Locks => self.lock(),
            Topic::Notifications => self.notification(),
            Topic::Roles | Topic::Privileges => self.role(),
            Topic::Savepoints => self.savepoint(),
            Topic::Seeds => self.seed(),
            Topic::Sequences => self.sequence(),
            Topic::Statements => self.prepare(),
            Topic::Temporary => self.temporary(),
            Topic::Tenants => self.tenant(),
            Topic::Timeouts => self.timeout(),
            _ => self.assignment(),
        }
    }

    fn control(&mut self) -> String {
        let texts = [
            "begin",
            "begin",
            "begin",
            "begin isolation level repeatable read",
            "begin read only",
            "commit",
            "commit",
            "commit",
            "rollback",
            "rollback",
            "commit and chain",
            "rollback and chain",
        ];
        self.pick(&texts).to_owned()
    }

    /// Returns a statement whose result shows lost or foreign state.
    fn witness(&mut self) -> String {
        let texts = [
            "select note('step')",
            "insert into log select current_user, current_setting('search_path'), nullif(current_setting('app.tenant', true), ''), \
             nullif(current_setting('app.x', true), ''), current_setting('work_mem'), 'insert'",
            "select k, v from t order by k, v",
            "insert into t values (9, current_user)",
            "select * from tenants order by v",
            "select current_user, coalesce(current_setting('app.tenant', true), '')",
            "update t set v = 'changed' where k = 1",
            "delete from t where k = 9",
            "select '2020-01-02 03:04:05+00'::timestamptz, '1 day 2 hours'::interval, 1.1::float4, '\\x41'::bytea",
        ];
        self.pick(&texts).to_owned()
    }

    /// Returns requests and answers that are longer than any buffer.
    fn large(&mut self) -> String {
        let length = self.pick(&[8_000, 33_000, 70_000, 300_000]);
        match self.random.below(4) {
            0 => format!("select repeat('x', {length})"),
            1 => format!("select length('{{y*{length}}}')"),
            2 => format!(
                "select i, repeat('z', 50) from generate_series(1, {}) i",
                length / 60
            ),
            // A SET of that length beside a RESET ALL is in `found::NOT_YET`.
            _ => format!("select count(*) from t /* {{y*{length}}} */"),
        }
    }

    /// Returns a setting, custom or PostgreSQL's, and a value.
    fn setting(&mut self) -> (&'static str, String) {
        match self.random.below(10) {
            0..5 if self.has(Topic::Custom) => (self.pick(&CUSTOM), self.pick(&TENANTS).to_owned()),
            3..6 => {
                let (name, values) = self.pick(&REPORTED);
                (name, self.pick(&values).to_owned())
            }
            _ => {
                let (name, values) = self.pick(&UNREPORTED);
                (name, self.pick(&values).to_owned())
            }
        }
    }

    /// Returns a SET in any of its forms.
    pub(crate) fn assignment(&mut self) -> String {
        let (name, value) = self.setting();
        // A list is not a single quoted text.
        let list = name == "search_path";
        let literal = if list {
            value.clone()
        } else {
            format!("'{value}'")
        };
        match self.random.below(24) {
            0..7 => format!("set {name} to {literal}"),
            7..9 => format!("set session {name} = {literal}"),
            9..12 => format!("set local {name} to {literal}"),
            12 => format!("reset {name}"),
            13 => format!("set {name} to default"),
            14 | 15 => format!("select set_config('{name}', '{value}', false)"),
            16 => format!("select set_config('{name}', '{value}', true)"),
            17 => format!(
                "select set_config('{}' || '{}', '{value}', false)",
                &name[..2],
                &name[2..]
            ),
            18 => format!("select set_config(n, '{value}', false) from (values ('{name}')) x(n)"),
            19 => format!("do $$ begin perform set_config('{name}', '{value}', false); end $$"),
            20 => format!(
                "do $$ begin execute 'set {name} to {}'; end $$",
                literal.replace('\'', "''")
            ),
            21 if self.has(Topic::Custom) => {
                format!(
                    "select set_config('app.x', coalesce(current_setting('{name}', true), '') || 'z', false)"
                )
            }
            22 => format!("update pg_settings set setting = '{value}' where name = '{name}'"),
            _ => self.rare_assignment(),
        }
    }

    fn rare_assignment(&mut self) -> String {
        let customs = [
            "set APP.Tenant to 'b'",
            "set \"app\".\"x\" to 'quoted'",
            "set app.x to E'it\\'s'",
            "set app.x = 12.5",
            "set app.x to $$dollar$$",
            "/* comment */ set /* ; */ app.x to 'commented'",
            "with c as (select set_config('app.x', 'with', false) as x) select x from c",
            "explain (analyze, costs off, timing off, summary off) select set_config('app.x', 'explained', false)",
            "values (set_config('app.x', 'values', false))",
            "create temp table if not exists made on commit drop as select set_config('app.x', 'created', false)",
            "copy (select set_config('app.x', 'copied', false)) to stdout",
            "select set_config('app.tenant', 'c', k = 99) from t where k = 1 limit 1",
            "select case when set_config('app.x', 'case', false) = 'case' then 1 end",
            "insert into t select 8, set_config('app.x', 'inserted', false)",
            "update t set v = set_config('app.x', 'updated', false) where k = 2",
            "delete from t where k = 9 returning set_config('app.x', 'deleted', false)",
        ];
        if self.has(Topic::Custom) && self.random.chance(60) {
            return self.pick(&customs).to_owned();
        }
        let texts = [
            "set session characteristics as transaction read only",
            "set session characteristics as transaction read write",
            "set time zone 'Europe/Paris'",
            "set time zone interval '+02:00' hour to minute",
            "set schema 'two'",
            "set names 'UTF8'",
            "set no_such_setting to 1",
            "set transaction read only",
            "set search_path from current",
            "select set_config('work_mem', setting, false) from pg_settings where name = 'work_mem'",
        ];
        self.pick(&texts).to_owned()
    }

    fn discard(&mut self) -> String {
        let texts = [
            "reset all",
            "reset all",
            "deallocate all",
            "discard all",
            "discard plans",
            "discard sequences",
            "discard temp",
            "reset app.tenant",
            "reset role",
            "reset session authorization",
            "select pg_advisory_unlock_all()",
            "close all",
            "unlisten *",
            "do $$ begin null; end $$",
            "do $$ begin perform 1; end $$",
        ];
        match self.random.chance(60) {
            true => self.pick(&texts).to_owned(),
            false => self.assignment(),
        }
    }

    fn function(&mut self) -> String {
        let value = self.pick(&TENANTS);
        match self.random.below(22) {
            0..3 => format!("select login('{value}')"),
            3..5 => format!("select enter('{value}')"),
            5 => format!("select run('set app.tenant to ''{}''')", self.pick(&["a", "b"])),
            6 => "select run('se' || 't work_mem to ''11MB''')".to_owned(),
            7 => format!("select assign('{}', '{value}')", self.pick(&CUSTOM)),
            8 => format!("select locally('{value}')"),
            9 => format!("select within('{value}')"),
            10 => format!("select fails('{value}')"),
            11 => format!("select recovers('{value}')"),
            12 => format!("select indirect('{value}')"),
            13 => format!("call p_set('{value}')"),
            14 => format!("call p_commit('{value}')"),
            15 => format!("call p_role('{}')", self.pick(&ROLES)),
            16 => "select * from v_set".to_owned(),
            17 => "select * from v_login".to_owned(),
            18 => format!("insert into trig values ('{value}')"),
            19 => "insert into defaults (k) values (1)".to_owned(),
            20 => "select query_to_xml('select set_config(''app.x'', ''xml'', false)', false, false, '') is not null".to_owned(),
            _ => format!("select count(*) from (select login('{value}') from generate_series(1, 2)) x"),
        }
    }

    fn role(&mut self) -> String {
        let role = self.pick(&ROLES);
        let literal = if role == "none" {
            "none".to_owned()
        } else {
            format!("'{role}'")
        };
        match self.random.below(14) {
            0..5 => format!("set role {literal}"),
            5 => format!("set local role {literal}"),
            6 | 7 => "reset role".to_owned(),
            8 => format!("select set_config('role', '{role}', false)"),
            9 => format!(
                "set session authorization {}",
                self.pick(&["app", "ra", "default"])
            ),
            10 => "reset session authorization".to_owned(),
            11 => "set log_min_duration_statement to 5000".to_owned(),
            12 => "set role no_such_role".to_owned(),
            _ => "select current_user, session_user".to_owned(),
        }
    }

    /// Returns a statement for the administrator.
    pub(crate) fn privilege(&mut self) -> String {
        let role = self.pick(&["ra", "rb", "rc"]);
        match self.random.below(9) {
            0..2 => format!("revoke {role} from app"),
            2..5 => format!("grant {role} to app"),
            5 => format!("drop role {role}"),
            6 => format!("create role {role}"),
            7 => "revoke set on parameter log_min_duration_statement from app".to_owned(),
            _ => "grant set on parameter log_min_duration_statement to app".to_owned(),
        }
    }

    fn savepoint(&mut self) -> String {
        let point = self.pick(&SAVEPOINTS);
        match self.random.below(10) {
            0..3 => format!("savepoint {point}"),
            3..6 => format!("rollback to {point}"),
            6 => format!("release {point}"),
            7 => "begin".to_owned(),
            8 => "select 1/0".to_owned(),
            _ => self.assignment(),
        }
    }

    fn sequence(&mut self) -> String {
        let texts = [
            "select nextval('s')",
            "insert into ids (v) values ('x') returning id",
            "select nextval('s'), currval('s')",
            "insert into ids (v) values ('y') returning currval('ids_id_seq') = id",
            "select setval('s2', 7)",
            "select nextval('s2')",
            "select last_value > 0 from s",
            "truncate ids restart identity",
        ];
        if self.random.chance(4) {
            return self
                .pick(&["select currval('s')", "select lastval()"])
                .to_owned();
        }
        self.pick(&texts).to_owned()
    }

    /// Returns a statement about server state that no catalogue shows.
    fn seed(&mut self) -> String {
        let texts = [
            "select setseed(0.25); select random()",
            "select setseed(0.5), random() > 2",
            "set seed to 0.75; select random()",
            "begin; select setseed(0.1); select random(); rollback",
            "load 'plpgsql'",
            "discard all",
        ];
        self.pick(&texts).to_owned()
    }

    /// Returns a lock statement that never waits: no other client could act meanwhile.
    fn lock(&mut self) -> String {
        let key = self.random.below(3);
        match self.random.below(8) {
            0..3 => format!("select pg_try_advisory_lock({key})"),
            3 => format!("select pg_try_advisory_lock_shared({key})"),
            4 => format!("select pg_try_advisory_xact_lock({key})"),
            5 => format!("select pg_advisory_unlock({key})"),
            6 => format!("select pg_advisory_unlock_shared({key})"),
            _ => "select pg_advisory_unlock_all()".to_owned(),
        }
    }

    fn notification(&mut self) -> String {
        let channel = self.pick(&["n1", "n2"]);
        let number = self.random.below(100);
        match self.random.below(8) {
            0..3 => format!("listen {channel}"),
            3 => format!("unlisten {channel}"),
            4 => format!("select pg_notify('{channel}', '{number}')"),
            5 => "unlisten *".to_owned(),
            _ => format!("notify {channel}, '{number}'"),
        }
    }

    fn tenant(&mut self) -> String {
        let value = self.pick(&TENANTS);
        match self.random.below(8) {
            0 => format!(
                "insert into tenants values ('{value}', {})",
                10 + self.random.below(10)
            ),
            1 => "update tenants set v = v + 100".to_owned(),
            2 | 3 if self.has(Topic::Custom) => format!("set app.tenant to '{value}'"),
            7 if self.has(Topic::Custom) => {
                format!("select set_config('app.tenant', '{value}', false), count(*) from t")
            }
            4 if self.has(Topic::Functions) => format!("select login('{value}')"),
            _ => "select tenant, v from tenants order by 1, 2".to_owned(),
        }
    }

    fn timeout(&mut self) -> String {
        let texts = [
            "set local statement_timeout = 30; select pg_sleep(60)",
            "set statement_timeout = 30; select pg_sleep(60)",
            "begin; set local statement_timeout = 30; select pg_sleep(60)",
            "set statement_timeout to '2h'",
            "show statement_timeout",
        ];
        self.pick(&texts).to_owned()
    }

    fn temporary(&mut self) -> String {
        let texts = [
            "create temp table tt (v date)",
            "create temp table tt (v timestamp) on commit drop",
            "create temp table tt (v text, w int) on commit delete rows",
            "create temp table tt as select 1 as v",
            "drop table tt",
            "drop table if exists pg_temp.tt",
            "insert into tt values ('2020-01-02')",
            "select * from tt order by 1",
            "create temp sequence ts",
            "drop sequence ts",
            "create temp view tv as select 7 as seven",
            "drop view tv",
            "discard temp",
            "create table if not exists pg_temp.t (k int, v text)",
            "select k, v from t order by k, v",
            "create function pg_temp.own() returns int language sql as 'select 5'",
            "select pg_temp.own()",
            "drop function pg_temp.own()",
            "select v as kept into temp tt from t where k = 1",
        ];
        self.pick(&texts).to_owned()
    }

    fn cursor(&mut self) -> String {
        let name = self.pick(&["c1", "c2"]);
        match self.random.below(8) {
            0 | 1 => {
                format!("declare {name} cursor with hold for select k, v from t order by k, v")
            }
            2 if self.has(Topic::Custom) => {
                format!("declare {name} cursor for select set_config('app.x', 'fetched', false)")
            }
            3 => format!("declare {name} scroll cursor for select generate_series(1, 5)"),
            4 | 5 => format!("fetch 2 from {name}"),
            6 => format!("close {name}"),
            _ => "close all".to_owned(),
        }
    }

    /// Returns a statement about PREPARE. SQL's statements share their names with those of the
    /// protocol.
    fn prepare(&mut self) -> String {
        let name = self.pick(&["a", "b", "q"]);
        match self.random.below(10) {
            0 => format!("prepare {name} as select 1"),
            1 if self.has(Topic::Custom) => {
                format!("prepare {name} (text) as select set_config('app.x', $1, false)")
            }
            2 => format!("prepare {name} as select k, v from t order by k, v"),
            3 => format!("prepare {name} (int) as select $1 + 1, current_user"),
            4..7 => format!("execute {name}"),
            7 => format!("execute {name}('5')"),
            8 => format!("deallocate {name}"),
            _ => "deallocate all".to_owned(),
        }
    }

    /// Returns a change of tables, types or functions, for their owner or the administrator.
    pub(crate) fn ddl(&mut self) -> String {
        let texts = [
            "alter table d1 alter column v type int using 1",
            "alter table d1 alter column v type numeric using 2.5",
            "alter table d1 alter column v type text using v::text",
            "alter table d1 alter column v type timestamp using '2020-01-02 03:04:05'",
            "alter table d1 alter column v type date using '2020-01-02'",
            "alter table d1 alter column v type real using 1.5",
            "alter table d1 rename to d3; alter table d2 rename to d1; alter table d3 rename to d2",
            "drop table d1",
            "create table d1 (k int, v text); grant all on d1 to public",
            "create table d1 (k int, v timestamp); grant all on d1 to public",
            "drop type mood cascade",
            "create type mood as enum ('happy', 'ok')",
            "create domain mood as text",
            "alter type mood add value if not exists 'new'",
            "drop function f(int)",
            "create function f(numeric) returns text language sql as $$ select 'numeric ' || $1 $$",
            "create function f(text) returns text language sql as $$ select 'text ' || $1 $$",
            "create or replace function f(int) returns text language sql as $$ select 'again ' || $1 $$",
            "drop function if exists f(text); drop function if exists f(numeric)",
            "create or replace view w as select k, v, 1 as more from d2",
            "drop view if exists w; create view w as select k, v::text from d2",
            "alter table t add column if not exists more int default 5",
            "alter table t drop column if exists more",
            "alter table one.t alter column k type text",
            "drop domain amount; create domain amount as text",
            "truncate d1",
        ];
        self.pick(&texts).to_owned()
    }
}
