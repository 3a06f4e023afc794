-- Cursors in transactions, WITH HOLD across them, FETCH_COUNT.
begin;
declare c cursor for select i from generate_series(1, 100) i;
fetch 3 from c;
fetch next from c;
move 10 in c;
fetch 2 from c;
close c;
fetch 1 from c;
rollback;
begin;
declare s scroll cursor for select i, i * 2 as double from generate_series(1, 10) i;
fetch last from s;
fetch prior from s;
fetch absolute 2 from s;
fetch relative -1 from s;
fetch all from s;
select name, is_scrollable, is_holdable from pg_cursors;
commit;
fetch 1 from s;
begin;
declare b binary cursor for select 1::int4;
close all;
commit;
\set FETCH_COUNT 7
select i, i % 3 as rest from generate_series(1, 30) i;
select i, 1 / (20 - i) as inverse from generate_series(1, 30) i;
\set FETCH_COUNT 0
begin;
create temp table walked (i int) on commit drop;
insert into walked select generate_series(1, 5);
declare u cursor for select i from walked for update;
fetch 2 from u;
update walked set i = 100 where current of u;
select i from walked order by i;
commit;
\echo end of script
