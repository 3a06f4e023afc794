//! Tests of the generated texts: reference page, SHOW CONFIG, weir check.

use expect_test::{expect, expect_file};
use weir_config::{Scope, effective_text, pool_text, reference_markdown, schema_json, show_config};

use crate::{ini, load_files};

#[test]
fn the_reference_page_is_fresh() {
    // Run with UPDATE_EXPECT=1 to write it anew.
    expect_file!["../../../../docs/reference/configuration.md"].assert_eq(&reference_markdown());
}

#[test]
fn show_config_is_in_pgbouncers_order_and_hides_secrets() {
    let loaded = ini(
        "[pgbouncer]\nauth_file=u\nauth_ldap_options=ldapbindpasswd=hunter2\nquery_timeout=1.25\n",
    )
    .unwrap();
    let rows = show_config(&loaded.settings);
    let mut keys: Vec<_> = rows.iter().map(|row| row.key).collect();
    let mode = keys.iter().position(|key| *key == "pool_mode").unwrap();
    assert_eq!(keys[mode + 1], "pool_idle_timeout");
    keys.swap(mode, mode + 1);
    assert!(keys.is_sorted());
    let row = |key| {
        let row = rows.iter().find(|row| row.key == key).unwrap();
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "NULL".to_owned());
        let (value, default) = (shown(&row.value), shown(&row.default));
        format!("{} {value} {default} {}", row.key, row.changeable)
    };
    assert_eq!(row("query_timeout"), "query_timeout 1.25 0 true");
    assert_eq!(row("unix_socket_mode"), "unix_socket_mode 511 0777 false");
    assert_eq!(row("auth_ldap_options"), "auth_ldap_options *** NULL true");
    assert_eq!(row("auth_user"), "auth_user NULL NULL true");
    assert_eq!(row("logfile"), "logfile   true");
    assert_eq!(row("verbose"), "verbose 0 NULL true");
    assert_eq!(
        row("server_check_query"),
        "server_check_query <empty> <empty> true"
    );
}

#[test]
fn effective_text_tells_where_values_come_from_and_no_secret() {
    let file = "[databases]\n'a \"b' = host=h password=hunter2 user=u\n[pgbouncer]\nauth_file=u\npool_mode=statement\n";
    let loaded = load_files("p.ini", &[("p.ini", file)], &[("WEIR_WORKERS", "2")]).unwrap();
    let text = effective_text(&loaded);
    assert!(!text.contains("hunter2") && !format!("{loaded:?}").contains("hunter2"));
    let shown: String = text
        .lines()
        .filter(|line| line.contains("  # ") && !line.ends_with("  # default"))
        .map(|l| format!("{l}\n"))
        .collect();
    expect![[r#"
        pool_mode = "statement"  # p.ini:5
        auth_file = "u"  # p.ini:4
        workers = 2  # environment WEIR_WORKERS
        host = ["h"]  # p.ini:2
        user = "u"  # p.ini:2
        # password = "***"  # p.ini:2
    "#]]
    .assert_eq(&shown);
}

#[test]
fn every_value_in_force_has_a_place() {
    let loaded =
        ini("[databases]\na = host=h\n[users]\nu = pool_size=3\n[pgbouncer]\nauth_file=u\n")
            .unwrap();
    for line in effective_text(&loaded).lines() {
        let is_setting = line.contains(" = ") && !line.starts_with('#');
        assert_eq!(is_setting, line.contains("  # "), "{line}");
    }
}

#[test]
fn a_pool_tells_which_entry_decides() {
    let file = "[databases]\n* = host=h user=app password=hunter2 pool_mode=session pool_size=9\n\
        [users]\napp = pool_size=3\nann = query_timeout=4\n\
        [pgbouncer]\nauth_file=u\npool_mode=statement\nquery_timeout=8\nquery_wait_timeout=7\n";
    let loaded = load_files("p.ini", &[("p.ini", file)], &[]).unwrap();
    let text = pool_text(&loaded, "shop", "ann").unwrap();
    assert!(!text.contains("hunter2"));
    let shown: String = text
        .lines()
        .filter(|line| !line.ends_with("# default") || line.starts_with("dbname"))
        .map(|l| format!("{l}\n"))
        .collect();
    expect![[r##"
        # database "shop", user "ann", "app" on the server
        dbname = "shop"  # default
        host = ["h"]  # p.ini:2 [databases] *
        user = "app"  # p.ini:2 [databases] *
        password = "***"  # p.ini:2 [databases] *
        pool_size = 3  # p.ini:4 [users] app
        pool_mode = "session"  # p.ini:2 [databases] *
        query_wait_timeout = "7s"  # p.ini:10 query_wait_timeout
        query_timeout = "4s"  # p.ini:5 [users] ann
    "##]]
    .assert_eq(&shown);
    assert_eq!(pool_text(&ini("[pgbouncer]\n").unwrap(), "x", "y"), None);
}

#[test]
fn the_schema_knows_every_option() {
    let schema: serde_json::Value = serde_json::from_str(&schema_json()).unwrap();
    let top = &schema["properties"];
    for (scope, properties) in [
        (Scope::Global, top),
        (
            Scope::Database,
            &top["databases"]["additionalProperties"]["properties"],
        ),
        (
            Scope::Host,
            &top["databases"]["additionalProperties"]["properties"]["hosts"]["additionalProperties"]
                ["properties"],
        ),
        (
            Scope::Listener,
            &top["listeners"]["additionalProperties"]["properties"],
        ),
        (
            Scope::Pool,
            &top["pools"]["additionalProperties"]["additionalProperties"]["properties"],
        ),
        (
            Scope::User,
            &top["users"]["additionalProperties"]["properties"],
        ),
        (
            Scope::Peer,
            &top["peers"]["additionalProperties"]["properties"],
        ),
    ] {
        let mut count = 0;
        for opt in scope.options() {
            for name in opt.aliases.iter().chain([&opt.name]) {
                count += 1;
                let property = &properties[name];
                assert!(property["description"].is_string(), "{name} is missing");
                let has_shape = !property["type"].is_null() || !property["anyOf"].is_null();
                assert!(has_shape, "{name} may be anything");
            }
        }
        let tables = match scope {
            Scope::Global => 6,
            Scope::Database => 1,
            _ => 0,
        };
        assert_eq!(properties.as_object().unwrap().len(), count + tables);
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(top["auth_type"]["default"], "scram-sha-256");
    assert_eq!(top["query_wait_timeout"]["default"], "120s");
}

#[test]
fn the_schema_file_is_fresh() {
    // Run with UPDATE_EXPECT=1 to write it anew.
    expect_file!["../../../../docs/reference/weir.schema.json"].assert_eq(&schema_json());
}
