//! Tests of `weir convert`: PgBouncer's ini as weir.toml.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use expect_test::expect;
use weir_config::{Converted, Loaded, convert};

use crate::{load_files, native};

fn converted(files: &[(&str, &str)]) -> Converted {
    let by_name: BTreeMap<_, _> = files.iter().copied().collect();
    let mut read = |path: &Path| match by_name.get(path.to_str().unwrap_or_default()) {
        Some(text) => Ok((*text).to_owned()),
        None => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
    };
    let converted = convert(Path::new("pgbouncer.ini"), &mut read);
    converted.unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// Asserts that loading either file gives the same settings, except for the file's own name.
pub(crate) fn check_round_trip(ini: &Loaded, text: &str) {
    let mut toml = native(text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let conffile = ini.settings.global.conffile.clone();
    toml.settings.global.conffile = conffile;
    assert_eq!(ini.settings, toml.settings, "{text}");
}

#[test]
fn comments_stay_and_every_option_is_explained() {
    let ini = "\
;;;
;;; Our pooler
;;;

;; the shop
[databases]
; main database
shop = host=10.0.0.5 port=6000 password='it''s ${HOME}' user=app pool_size=-1
;old = host=10.0.0.1
* = host=/tmp
# nothing more

[pgbouncer]
; 200 were too few
max_client_conn = 1000
pool_mode = transaction
pool_mode = session

listen_addr = *
unix_socket_mode = 0700
query_timeout = 1.5

[users]
'an \"odd\" one' = query_timeout=3
";
    let result = converted(&[("pgbouncer.ini", ini)]);
    expect![[r##"
        # Made from pgbouncer.ini by `weir convert`. `weir check` on both shows the same values.

        #
        # Our pooler
        #

        # Not in the ini: PgBouncer's default, which is not that of weir.toml.
        auth_type = "md5"

        # Not in the ini: PgBouncer's default, which is not that of weir.toml.
        strict_files = false

        # 200 were too few
        # Clients over all databases.
        max_client_conn = 1000

        # When a server goes back to its pool.
        pool_mode = "session"

        # Addresses to listen on, separated by commas; `*` is every address, empty means no TCP.
        listen_addr = ["*"]

        # Permissions of the unix socket.
        unix_socket_mode = 0o700

        # Longest time a query may run; 0 = no limit.
        query_timeout = "1500ms"

        # the shop
        # main database
        [databases.shop]
        host = ["10.0.0.5"]
        port = 6000
        user = "app"
        password = "it's $${HOME}"

        # old = host=10.0.0.1
        [databases."*"]
        host = ["/tmp"]

        # nothing more

        [users."an \"odd\" one"]
        query_timeout = "3s"

    "##]]
    .assert_eq(&result.text);
    assert!(result.has_secrets);
    assert!(
        result
            .notes
            .iter()
            .any(|note| note.contains("this one wins")),
        "{:?}",
        result.notes
    );
    let loaded = load_files("pgbouncer.ini", &[("pgbouncer.ini", ini)], &[]).unwrap();
    check_round_trip(&loaded, &result.text);
}

#[test]
fn single_hosts_become_tables_with_their_comments() {
    let ini = "\
[pgbouncer]
auth_file = u
auth_type = scram-sha-256
watch_user = weir
watch_password = hunter2
; hosts of the shop
[hosts]
; slow disks
shop/10.0.0.7:5432 = weight=10
shop/10.0.0.7:5432 = weight=50 reads=false
'odd name//tmp:6000' = az='b ${x}'
[databases]
shop = host=10.0.0.5 replicas=10.0.0.6,10.0.0.7 max_lag=1048576
'odd name' = host=a
";
    let result = converted(&[("pgbouncer.ini", ini)]);
    let start = result.text.find("[databases.shop]").unwrap();
    expect![[r#"
        [databases.shop]
        host = ["10.0.0.5"]
        replicas = ["10.0.0.6", "10.0.0.7"]
        max_lag = 1048576

        [databases."odd name"]
        host = ["a"]

        # hosts of the shop
        # slow disks
        [databases.shop.hosts."10.0.0.7:5432"]
        weight = 50
        reads = false

        [databases."odd name".hosts."/tmp:6000"]
        az = "b $${x}"

    "#]]
    .assert_eq(&result.text[start..]);
    let loaded = load_files("pgbouncer.ini", &[("pgbouncer.ini", ini)], &[]).unwrap();
    check_round_trip(&loaded, &result.text);
    assert!(result.has_secrets);
}

#[test]
fn included_files_and_sections_that_begin_again_become_one_file() {
    let files = [
        (
            "pgbouncer.ini",
            "[pgbouncer]\nauth_file=u\npool_mode=statement\nconffile=/etc/pgbouncer.ini\n\
             %include more.ini\n[pgbouncer]\nauth_file = v\nauth_type=trust\nconffile=x\n",
        ),
        (
            "more.ini",
            "[databases]\na = host=x\na = host=y\n[peers]\n; far\n7 = host=h\n",
        ),
    ];
    let result = converted(&files);
    let loaded = load_files("pgbouncer.ini", &files, &[]).unwrap();
    check_round_trip(&loaded, &result.text);
    assert!(!result.has_secrets);
    assert!(
        result.text.contains("# conffile = \"x\""),
        "{}",
        result.text
    );
    assert_eq!(result.text.matches("[databases.a]").count(), 1);
}

#[test]
fn what_loading_refuses_is_not_converted() {
    for text in ["[pgbouncer]\npool_mod=x\n", "[pgbouncer]\nauth_type=cert\n"] {
        let mut read = |_: &Path| Ok(text.to_owned());
        let loaded = load_files("pgbouncer.ini", &[("pgbouncer.ini", text)], &[]);
        let errors = convert(Path::new("pgbouncer.ini"), &mut read).err();
        assert!(errors.is_some());
        assert_eq!(errors, loaded.err());
    }
}
