-- Types, NULLs, several statements at once, notices, messages.
select 1 as one, 'two' as two, null as three, 4.5::numeric, true, now() > '2000-01-01' as recent;
select generate_series(1, 5) as n, repeat('x', 3) as x;
select 1 \; select 2 \; select 3;
select ;
;
do $$ begin raise notice 'a notice of %', 42; raise warning 'a warning'; end $$;
do $$ begin raise info 'an info'; raise exception 'an exception' using errcode = 'P0042', hint = 'a hint', detail = 'some detail'; end $$;
\echo :SQLSTATE :LAST_ERROR_MESSAGE
select 1/0;
select 'still usable';
\gdesc
select 1 as a, 'x'::text as b, null::numeric(10, 2) as c \gdesc
select $1::int + $2::int as sum \bind_is_not_in_15
\errverbose
select format('select %s as generated', n) from generate_series(1, 3) n \gexec
select 7 as seven, 'eight' as eight \gset v_
\echo :v_seven :v_eight
select no_such_column;
select * from no_such_table;
\echo :SQLSTATE
values (1, 'a'), (2, 'b');
\pset format csv
select i, i * i as square from generate_series(1, 300) i;
\pset format aligned
\echo end of script
