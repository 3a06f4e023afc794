//! `[pools]`: options of one user of one database.

use std::time::Duration;

use weir_config::{Change, Loaded, PoolMode, PoolSettings, diff};

use crate::{ini, lines, native};

const INI: &str = "\
[databases]
shop = host=h pool_mode=session pool_size=9
my.shop = host=h
'a/b' = host=h
* = host=h pool_size=8
[users]
app = pool_size=7 query_timeout=5
[pools]
shop/app = pool_size=3 pool_mode=transaction query_timeout=0 server_idle_timeout=20
my.shop/my.app = pool_size=4
a/b/c = pool_size=5
'*/the user' = pool_size=6 server_lifetime_jitter=30
other/app = pool_size=2
[pgbouncer]
auth_file = u
server_idle_timeout = 60
";

fn pool(loaded: &Loaded, database: &str, user: &str) -> PoolSettings {
    let pool = loaded.settings.pool(database, user);
    pool.unwrap_or_else(|| panic!("no pool {database}/{user}"))
}

#[test]
fn a_pool_comes_before_its_user_its_database_and_the_globals() {
    let loaded = ini(INI).unwrap();
    let size = |database, user| pool(&loaded, database, user).pool_size;
    assert_eq!(size("shop", "app"), 3);
    assert_eq!(size("shop", "web"), 9);
    assert_eq!(size("my.shop", "app"), 7);
    assert_eq!(size("my.shop", "my.app"), 4);
    assert_eq!(size("a/b", "c"), 5);
    // A database of the fallback has its own entries and those of the fallback.
    assert_eq!(size("other", "app"), 2);
    assert_eq!(size("others", "app"), 7);
    assert_eq!(size("others", "the user"), 6);
    let own = pool(&loaded, "shop", "app");
    assert_eq!(own.pool_mode, PoolMode::Transaction);
    assert_eq!(own.query_timeout, None);
    assert_eq!(own.server_idle_timeout, Some(Duration::from_secs(20)));
    let other = pool(&loaded, "shop", "web");
    assert_eq!(other.pool_mode, PoolMode::Session);
    assert_eq!(other.server_idle_timeout, Some(Duration::from_secs(60)));
    let jitter = pool(&loaded, "others", "the user").server_lifetime_jitter;
    assert_eq!(jitter, Some(Duration::from_secs(30)));
}

#[test]
fn both_formats_mean_the_same() {
    let toml = r#"
        auth_file = "u"
        [databases.shop]
        host = "h"
        [databases."*"]
        host = "h"
        [pools.shop.app]
        pool_size = 3
        query_wait_timeout = "5s"
        [pools."my.shop"."my.app"]
        pool_mode = "statement"
    "#;
    let loaded = native(toml).unwrap();
    let own = pool(&loaded, "shop", "app");
    assert_eq!(
        (own.pool_size, own.query_wait_timeout),
        (3, Some(Duration::from_secs(5)))
    );
    assert_eq!(
        pool(&loaded, "my.shop", "my.app").pool_mode,
        PoolMode::Statement
    );
}

#[test]
fn a_reload_names_the_pools_that_it_changes() {
    let old = ini(INI).unwrap().settings;
    let text = INI.replace("shop/app = pool_size=3", "shop/app = pool_size=30");
    let text = text.replace("a/b/c = pool_size=5", "a/b/d = pool_size=5");
    let new = ini(&text).unwrap().settings;
    let changes: Vec<_> = diff(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "pools.a/b.c removed",
            "pools.a/b.d added",
            "pools.shop.app.pool_size: \"3\" to \"30\"",
        ]
    );
    assert!(diff(&old, &new).iter().all(Change::is_reloadable));
}

#[test]
fn mistakes_are_told_with_line_and_key() {
    let wrong = "\
[databases]
shop = host=h
[pools]
shp/app = pool_size=3
shop/app = pool_sise=3
shop = pool_size=3
shop/* = pool_size=3
pgbouncer/app = pool_size=3
shop/app = pool_size=many
[pgbouncer]
auth_file = u
";
    assert_eq!(
        lines(ini(wrong)),
        "\
pgbouncer.ini:5: unknown key \"pool_sise\" in section [pools]; did you mean \"pool_size\"?
pgbouncer.ini:9: bad value \"many\" for \"pool_size\": must be a whole number or auto
pgbouncer.ini:6: a line of [pools] must be DATABASE/USER = ...
"
    );
    let wrong = "[databases]\nshop = host=h\n[pools]\nshp/app = pool_size=3\nshop/* = pool_size=3\n\
                 pgbouncer/app = pool_size=3\n[pgbouncer]\nauth_file = u\n";
    assert_eq!(
        lines(ini(wrong)),
        "\
pgbouncer.ini:4: no database \"shp\" in [databases]; did you mean \"shop\"?
pgbouncer.ini:5: [pools] needs the name of a user; what is for all users of \"shop\" belongs in [databases]
pgbouncer.ini:6: the console \"pgbouncer\" has no pool; [pools] is about databases
"
    );
    let wrong = native("auth_file = \"u\"\n[pools.shop]\npool_size = 3\n[pools.my.shop.app]\n");
    assert_eq!(
        lines(wrong),
        "\
weir.toml:3: pools.\"shop\".\"pool_size\" must be a table of the user \"pool_size\", such as [pools.\"shop\".\"pool_size\"]
weir.toml:4: unknown table \"app\" in [pools.\"my\".\"shop\"]; a name with dots needs quotes: [pools.\"my.db\".\"my.user\"]
"
    );
}

#[test]
fn options_that_a_forced_user_keeps_from_effect_are_noted() {
    let text = "[databases]\nshop = host=h user=owner\n[pools]\nshop/app = pool_size=3 query_timeout=4\n\
                shop/owner = pool_size=2\n[pgbouncer]\nauth_file = u\n";
    let loaded = ini(text).unwrap();
    let own = pool(&loaded, "shop", "app");
    assert_eq!(
        (own.pool_size, own.query_timeout),
        (2, Some(Duration::from_secs(4)))
    );
    let notes: Vec<_> = loaded
        .notes
        .iter()
        .filter(|note| note.contains("forces"))
        .collect();
    assert_eq!(
        notes,
        [
            "pgbouncer.ini:4: database \"shop\" forces user \"owner\", so only time-outs of queries, transactions and \
          idle clients count in the pool of \"app\""
        ]
    );
}
