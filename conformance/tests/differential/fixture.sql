-- Content of each program's database; whoever may use it may change it.
create schema one; create schema two;
grant all on schema public, one, two to public;
create table public.t (k int, v text); insert into public.t values (1, 'public'), (2, 'second');
create table one.t (k int, v text); insert into one.t values (1, 'one');
create table two.t (k numeric, v text); insert into two.t values (1, 'two'), (2, 'second'), (3, 'third');

-- Who a statement was run by: what a lost or alien setting changes is in here for good.
create table public.log (who text, path text, tenant text, x text, work text, note text);
create function public.note(text) returns void language sql as
  $$ insert into public.log select current_user, current_setting('search_path'),
     nullif(current_setting('app.tenant', true), ''), nullif(current_setting('app.x', true), ''), current_setting('work_mem'), $1 $$;

-- Rows by tenant.
create table public.tenants (tenant text, v int);
insert into public.tenants values ('a', 1), ('b', 2), ('c', 3), ('', 0);
alter table public.tenants enable row level security;
alter table public.tenants force row level security;
create policy own on public.tenants using (tenant = coalesce(current_setting('app.tenant', true), ''));

-- Functions, procedures, views and triggers that set.
create function public.login(text) returns text language sql as $$ select set_config('app.tenant', $1, false) $$;
create function public.enter(text) returns text language plpgsql as
  $$ begin perform set_config('app.tenant', $1, false); perform set_config('app.x', $1, false); return $1; end $$;
create function public.run(text) returns text language plpgsql as $$ begin execute $1; return 'done'; end $$;
create function public.assign(n text, v text) returns text language plpgsql as
  $$ begin execute format('set %s to %L', n, v); return v; end $$;
create function public.locally(text) returns text language plpgsql as
  $$ begin perform set_config('app.tenant', $1, true); return current_setting('app.tenant'); end $$;
create function public.within(text) returns text language plpgsql set search_path = one, pg_catalog as
  $$ begin perform set_config('app.x', $1, false); return current_setting('search_path'); end $$;
create function public.fails(text) returns text language plpgsql as
  $$ begin perform set_config('app.tenant', $1, false); raise exception 'failed %', $1; end $$;
create function public.recovers(text) returns text language plpgsql as
  $$ begin begin perform set_config('app.tenant', $1, false); perform 1/0; exception when division_by_zero then null; end;
     return coalesce(current_setting('app.tenant', true), ''); end $$;
create function public.indirect(text) returns text language sql as $$ select public.login($1) $$;
create procedure public.p_set(text) language plpgsql as $$ begin perform set_config('app.x', $1, false); end $$;
create procedure public.p_commit(text) language plpgsql as
  $$ begin perform set_config('app.x', $1, false); commit; perform set_config('app.tenant', $1, false); end $$;
create procedure public.p_role(text) language plpgsql as $$ begin execute 'set role ' || $1; end $$;
create view public.v_set as select set_config('app.tenant', 'v', false) as x;
create view public.v_login as select public.login('w') as x;
create table public.trig (v text);
create function public.on_trig() returns trigger language plpgsql as
  $$ begin perform set_config('app.x', new.v, false); return new; end $$;
create trigger trig before insert on public.trig for each row execute function public.on_trig();
create table public.defaults (k int, v text default set_config('app.x', 'default', false));

-- Objects that change their type.
create table public.d1 (k int, v numeric); insert into public.d1 values (1, 1), (2, 2.25);
create table public.d2 (k int, v int); insert into public.d2 values (1, 10), (2, 20);
create type public.mood as enum ('sad', 'ok');
create type public.pair as (a int, b text);
create domain public.amount as int check (value > 0);
create function public.f(int) returns text language sql as $$ select 'int ' || $1 $$;
create view public.w as select k, v from public.d2;

-- Sequences and locks.
create sequence public.s; create sequence public.s2;
create table public.ids (id serial, v text);
grant all on all tables in schema public, one, two to public;
grant all on all sequences in schema public to public;
grant select, insert, update, delete on public.tenants to public;
