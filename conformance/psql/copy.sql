-- COPY in both directions, in text, CSV and binary, with errors in mid-stream.
create table t (id int primary key, word text, amount numeric);
copy t from stdin;
1	one	1.5
2	two	\N
3	\N	3.25
\.
copy t to stdout;
copy t (id, word) to stdout with (format csv, header);
copy (select id, word from t where id > 1 order by id) to stdout with (format csv);
copy t from stdin with (format csv);
4,four,4
5,five,not a number
6,six,6
\.
select count(*) from t;
copy t from stdin;
1	duplicate	0
\.
\echo :SQLSTATE
select count(*), sum(id) from t;
begin;
copy t from stdin;
10	ten	10
11	eleven	11
\.
select count(*) from t;
rollback;
select count(*) from t;
begin;
copy t from stdin;
12	twelve	twelve
\.
select 'in a failed transaction';
commit;
copy no_such_table from stdin;
copy no_such_table to stdout;
\copy (select i, repeat('y', i % 50) from generate_series(1, 2000) i) to pstdout
create table big (i int, filler text);
copy big from program 'seq 1 1000 | sed "s/$/\tfiller/"';
select count(*), sum(i) from big;
copy big from stdin \; select count(*) from big;
1001	a
1002	b
\.
select 1 \; copy t (id) to stdout \; select 2;
copy t to stdout (format nonsense);
\echo end of script
