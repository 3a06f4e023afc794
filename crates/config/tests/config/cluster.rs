//! Tests of databases with several hosts: both formats, precedence, reload, and the texts about them.

use std::time::Duration;

use expect_test::expect;
use weir_config::{
    Cluster, Fence, HintSource, HintTool, HostAddr, HostRole, Loaded, NamePattern, Origin,
    PoolSettings, ReadConsistency, ReadFallback, ReadWriteSplit, SplitBegin, SplitBrain, Target,
    diff, effective_text, fd_budget, pool_text,
};

use crate::{ini, load_files, native};

/// Every option of a database with several hosts.
const INI: &str = "\
[pgbouncer]
auth_file = u
auth_type = md5
pool_mode = transaction
conffile = x
az = a
probe_interval = 0.5
watch_user = watcher
watch_password = hunter2
max_staleness = 20
[hosts]
shop/10.0.0.7:5432 = role=replica weight=50 az=b reads=false
shop/10.0.0.9 =
[databases]
shop = host=10.0.0.5,10.0.0.6 port=5432 replicas='10.0.0.7, h3:5433,[::1]:5434' target=any \
read_write_split=auto split_begin=conservative read_consistency=global max_staleness=0 max_lag=1048576 \
read_wait=0.02 read_fallback=error fallback_max_share=25 primary_functions='Billing.*' read_functions='app.search, st_*' \
split_brain=keep failover_hold=30 watch_dbname=postgres \
failover_hints='patroni:http://db1:8008,http://db2:8008, etcd:http://[::1]:2379/service/main' \
failover_hints_user=weir failover_hints_password=hunter3 fence=patroni
one = host=10.0.0.5,10.0.0.6
";

const TOML: &str = r#"
auth_file = "u"
strict_files = false
auth_type = "md5"
pool_mode = "transaction"
conffile = "x"
az = "a"
probe_interval = "500ms"
watch_user = "watcher"
watch_password = "hunter2"
max_staleness = "20s"
[databases.shop]
host = ["10.0.0.5", "10.0.0.6"]
replicas = ["10.0.0.7", "h3:5433", "[::1]:5434"]
target = "any"
read_write_split = "auto"
split_begin = "conservative"
read_consistency = "global"
max_staleness = 0
max_lag = "1MiB"
read_wait = "20ms"
read_fallback = "error"
fallback_max_share = 25
primary_functions = "Billing.*"
read_functions = ["app.search", "st_*"]
split_brain = "keep"
failover_hold = "30s"
failover_hints = ["patroni:http://db1:8008", "http://db2:8008", "etcd:http://[::1]:2379/service/main"]
failover_hints_user = "weir"
failover_hints_password = "hunter3"
fence = "patroni"
watch_dbname = "postgres"
[databases.shop.hosts."10.0.0.7:5432"]
role = "replica"
weight = 50
az = "b"
reads = false
[databases.shop.hosts."10.0.0.9"]
[databases.one]
host = "10.0.0.5, 10.0.0.6"
"#;

fn pool(loaded: &Loaded, database: &str, user: &str) -> PoolSettings {
    let pool = loaded.settings.pool(database, user);
    pool.unwrap_or_else(|| panic!("no database {database}"))
}

fn cluster(loaded: &Loaded, database: &str, user: &str) -> Cluster {
    let cluster = pool(loaded, database, user).cluster;
    cluster.expect("several hosts").as_ref().clone()
}

/// Loads an ini with this database and these global lines; hosts are watched as `w`.
fn shop(entry: &str, rest: &str) -> Loaded {
    let text = format!("[databases]\nshop = {entry}\n[pgbouncer]\nauth_file=u\n{rest}");
    ini(&text).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn names(cluster: &Cluster) -> String {
    let names: Vec<_> = cluster.hosts.iter().map(|host| host.name()).collect();
    names.join(" ")
}

#[test]
fn both_formats_give_the_same_cluster() {
    let (first, second) = (ini(INI).unwrap(), native(TOML).unwrap());
    assert_eq!(first.settings, second.settings);
    let pool = pool(&first, "shop", "ann");
    assert_eq!(pool.hosts, [HostAddr::parse("10.0.0.5").unwrap()]);
    assert_eq!((pool.port, pool.dbname.as_str()), (5432, "shop"));
    let cluster = cluster(&first, "shop", "ann");
    assert_eq!(
        names(&cluster),
        "10.0.0.5:5432 10.0.0.6:5432 10.0.0.7:5432 h3:5433 [::1]:5434 10.0.0.9:5432"
    );
    let replica = &cluster.hosts[2];
    assert_eq!(
        (replica.role, replica.weight, &*replica.az, replica.reads),
        (HostRole::Replica, 50, "b", false)
    );
    let other = &cluster.hosts[5];
    assert_eq!(
        (other.role, other.weight, &*other.az, other.reads),
        (HostRole::Auto, 100, "", true)
    );
    assert_eq!(cluster.target, Target::Any);
    assert_eq!(cluster.split, ReadWriteSplit::Auto);
    assert_eq!(cluster.split_begin, SplitBegin::Conservative);
    assert_eq!(cluster.consistency, ReadConsistency::Global);
    assert_eq!(
        (cluster.max_staleness, cluster.max_lag, cluster.read_wait),
        (None, Some(1 << 20), Duration::from_millis(20))
    );
    assert_eq!(cluster.fallback, ReadFallback::Error);
    assert_eq!(cluster.fallback_max_share, 25);
    assert_eq!(
        cluster.primary_functions[0].schema.as_deref(),
        Some("billing")
    );
    let read = &cluster.read_functions[1];
    assert_eq!(read.name, NamePattern::Prefix("st_".into()));
    assert_eq!(cluster.split_brain, SplitBrain::Keep);
    assert_eq!(cluster.fence, Fence::Patroni);
    assert_eq!(cluster.failover_hold, Duration::from_secs(30));
    let hints = &cluster.hints;
    assert_eq!(
        hints.sources,
        [
            HintSource {
                tool: HintTool::Patroni,
                servers: vec!["http://db1:8008".to_owned(), "http://db2:8008".to_owned()],
                key: String::new(),
            },
            HintSource {
                tool: HintTool::Etcd,
                servers: vec!["http://[::1]:2379".to_owned()],
                key: "/service/main/leader".to_owned(),
            },
        ]
    );
    assert_eq!((&*hints.user, hints.password.expose()), ("weir", "hunter3"));
    let watch = &cluster.watch;
    assert_eq!((&*watch.user, &*watch.dbname), ("watcher", "postgres"));
    assert_eq!(watch.password.as_ref().unwrap().expose(), "hunter2");
    let settings = &first.settings.global;
    assert_eq!(
        (&*settings.az, settings.probe_interval.as_millis()),
        ("a", 500)
    );
}

#[test]
fn several_addresses_in_host_stay_alternatives_of_one_host() {
    let loaded = ini(INI).unwrap();
    let pool = pool(&loaded, "one", "ann");
    assert!(pool.cluster.is_none());
    assert_eq!(pool.hosts.len(), 2);
    // Global options about several hosts are no mistake for it.
    let all = "read_write_split=auto\nsplit_begin=until-write\nread_wait=500\nmax_staleness=0.1\nsplit_brain=keep\n\
        watch_user=w\nread_consistency=eventual\nmax_lag=0";
    let loaded = shop(
        "host=a,b load_balance_hosts=disable target=any read_write_split=off",
        all,
    );
    assert!(loaded.settings.pool("shop", "u").unwrap().cluster.is_none());
}

#[test]
fn defaults_are_cautious() {
    let loaded = shop("host=a replicas=b dbname=real", "watch_user=w");
    let cluster = cluster(&loaded, "shop", "ann");
    assert_eq!(names(&cluster), "a:5432 b:5432");
    assert_eq!(cluster.target, Target::ReadWrite);
    assert_eq!(cluster.split, ReadWriteSplit::Off);
    assert_eq!(cluster.split_begin, SplitBegin::Conservative);
    assert_eq!(cluster.consistency, ReadConsistency::Session);
    assert_eq!(
        (cluster.max_staleness, cluster.max_lag, cluster.read_wait),
        (
            Some(Duration::from_secs(10)),
            Some(16 << 20),
            Duration::ZERO
        )
    );
    assert_eq!(cluster.fallback, ReadFallback::Primary);
    assert_eq!(cluster.fallback_max_share, 100);
    assert_eq!(cluster.split_brain, SplitBrain::Newest);
    assert_eq!(cluster.fence, Fence::None);
    assert_eq!(cluster.failover_hold, Duration::from_secs(60));
    assert_eq!(
        (&*cluster.watch.dbname, cluster.watch.password),
        ("real", None)
    );
    let global = &loaded.settings.global;
    assert_eq!(
        (
            global.probe_interval.as_secs(),
            global.probe_timeout.as_secs()
        ),
        (1, 1)
    );
    assert_eq!(
        (
            global.probe_fall,
            global.probe_rise,
            global.replica_slow_start.as_secs()
        ),
        (3, 2, 30)
    );
}

#[test]
fn the_port_of_the_entry_is_that_of_hosts_without_one() {
    let hosts = |entry: &str, lines: &str| {
        let loaded = shop(entry, &format!("watch_user=w\n[hosts]\n{lines}"));
        names(&cluster(&loaded, "shop", "ann"))
    };
    assert_eq!(
        hosts("host=a port=7 replicas='b,::1,[::2]:9,/tmp,/run:8,@x'", ""),
        "a:7 b:7 [::1]:7 [::2]:9 /tmp:7 /run:8 @x:7"
    );
    // A table may spell the host of a list in another way.
    assert_eq!(hosts("host=db1 port=7", "shop/DB1:7 = weight=0"), "db1:7");
    assert_eq!(hosts("host=db1 port=7", "shop/db1:8 ="), "db1:7 db1:8");
    // Only tables: the unix socket is not meant.
    assert_eq!(
        hosts("port=7", "shop//tmp:8 =\nshop/[::1] =\nshop/b ="),
        "b:7 [::1]:7 /tmp:8"
    );
}

#[test]
fn the_longest_name_of_a_database_takes_a_line_of_hosts() {
    let loaded = ini(
        "[hosts]\na/b/c = weight=1\na/x = weight=2\n'a/b//tmp' =\n[databases]\na = host=h\n\
        'a/b' = host=h\n[pgbouncer]\nauth_file=u\nwatch_user=w\n",
    )
    .unwrap();
    assert_eq!(names(&cluster(&loaded, "a", "")), "h:5432 x:5432");
    assert_eq!(
        names(&cluster(&loaded, "a/b", "")),
        "h:5432 c:5432 /tmp:5432"
    );
    let place = &loaded.sources["databases.a/b.hosts.c.weight"];
    assert_eq!(*place, Origin::File("pgbouncer.ini".into(), 2));
}

#[test]
fn the_last_line_of_a_host_wins_with_a_note() {
    let loaded = shop(
        "host=a",
        "watch_user=w\n[hosts]\nshop/a = weight=1\nshop/a = weight=2\n",
    );
    assert_eq!(cluster(&loaded, "shop", "").hosts[0].weight, 2);
    let note = "pgbouncer.ini:8: \"shop/a\" was set at pgbouncer.ini:7 already; this one wins";
    assert!(
        loaded.notes.iter().any(|said| said == note),
        "{:?}",
        loaded.notes
    );
}

#[test]
fn user_wins_over_database_wins_over_global_for_the_split() {
    let text = "[users]\nreports = read_write_split=auto\nplain = pool_size=1\nbatch = read_write_split=off\n\
        [databases]\nown = host=a replicas=b read_write_split=hint max_lag=5 max_staleness=0\n\
        shared = host=a replicas=b\nforced = host=a replicas=b user=reports\n\
        [pgbouncer]\nauth_file=u\npool_mode=transaction\nread_write_split=auto\nmax_lag=0\nwatch_user=w\n";
    let loaded = ini(text).unwrap();
    let split = |database, user| cluster(&loaded, database, user).split.as_str();
    assert_eq!(split("own", "ann"), "hint");
    assert_eq!(split("own", "plain"), "hint");
    assert_eq!(split("own", "reports"), "auto");
    assert_eq!(split("shared", "ann"), "auto");
    assert_eq!(split("shared", "batch"), "off");
    // As for the pool mode, the user on the server counts.
    assert_eq!(split("forced", "batch"), "auto");
    assert_eq!(cluster(&loaded, "own", "ann").max_lag, Some(5));
    assert_eq!(cluster(&loaded, "own", "ann").max_staleness, None);
    assert_eq!(cluster(&loaded, "shared", "ann").max_lag, None);
}

#[test]
fn a_password_goes_with_the_user_that_it_was_set_for() {
    let watch = |entry: &str, rest: &str| {
        let entry = format!("host=a replicas=b {entry}");
        let login = cluster(&shop(&entry, rest), "shop", "ann").watch;
        let password = login.password.map(|secret| secret.expose().to_owned());
        (login.user, password)
    };
    let is = |user: &str, password: Option<&str>| (user.into(), password.map(str::to_owned));
    let global = "watch_user=g\nwatch_password=gp\nauth_user=asker";
    assert_eq!(watch("", global), is("g", Some("gp")));
    assert_eq!(watch("watch_password=o", global), is("g", Some("o")));
    assert_eq!(watch("watch_user=g", global), is("g", Some("gp")));
    assert_eq!(watch("watch_user=e", global), is("e", None));
    assert_eq!(
        watch("watch_user=e watch_password=o", global),
        is("e", Some("o"))
    );
    assert_eq!(
        watch("watch_user='' user=f password=p", global),
        is("f", Some("p"))
    );
    assert_eq!(watch("user=f password=p", global), is("g", Some("gp")));
    assert_eq!(watch("watch_user=''", global), is("asker", None));
    assert_eq!(watch("user=f", "auth_user=asker"), is("f", None));
    assert_eq!(watch("auth_user=own", "auth_user=asker"), is("own", None));
}

#[test]
fn the_fallback_may_have_several_hosts_watched_in_a_named_database() {
    let text = "[databases]\n* = host=a replicas=b watch_dbname=postgres\n[hosts]\n*/b = weight=7\n\
        [pgbouncer]\nauth_file=u\nwatch_user=w\n";
    let cluster = cluster(&ini(text).unwrap(), "anything", "ann");
    assert_eq!(&*cluster.watch.dbname, "postgres");
    assert_eq!(cluster.hosts[1].weight, 7);
}

#[test]
fn no_text_shows_the_password_of_the_watching_user() {
    let loaded = ini(INI).unwrap();
    let mut texts = effective_text(&loaded);
    texts.push_str(&pool_text(&loaded, "shop", "ann").unwrap());
    texts.push_str(&format!("{loaded:?} {:?}", pool(&loaded, "shop", "ann")));
    let new = ini(&INI.replace("hunter2", "hunter3")).unwrap();
    let changes = diff(&loaded.settings, &new.settings);
    assert_eq!(changes.len(), 1);
    texts.push_str(&changes[0].to_string());
    assert!(!texts.contains("hunter"), "{texts}");
}

#[test]
fn weir_check_shows_single_hosts_with_their_places() {
    let loaded = load_files("p.ini", &[("p.ini", INI)], &[]).unwrap();
    let text = effective_text(&loaded);
    let start = text.find("[databases.shop.hosts").unwrap();
    expect![[r#"
        [databases.shop.hosts."10.0.0.7:5432"]
        role = "replica"  # p.ini:12
        weight = 50  # p.ini:12
        az = "b"  # p.ini:12
        reads = false  # p.ini:12

        [databases.shop.hosts."10.0.0.9"]
    "#]]
    .assert_eq(&text[start..]);
}

#[test]
fn a_pool_tells_its_hosts_and_who_watches_them() {
    let text = "[databases]\nshop = host=a replicas='B:5433' user=app read_write_split=hint\n\
        [hosts]\nshop/b:5433 = weight=7 reads=off\n[users]\napp = read_write_split=auto\n\
        [pgbouncer]\nauth_file=u\npool_mode=transaction\nmax_lag=99\n";
    let loaded = load_files("p.ini", &[("p.ini", text)], &[]).unwrap();
    let text = pool_text(&loaded, "shop", "ann").unwrap();
    let shown: String = text
        .lines()
        .skip_while(|line| !line.starts_with("host ="))
        .filter(|line| !line.ends_with("# default") || line.starts_with("role"))
        .map(|line| format!("{line}\n"))
        .collect();
    expect![[r#"
        host = ["a"]  # p.ini:2 [databases] shop
        replicas = ["B:5433"]  # p.ini:2 [databases] shop
        user = "app"  # p.ini:2 [databases] shop
        pool_mode = "transaction"  # p.ini:9 pool_mode
        read_write_split = "auto"  # p.ini:6 [users] app
        max_lag = 99  # p.ini:10 max_lag

        # hosts are watched as user "app" in database "shop"

        [databases.shop.hosts."a:5432"]
        role = "auto"  # default

        [databases.shop.hosts."B:5433"]
        role = "auto"  # default
        weight = 7  # p.ini:4
        reads = false  # p.ini:4
    "#]]
    .assert_eq(&shown);
    // Options without effect are not shown for one host.
    let one = load_files("p.ini", &[("p.ini", INI)], &[]).unwrap();
    let text = pool_text(&one, "one", "ann").unwrap();
    assert!(
        !text.contains("watch_user") && !text.contains("target"),
        "{text}"
    );
}

#[test]
fn diff_tells_changes_of_single_hosts() {
    let old = shop(
        "host=a replicas=b",
        "watch_user=w\n[hosts]\nshop/a = weight=1\nshop/b = az=x\n",
    );
    let new = shop(
        "host=a replicas=b,c",
        "watch_user=w\nprobe_fall=5\n[hosts]\nshop/a = weight=2\nshop/c =\n",
    );
    let changes = diff(&old.settings, &new.settings);
    assert!(changes.iter().all(weir_config::Change::is_reloadable));
    let text: String = changes.iter().map(|change| format!("{change}\n")).collect();
    expect![[r#"
        probe_fall: "3" to "5"
        databases.shop.replicas: "b" to "b, c"
        databases.shop.hosts.a.weight: "1" to "2"
        databases.shop.hosts.b removed
        databases.shop.hosts.c added
    "#]]
    .assert_eq(&text);
    assert!(diff(&old.settings, &old.settings).is_empty());
}

#[test]
fn the_descriptor_budget_counts_pools_per_host_and_watchers() {
    let budget = |entry: &str| fd_budget(&shop(entry, "workers=1\nwatch_user=w\n").settings);
    let one = budget("host=a pool_size=10");
    assert_eq!(budget("host=a replicas=b,c pool_size=10"), one + 20 + 3);
    let capped = "host=a replicas=b,c pool_size=10 max_db_connections=15";
    assert_eq!(budget(capped), one + 5 + 3);
    let hinted = format!(
        "{capped} failover_hints=patroni:http://a:8008,http://b:8008,etcd:http://a:2379/service/main"
    );
    assert_eq!(budget(&hinted), one + 5 + 3 + 6);
}

#[test]
fn replicas_may_come_from_the_environment() {
    let text =
        "auth_file='u'\nwatch_user='w'\n[databases.shop]\nhost='a'\nreplicas='${REPLICAS}'\n";
    let load = |value| load_files("weir.toml", &[("weir.toml", text)], &[("REPLICAS", value)]);
    assert_eq!(
        names(&cluster(&load("b, c:7").unwrap(), "shop", "")),
        "a:5432 b:5432 c:7"
    );
    // An empty list is one host.
    assert!(pool(&load("").unwrap(), "shop", "").cluster.is_none());
}
