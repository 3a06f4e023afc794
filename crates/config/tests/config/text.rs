//! The generated texts: reference page, SHOW CONFIG, weir check.

use expect_test::{expect, expect_file};
use weir_config::{effective_text, reference_markdown, show_config};

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
        format!(
            "{} {} {} {}",
            row.key, row.value, row.default, row.changeable
        )
    };
    assert_eq!(row("query_timeout"), "query_timeout 1.25 0 true");
    assert_eq!(row("unix_socket_mode"), "unix_socket_mode 511 0777 false");
    assert_eq!(row("auth_ldap_options"), "auth_ldap_options ***  true");
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
        .filter(|line| line.contains("  # "))
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
