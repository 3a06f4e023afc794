-- Transactions, savepoints, errors in multi-statement queries.
create table t (i int primary key);
begin;
insert into t values (1);
savepoint a;
insert into t values (1);
select 'refused';
rollback to a;
insert into t values (2);
savepoint b;
insert into t values (3);
release b;
rollback to a;
select i from t order by i;
commit;
select i from t order by i;
insert into t values (10) \; insert into t values (1) \; insert into t values (11);
select i from t order by i;
begin \; insert into t values (20) \; commit \; insert into t values (21) \; insert into t values (21);
select i from t order by i;
commit;
rollback;
begin;
begin;
commit and chain;
select 'in the chained transaction';
rollback and no chain;
begin isolation level serializable read only;
show transaction_isolation;
insert into t values (30);
commit;
\set ON_ERROR_ROLLBACK on
begin;
insert into t values (40);
insert into t values (40);
insert into t values (41);
commit;
select i from t order by i;
\set ON_ERROR_ROLLBACK off
\set AUTOCOMMIT off
insert into t values (50);
rollback;
select count(*) from t where i = 50;
commit;
\set AUTOCOMMIT on
begin;
set local work_mem = '3MB';
show work_mem;
commit;
show work_mem;
begin;
set constraints all deferred;
prepare transaction 'x';
rollback;
\echo end of script
