//! Programs found by random runs, shortened: an earlier Weir answered each of them differently.

/// Name and text of each program.
pub(crate) const FOUND: &[(&str, &str)] = &[
    (
        "a role from the start that is given up",
        "
        pool 2 workers 1
        client A user=app; options=-c role=ra -c work_mem=8MB
        A: set role none
        A asks settings
        ",
    ),
    (
        "DISCARD ALL in a transaction block",
        "
        pool 2 workers 2
        client A user=app; DateStyle=ISO, YMD
        A: begin
        A: discard all
        A: rollback
        A> query: begin | query: discard all | query: rollback | sync
        A asks settings
        ",
    ),
    (
        "DISCARD ALL beside other statements",
        "
        pool 1 workers 2
        client A user=app; TimeZone=UTC
        A: select set_config('TimeZone', 'Asia/Tokyo', false) ;; commit ;; discard all
        A asks settings
        ",
    ),
    (
        "DISCARD SEQUENCES in a failed transaction",
        "
        pool 3 workers 4
        client A user=postgres
        client B user=postgres
        A> parse -: select set_config('search_path', 'two, public', false) | sync
        B: begin read only
        B> bind - a | sync
        B: select setval('s2', 7)
        ",
    ),
    (
        "a wrong number of parameters",
        "
        pool 1 workers 2
        client A user=postgres
        A> parse c unknown: select f($1) | sync
        A> bind - c | sync
        ",
    ),
    (
        "parameter types after ALTER TABLE",
        "
        pool 3 workers 2
        client A user=app
        client B user=app; application_name=one
        A: select set_config('work_mem', '6MB', false) ;; deallocate q ;; drop domain amount; create domain amount as text
        A> parse b: insert into d1 values (7, $1) | bind - b: 2.25 | sync
        admin: alter table d1 alter column v type int using 1
        A asks names
        ",
    ),
    (
        "a custom setting beside a setting of any name",
        "
        pool 1 workers 2
        client A user=app
        A: select set_config('work_mem', setting, false) from pg_settings where name = 'work_mem' ;; set my.var to 'it''s'
        A leaves
        ",
    ),
    (
        "a custom setting beside an update of pg_settings",
        "
        pool 3 workers 4
        client A user=app
        A: set app.x to 'it''s' ;; update pg_settings set setting = '0' where name = 'extra_float_digits'
        ",
    ),
    (
        "a custom setting beside a block",
        "
        pool 1 workers 1
        client A user=app
        A: do $$ begin null; end $$ ;; set app.tenant to 'b'
        ",
    ),
    (
        "a custom setting beside DEALLOCATE ALL",
        "
        pool 2 workers 1
        client A user=app
        A: select set_config('app.x', 'z', false) ;; deallocate all
        ",
    ),
    (
        "a function that sets",
        "
        pool 1 workers 1
        client A user=postgres
        A: select login('it''s')
        ",
    ),
    (
        "a trigger that sets",
        "
        pool 2 workers 2
        client A user=postgres
        A copies 7: copy trig from stdin with (format csv)
        ",
    ),
    (
        "currval behind an INSERT on trial",
        "
        pool 1 workers 1
        client A user=app
        client B user=app
        A: select nextval('s')
        B: insert into ids (v) values ('x') returning id
        B: select currval('s')
        ",
    ),
    (
        "lastval of a client that keeps its server for a temporary object",
        "
        pool 1 workers 4
        client A user=app
        client B user=app
        B: insert into ids (v) values ('x') returning id
        A: create function pg_temp.own() returns int language sql as 'select 5'
        A: select lastval()
        ",
    ),
    (
        "a setting of an unknown name behind RESET ALL",
        "
        pool 3 workers 4
        client A user=app
        client B user=app
        client C user=app
        A: select 1
        B: select run('set app.tenant to ''b''')
        A: reset all
        A: select run('set app.tenant to ''a''')
        C: select tenant, v from tenants order by 1, 2
        ",
    ),
    (
        "errors of an outdated statement",
        "
        pool 2 workers 1
        client A user=app
        client B user=app
        B> parse b: select count(*) from d1 where v = $1 | sync
        A: begin
        admin: drop table d1
        B> parse b int8: select k, v, $1::text from w order by 1, 2 | sync
        ",
    ),
    (
        "a list of statements of which one cannot be prepared any more",
        "
        pool 3 workers 2
        client A user=app
        A> parse a: select $1::amount | sync
        A> parse -: set TimeZone to default | bind - - | sync
        admin: drop domain amount; create domain amount as text
        A asks statements
        ",
    ),
    (
        "a listed statement that is closed",
        "
        pool 1 workers 1
        client A user=app
        A: create function pg_temp.own() returns int language sql as 'select 5'
        A> parse a: select * from t where k = $1 order by 1, 2 | sync
        A asks statements
        A> close S a | sync
        A asks names
        ",
    ),
    (
        "a list of statements after a setting and ALTER TABLE",
        "
        pool 2 workers 2
        client A user=postgres
        client B user=postgres
        A> parse b: select coalesce(v, $1) from d1 order by 1 | sync
        A: set TimeZone to 'UTC'
        B> parse -: alter table d1 alter column v type timestamp using '2020-01-02 03:04:05' | bind - - | execute - 0 | sync
        A asks statements
        ",
    ),
    (
        "NOTIFY between UNLISTEN and LISTEN",
        "
        pool 2 workers 1
        client A user=postgres
        A: listen n2
        A: unlisten * ;; notify n2, '46' ;; listen n2
        ",
    ),
    (
        "DISCARD ALL in a batch that fails later",
        "
        pool 2 workers 2
        client A user=app; IntervalStyle=sql_standard
        A> parse -: discard all | bind - - | execute - 0 | bind - b | flush
        A: rollback
        ",
    ),
    (
        "RESET ALL in a long text",
        "
        pool 2 workers 1
        client A user=app; DateStyle=SQL, DMY
        A: reset all ;; set work_mem to '10MB' /* {y*70000} */
        ",
    ),
    (
        "DISCARD ALL beside other messages of its batch",
        "
        pool 2 workers 2
        client A user=app; IntervalStyle=sql_standard; DateStyle=German
        client B user=app; IntervalStyle=iso_8601
        B: select 1
        A> parse -: discard all | bind - - | execute - 0 | parse c: set datestyle to 'ISO' | bind - c | execute - 0 | sync
        A asks settings
        A> parse -: select 1 | bind - - | execute - 0 | parse -: discard all | bind - - | execute - 0 | sync
        A> parse -: discard all | bind - - | execute - 0 | flush
        A: show datestyle
        B asks settings
        ",
    ),
    (
        "a reset at the end of a long text",
        "
        pool 3 workers 2
        client A user=postgres; options=-c work_mem=9MB -c app.x=start
        A: select count(*) from t /* {y*300000} */ ;; set app.x to 'a' ;; reset work_mem
        A asks settings
        ",
    ),
    (
        "a custom setting at the end of a long text",
        "
        pool 2 workers 1
        client A user=app
        A: select count(*) from t /* {y*300000} */ ;; set my.var to 'a'
        A leaves
        ",
    ),
    (
        "NOTIFY between UNLISTEN and LISTEN in a block",
        "
        pool 2 workers 1
        client A user=postgres
        A: listen n2
        A: begin
        A: unlisten n2
        A: notify n2, '46'
        A: listen n2
        A: commit
        A: notify n2, '47'
        ",
    ),
    (
        "NOTIFY between UNLISTEN and LISTEN in a batch",
        "
        pool 2 workers 1
        client A user=postgres
        A: listen n2
        A> parse -: unlisten * | bind - - | execute - 0 | parse -: notify n2, '46' | bind - - | execute - 0 | parse -: listen n2 | bind - - | execute - 0 | sync
        A: notify n2, '47'
        ",
    ),
    (
        "UNLISTEN behind a ROLLBACK",
        "
        pool 2 workers 2
        client A user=app
        A: listen n2
        A: rollback ;; unlisten n2
        A: notify n2, '2'
        ",
    ),
    (
        "UNLISTEN behind a COMMIT",
        "
        pool 3 workers 4
        client A user=app
        client B user=app
        A: listen n2
        A: begin read only
        B: notify n2, '49'
        A: commit ;; unlisten *
        ",
    ),
    (
        "NOTIFY behind an UNLISTEN",
        "
        pool 1 workers 1
        client A user=app
        A: listen n1
        A: unlisten * ;; do $$ begin null; end $$ ;; notify n1, '30'
        A: listen n1
        A: notify n1, '4' ;; unlisten n1 ;; commit ;; rollback
        ",
    ),
    (
        "an UNLISTEN that is bound and not executed",
        "
        pool 1 workers 1
        client A user=app
        A: listen n1
        A> parse -: unlisten n1 | bind - - | sync
        A: notify n1, '5'
        ",
    ),
    (
        "a list of statements of which one cannot be parsed any more",
        "
        pool 1 workers 2
        client A user=app
        A> parse b int4: insert into d1 values (7, $1) | sync
        admin: alter table d1 alter column v type date using '2020-01-02'
        A: begin
        A asks statements
        A: select 1
        ",
    ),
    (
        "a login behind a setting whose privilege was taken away",
        "
        pool 1 workers 1
        client A user=app
        client B user=app; DateStyle=German
        A: set log_min_duration_statement to '3000'
        admin: revoke ra from app
        admin: revoke set on parameter log_min_duration_statement from app
        B: select 1
        ",
    ),
    (
        "a bad value for a statement whose columns have changed",
        "
        pool 2 workers 2
        client A user=app
        client B user=app
        A> parse a: select * from t where k = $1 order by 1, 2 | describe S a | sync
        A: set search_path to two, public
        A> bind - a: happy | sync
        A> bind - a: 1 | sync
        B: begin
        A> bind p1 a: x | sync
        A> bind - a | sync
        ",
    ),
    (
        "Describe of an EXECUTE whose statement came later",
        "
        pool 3 workers 4
        client A user=app
        A> parse c: execute b | sync
        A> parse b: select k, v from t order by k, v | sync
        A asks names
        ",
    ),
    (
        "a Flush behind a Query of a client that listens",
        "
        pool 1 workers 2
        client A user=postgres
        A: listen n2
        A> sync | query: set local statement_timeout to '1h' | flush | sync
        A asks channels
        ",
    ),
    (
        "a start value that is the default, behind an unread text in a rollback",
        "
        pool 2 workers 2
        client A user=app; application_name=
        A: begin
        A: set local application_name to 'one'
        A: select length('{y*70000}') ;; reset standard_conforming_strings
        A: rollback
        A asks settings
        ",
    ),
    (
        "a start value that is not the default, behind an unread text in a rollback",
        "
        pool 2 workers 2
        client A user=app; DateStyle=SQL, DMY
        A: begin
        A: set local DateStyle to 'German'
        A: select length('{y*70000}') ;; reset standard_conforming_strings
        A: rollback
        A asks settings
        ",
    ),
];

/// Programs that show a fault of Weir which is not fixed yet: name, text and fault. They are not run.
pub(crate) const NOT_YET: &[(&str, &str, &str)] = &[
    (
        "EXECUTE of a statement that cannot be parsed any more",
        "
        pool 2 workers 2
        client A user=app
        A> parse a: select k, v, $1::text from w order by 1, 2 | sync
        A: set search_path to one
        A: execute a
        ",
        "the client is told that its statement does not exist (26000): PostgreSQL counts the parameters first (42601)",
    ),
    (
        "a Bind without a parameter whose type is gone",
        "
        pool 2 workers 1
        client A user=app
        client B user=app
        A> parse d: select $1::amount | sync
        admin: drop domain amount; create domain amount as text
        B: deallocate all
        A> bind - d | sync
        ",
        "the client is told that the type cannot be found (XX000): PostgreSQL counts the parameters first (08P01)",
    ),
    (
        "a start value in another spelling of the default, behind an unread text in a rollback",
        "
        pool 2 workers 2
        client A user=app; DateStyle=iso
        A: begin
        A: set local DateStyle to 'German'
        A: select length('{y*70000}') ;; reset standard_conforming_strings
        A: rollback
        A asks settings
        ",
        "the default is reported with the answer of the next request",
    ),
    (
        "a start value set to the default in an unread text",
        "
        pool 1 workers 2
        client A user=app; TimeZone=America/New_York
        A: set session TimeZone = 'UTC' ;; select count(*) from t /* {y*300000} */
        A asks settings
        ",
        "the default is reported with the answer of the next request",
    ),
];
