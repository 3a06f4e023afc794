//! Tests that contradictions about several hosts are refused, each with its place and advice.

use expect_test::{Expect, expect};

use crate::{ini, lines, native};

/// Checks the mistakes of a database `shop` with this entry, on line 2, these lines of `[hosts]`, from line 4 on, and
/// these global lines behind them.
fn check(entry: &str, global: &str, hosts: &str, expect: Expect) {
    let text = format!(
        "[databases]\nshop = {entry}\n[hosts]\n{hosts}\n[pgbouncer]\nauth_file=u\n{global}\n"
    );
    expect.assert_eq(&lines(ini(&text)));
}

/// As `check`, with two hosts, a user who watches them and transaction pooling.
fn check_two(entry: &str, hosts: &str, expect: Expect) {
    let entry = format!("host=a replicas=b {entry}");
    check(&entry, "watch_user=w\npool_mode=transaction", hosts, expect);
}

#[test]
fn options_that_need_several_hosts_are_refused_for_one() {
    for option in [
        "read_write_split=auto",
        "read_write_split=hint",
        "target=standby",
        "target=read-only",
        "target=primary",
        "target=prefer-standby",
        "split_begin=conservative",
        "read_consistency=session",
        "max_staleness=10",
        "max_lag=1",
        "read_wait=0",
        "read_fallback=primary",
        "fallback_max_share=100",
        "primary_functions=f",
        "read_functions=f",
        "split_brain=newest",
        "failover_hints=patroni:http://a:8008",
        "failover_hints_user=u",
        "failover_hints_ca_file=c",
        "failover_hints_password=p",
        "fence=patroni",
        "watch_user=w",
        "watch_password=w",
        "watch_dbname=w",
    ] {
        let text = format!("[databases]\nshop = host=a,b {option}\n[pgbouncer]\nauth_file=u\n");
        let key = option.split('=').next().unwrap();
        let expect = format!(
            "pgbouncer.ini:2: database \"shop\" has one host: add replicas = HOST, or remove {key}\n"
        );
        assert_eq!(lines(ini(&text)), expect);
    }
    let toml = "auth_file = 'u'\n[databases.shop]\nhost = 'a'\n\nread_write_split = 'auto'\n";
    expect![[r#"
        weir.toml:5: database "shop" has one host: add replicas = HOST, or remove read_write_split
    "#]]
    .assert_eq(&lines(native(toml)));
}

#[test]
fn roles_that_contradict_each_other_or_the_target_are_refused() {
    check_two(
        "",
        "shop/a = role=primary\nshop/b = role=primary",
        expect![[r#"
            pgbouncer.ini:5: database "shop" has two hosts with role primary, a:5432 and b:5432: set role = auto for one
        "#]],
    );
    check_two(
        "",
        "shop/a = role=replica\nshop/b = role=replica",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has target read-write and no host that may be primary: set role = auto for one, or target = standby
        "#]],
    );
    check_two(
        "target=primary",
        "shop/a = role=replica\nshop/b = role=replica",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has target primary and no host that may be primary: set role = auto for one, or target = standby
        "#]],
    );
    check_two(
        "target=standby",
        "shop/b = weight=1 role=primary",
        expect![[r#"
            pgbouncer.ini:4: database "shop" has target standby and the host b:5432 with role primary, which is never used: set role = auto, or remove the host
        "#]],
    );
    check_two(
        "target=read-only",
        "shop/a = role=primary",
        expect![[r#"
        pgbouncer.ini:4: database "shop" has target read-only and the host a:5432 with role primary, which is never used: set role = auto, or remove the host
    "#]],
    );
    check_two(
        "target=prefer-standby",
        "shop/a = role=replica\nshop/b = role=replica",
        expect!["no mistake"],
    );
}

#[test]
fn a_split_needs_hosts_that_take_reads() {
    let none = "shop/a = reads=false\nshop/b = weight=0";
    check_two(
        "read_write_split=auto",
        none,
        expect![[r#"
        pgbouncer.ini:2: database "shop" has read_write_split auto and no host that takes reads: each has reads = false, weight = 0 or role = primary
    "#]],
    );
    check_two(
        "read_write_split=hint",
        "shop/a = role=primary\nshop/b = reads=0",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has read_write_split hint and no host that takes reads: each has reads = false, weight = 0 or role = primary
        "#]],
    );
    check_two(
        "target=standby",
        none,
        expect![[r#"
        pgbouncer.ini:2: database "shop" has target standby and no host that takes reads: each has reads = false, weight = 0 or role = primary
    "#]],
    );
    check_two("", none, expect!["no mistake"]);
}

#[test]
fn a_host_stands_once() {
    check_two("", "", expect!["no mistake"]);
    check(
        "host=a,A",
        "watch_user=w",
        "shop/b =",
        expect![[r#"
        pgbouncer.ini:2: database "shop" lists the host A:5432 twice: remove one
    "#]],
    );
    check(
        "host=a port=7 replicas='b,A:7'",
        "watch_user=w",
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" lists the host A:7 twice: remove one
        "#]],
    );
    check(
        "host=a,b",
        "watch_user=w",
        "shop/b = weight=1\nshop/B:5432 =",
        expect![[r#"
            pgbouncer.ini:4: database "shop" has two tables of the host b: remove one
        "#]],
    );
    check(
        "replicas=b",
        "watch_user=w",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has replicas and no host: add host = HOST
    "#]],
    );
    let many: Vec<_> = (0..64).map(|number| format!("r{number}")).collect();
    let entry = format!("host=a replicas='{}'", many.join(","));
    check(
        &entry,
        "watch_user=w",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has 65 hosts: at most 64 are possible
    "#]],
    );
}

#[test]
fn hosts_need_a_user_and_a_database_to_be_watched() {
    check(
        "host=a replicas=b",
        "",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has several hosts and no user to watch them as: set watch_user, or user in the entry, or auth_user
    "#]],
    );
    check(
        "host=a replicas=b watch_user=''",
        "watch_user=w",
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has several hosts and no user to watch them as: set watch_user, or user in the entry, or auth_user
        "#]],
    );
    check(
        "host=a replicas=b user=f watch_password=hunter2",
        "",
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has watch_password and no watch_user: set both, or remove watch_password
        "#]],
    );
    let text =
        "[databases]\n* = host=a replicas=b dbname=x\n[pgbouncer]\nauth_file=u\nwatch_user=w\n";
    expect![[r#"
        pgbouncer.ini:2: database "*" stands for many databases and has several hosts: set watch_dbname to the one in which they are watched
    "#]].assert_eq(&lines(ini(text)));
}

#[test]
fn places_for_hints_of_failovers_are_refused_with_advice() {
    check_two(
        "failover_hints=db1:8008",
        "",
        expect![[r#"
        pgbouncer.ini:2: bad value "db1:8008" for "failover_hints": a place for hints must be patroni:http://HOST:PORT, etcd:http://HOST:PORT/NAMESPACE/SCOPE, repmgr:postgresql://HOST:PORT/DATABASE or pg_auto_failover:postgresql://HOST:PORT/DATABASE, such as patroni:http://10.0.0.1:8008 or etcd:http://10.0.0.1:2379/service/main
    "#]],
    );
    check_two(
        "failover_hints=http://db1:8008",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" names no tool for hints: write patroni:http://db1:8008 or etcd:http://db1:8008/service/SCOPE
    "#]],
    );
    check_two(
        "failover_hints=etcd:http://e1:2379",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has etcd:http://e1:2379: append Patroni's namespace and scope, such as /service/main
    "#]],
    );
    check_two(
        "failover_hints=repmgr:http://db1:5432/repmgr failover_hints_user=u",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has repmgr:http://db1:5432/repmgr: write repmgr:postgresql://HOST:PORT/DATABASE
    "#]],
    );
    check_two(
        "failover_hints=pg_auto_failover:postgresql://m:5000/pg_auto_failover",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has failover_hints of pg_auto_failover and no failover_hints_user: name a user who may read its tables
    "#]],
    );
    check_two(
        "failover_hints=patroni:http://u:hunter2@db1:8008",
        "",
        expect![[r#"
            pgbouncer.ini:2: bad value "patroni:http://u:hunter2@db1:8008" for "failover_hints": a place for hints has no user: set failover_hints_user and failover_hints_password
        "#]],
    );
    check_two(
        "failover_hints=patroni:http://db1:8008 failover_hints_password=hunter2",
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has failover_hints_password and no failover_hints_user: set both, or remove failover_hints_password
        "#]],
    );
    check_two(
        "failover_hints_user=u",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has failover_hints_user and no failover_hints: set both, or remove failover_hints_user
    "#]],
    );
}

#[test]
fn a_fence_without_a_source_of_the_leader_is_refused_with_advice() {
    check_two(
        "fence=patroni",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has fence = patroni and no place that names the leader: add failover_hints = etcd:http://HOST:2379/service/SCOPE or patroni:http://HOST:8008, or remove fence
    "#]],
    );
    // A mistake in the list is told once.
    check_two(
        "fence=patroni failover_hints=http://db1:8008",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" names no tool for hints: write patroni:http://db1:8008 or etcd:http://db1:8008/service/SCOPE
    "#]],
    );
}

#[test]
fn options_of_alternatives_are_refused_beside_several_hosts() {
    check_two(
        "load_balance_hosts=disable",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has several hosts, to which load_balance_hosts does not apply: remove it, and give hosts a weight
    "#]],
    );
}

#[test]
fn a_session_keeps_one_server_and_has_no_split() {
    let two = "host=a replicas=b";
    check(
        &format!("{two} read_write_split=auto"),
        "watch_user=w",
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has read_write_split auto in session pooling, where a client keeps one server: set pool_mode = transaction, or read_write_split = off
        "#]],
    );
    check(
        two,
        "watch_user=w\nread_write_split=hint",
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has read_write_split hint in session pooling, where a client keeps one server: set pool_mode = transaction, or read_write_split = off
        "#]],
    );
    check_two(
        "pool_mode=session read_write_split=hint",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has read_write_split hint in session pooling, where a client keeps one server: set pool_mode = transaction, or read_write_split = off
    "#]],
    );
    check(
        &format!("{two} pool_mode=statement"),
        "watch_user=w\nread_write_split=auto",
        "",
        expect!["no mistake"],
    );
    let users = |users: &str| format!("watch_user=w\npool_mode=transaction\n[users]\n{users}");
    check(
        &format!("{two} read_write_split=auto"),
        &users("u = pool_size=1 pool_mode=session"),
        "",
        expect![[r#"
            pgbouncer.ini:10: user "u" has read_write_split auto in session pooling of database "shop", where a client keeps one server: set pool_mode = transaction, or read_write_split = off
        "#]],
    );
    check(
        &format!("{two} pool_mode=session"),
        &users("u = read_write_split=auto"),
        "",
        expect![[r#"
            pgbouncer.ini:10: user "u" has read_write_split auto in session pooling of database "shop", where a client keeps one server: set pool_mode = transaction, or read_write_split = off
        "#]],
    );
    check(
        &format!("{two} pool_mode=session user=f"),
        &users("u = read_write_split=auto"),
        "",
        expect!["no mistake"],
    );
    check(
        &format!("{two} pool_mode=session user=u"),
        &users("u = read_write_split=auto"),
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has read_write_split auto in session pooling, where a client keeps one server: set pool_mode = transaction, or read_write_split = off
        "#]],
    );
    check(
        &format!("{two} read_write_split=auto"),
        &users("u = read_write_split=off pool_mode=session"),
        "",
        expect!["no mistake"],
    );
}

#[test]
fn times_that_contradict_each_other_are_refused() {
    check_two(
        "read_wait=2 query_wait_timeout=1.5",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has read_wait 2s above its query_wait_timeout 1.5s: lower read_wait
    "#]],
    );
    check_two(
        "read_wait=2 query_wait_timeout=0 failover_hold=600",
        "",
        expect!["no mistake"],
    );
    check(
        "host=a replicas=b",
        "watch_user=w\nread_wait=121",
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has read_wait 121s above its query_wait_timeout 120s: lower read_wait
        "#]],
    );
    check_two(
        "read_write_split=auto max_staleness=1.5",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has max_staleness 1.5s, but its hosts are asked every 1s (probe_interval), so no replica is ever known to be so fresh: allow at least 2s, or lower probe_interval
    "#]],
    );
    check_two(
        "target=standby max_staleness=1.5",
        "",
        expect![[r#"
        pgbouncer.ini:2: database "shop" has max_staleness 1.5s, but its hosts are asked every 1s (probe_interval), so no replica is ever known to be so fresh: allow at least 2s, or lower probe_interval
    "#]],
    );
    check_two("max_staleness=1.5", "", expect!["no mistake"]);
    check_two(
        "read_write_split=auto max_staleness=0",
        "",
        expect!["no mistake"],
    );
    check(
        "host=a",
        "probe_interval=0\nprobe_timeout=0.009",
        "",
        expect![[r#"
            pgbouncer.ini:7: probe_interval must be at least 10 ms
            pgbouncer.ini:8: probe_timeout must be at least 10 ms
        "#]],
    );
}

#[test]
fn a_function_is_on_one_list_only() {
    check_two(
        "primary_functions='f,app.*' read_functions='g,App.*'",
        "",
        expect![[r#"
            pgbouncer.ini:2: database "shop" has app.* in primary_functions and in read_functions: remove one
        "#]],
    );
}

#[test]
fn data_of_any_age_is_noted() {
    let text = "[databases]\nshop = host=a replicas=b read_write_split=auto read_consistency=eventual max_lag=0\n\
        [pgbouncer]\nauth_file=u\nauth_type=scram-sha-256\npool_mode=transaction\nwatch_password=x\n\
        max_staleness=0\nauth_user=a\n";
    expect![[r#"
        watch_password is not used without watch_user
        database "shop": its replicas may be of any age: read_consistency is eventual, max_staleness and max_lag are 0
    "#]].assert_eq(&crate::said(text));
}

#[test]
fn mistakes_in_hosts_tables_are_told_with_what_would_be_right() {
    let text = "auth_file = 'u'
watch_user = 'w'
[databases.shop]
host = 'a'
target = 'slave'
replicas = ['b:0', 'c']
max_lag = '16MB'
read_functions = ['*', 'f']
fallback_max_share = 0
[databases.shop.hosts]
a = 1
'b c' = {}
[databases.shop.hosts.\"10.0.0.7\"]
role = 'master'
wight = 1
weight = 1001
reads = 'maybe'
[databases.shop.hosts.10.0.0.8]
weight = 1
[databases.flat]
hosts = 'a'
";
    expect![[r#"
        weir.toml:5: bad value "slave" for "target": must be one of any, read-write, read-only, primary, standby, prefer-standby
        weir.toml:6: bad value "[…]" for "replicas": a port must be from 1 to 65535
        weir.toml:7: bad value "16MB" for "max_lag": must be a number of bytes
        weir.toml:8: bad value "[…]" for "read_functions": * covers every function; name a schema, such as app.*
        weir.toml:9: bad value "0" for "fallback_max_share": must be from 1 to 100
        weir.toml:11: databases."shop".hosts."a" must be a table
        weir.toml:12: bad host "b c" in [databases."shop".hosts]: a host name has no blanks, colons, commas, slashes, brackets or quotes
        weir.toml:14: bad value "master" for "role": must be one of auto, primary, replica
        weir.toml:15: unknown key "wight" in [databases."shop".hosts."10.0.0.7"]; did you mean "weight"?
        weir.toml:16: bad value "1001" for "weight": must be from 0 to 1000
        weir.toml:17: bad value "maybe" for "reads": must be 0 or 1
        weir.toml:18: unknown table "0" in [databases."shop".hosts."10"]; a host with dots needs quotes: [databases.NAME.hosts."10.0.0.7"]
        weir.toml:21: databases."flat".hosts must be tables, such as [databases."flat".hosts."10.0.0.7"]
    "#]].assert_eq(&lines(native(text)));
    let text = "[databases]\nshop = host=a replicas='b c' primary_functions='f()' hosts=x
[hosts]
shop = weight=1
shp/b = weight=1
shop/b:0 = weight=1
shop/ = weight=1
shop/b = wieght=1
shop/c = weight=-1 reads=maybe role=Primry
[host]
x = 1
";
    expect![[r#"
        pgbouncer.ini:2: bad value "b c" for "replicas": a host name has no blanks, colons, commas, slashes, brackets or quotes
        pgbouncer.ini:2: bad value "f()" for "primary_functions": a pattern must be NAME, NAME*, SCHEMA.NAME or SCHEMA.*, without parentheses
        pgbouncer.ini:2: unknown key "hosts" in section [databases]; did you mean "host"?
        pgbouncer.ini:8: unknown key "wieght" in section [hosts]; did you mean "weight"?
        pgbouncer.ini:9: bad value "-1" for "weight": must be from 0 to 1000
        pgbouncer.ini:9: bad value "maybe" for "reads": must be 0 or 1
        pgbouncer.ini:9: bad value "Primry" for "role": must be one of auto, primary, replica; did you mean "primary"?
        pgbouncer.ini:10: unknown section "host"; did you mean "hosts"?
        pgbouncer.ini:4: a line of [hosts] must be DATABASE/HOST = ... or DATABASE/HOST:PORT = ...
        pgbouncer.ini:5: no database "shp" in [databases]
        pgbouncer.ini:6: bad host "b:0": a port must be from 1 to 65535
        pgbouncer.ini:7: bad host "": a host is empty
    "#]].assert_eq(&lines(ini(text)));
}
