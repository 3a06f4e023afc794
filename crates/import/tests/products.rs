//! Fate of single settings that the golden files do not have: TLS, limits, and routes or hosts that cannot be mapped.

use weir_import::{FileNames, Imported, Product, Source, import};

fn read(product: Product, file: &str, text: &str) -> Imported {
    let source = Source {
        name: file.to_owned(),
        text: text.to_owned(),
    };
    import(product, &[source], &FileNames::default()).expect("a valid file")
}

/// Checks the report of a text: one line has each of the expected texts.
fn check(product: Product, text: &str, expected: &[&str]) {
    let imported = read(product, "file", text);
    let lines: Vec<String> = imported.findings.iter().map(ToString::to_string).collect();
    for part in expected {
        let is_there = lines.iter().any(|line| line.contains(part));
        assert!(is_there, "{part} is not in\n{}", lines.join("\n"));
    }
}

const BACKENDS: &str = "backend_hostname0 = 'a'\nbackend_hostname1 = 'b'\nsr_check_user = 'w'\n";

#[test]
fn pgpool_has_one_set_of_certificates() {
    check(
        Product::Pgpool,
        "ssl = on\nssl_cert = 'c.pem'\nssl_key = 'k.pem'\nssl_ca_cert = 'ca.pem'\nssl_passphrase_command = 'x'\n",
        &[
            "ssl = \"on\": mapped to client_tls_sslmode and server_tls_sslmode",
            "ssl_cert = \"c.pem\": mapped to client_tls_cert_file = \"c.pem\"",
            "ssl_ca_cert = \"ca.pem\": mapped to client_tls_ca_file and server_tls_ca_file",
            "ssl_passphrase_command = ***: not mapped: a private key must not be encrypted",
        ],
    );
}

#[test]
fn pgpools_session_pooling_stays_without_replicas() {
    let one = read(Product::Pgpool, "pgpool.conf", "backend_hostname0 = 'a'\n");
    assert!(!one.text.contains("pool_mode"), "{}", one.text);
    let two = read(Product::Pgpool, "pgpool.conf", BACKENDS);
    assert!(
        two.text.contains("pool_mode = \"transaction\""),
        "{}",
        two.text
    );
    assert!(
        two.text.contains("read_write_split = \"auto\""),
        "{}",
        two.text
    );
    let off = read(
        Product::Pgpool,
        "pgpool.conf",
        &format!("{BACKENDS}load_balance_mode = off\n"),
    );
    assert!(!off.text.contains("pool_mode"), "{}", off.text);
}

#[test]
fn pgpools_settings_that_stand_twice_count_once() {
    check(
        Product::Pgpool,
        "port = 1111\nport = 2222\nsocket_dir = '/run'\n",
        &[
            "file:1: port = 1111: no meaning here: a later line sets it again",
            "file:2: port = 2222: mapped to listen_port = 2222",
            "unix_socket_directories = \"/run\": mapped to unix_socket_dir = \"/run\"",
        ],
    );
    check(
        Product::Pgpool,
        &format!("{BACKENDS}delay_threshold_by_time = 5\nbackend_flag1 = 'ALWAYS_PRIMARY'\n"),
        &[
            "delay_threshold_by_time = 5: not mapped: a number alone means seconds",
            "backend_flag1 = \"ALWAYS_PRIMARY\": mapped to databases.*.hosts.b:5432.role = \"primary\"",
            "backend_hostname0 = \"a\": mapped to databases.*.replicas",
        ],
    );
    check(
        Product::Pgpool,
        "backend_clustering_mode = 'native_replication'\n",
        &["not mapped: Weir does not replicate"],
    );
}

#[test]
fn hosts_without_a_user_that_watches_are_not_mapped() {
    check(
        Product::Pgpool,
        "backend_hostname0 = 'a'\nbackend_hostname1 = 'b'\n",
        &["backend_hostname1 = \"b\": not mapped: no user is known that could ask"],
    );
}

const STORAGE: &str = "storage \"s\" { type \"remote\" host \"db\" }\n";

fn odyssey(routes: &str) -> Imported {
    read(
        Product::Odyssey,
        "odyssey.conf",
        &format!("listen {{ host \"*\" }}\n{STORAGE}{routes}"),
    )
}

#[test]
fn odysseys_routes_of_one_method_need_no_hba_file() {
    let same = odyssey("database \"a\" { user default { authentication \"md5\" storage \"s\" } }");
    assert!(same.hba.is_empty(), "{}", same.hba);
    assert!(same.text.contains("auth_type = \"md5\""), "{}", same.text);
}

#[test]
fn odysseys_routes_without_passwords_stay_limited_to_their_names() {
    let trusting =
        odyssey("database \"a\" { user \"u\" { authentication \"none\" storage \"s\" } }");
    assert_eq!(trusting.hba, "local a u trust\nhost a u all trust\n");
    let unknown =
        odyssey("database \"a\" { user \"u\" { authentication \"external\" storage \"s\" } }");
    assert_eq!(unknown.hba, "local a u reject\nhost a u all reject\n");
    let grouped =
        odyssey("database \"a\" { group \"staff\" { authentication \"md5\" storage \"s\" } }");
    assert_eq!(grouped.hba, "local a +staff md5\nhost a +staff all md5\n");
    let pam = odyssey(
        "database \"all\" { user \"u\" { authentication \"clear_text\" auth_pam_service \"x\" storage \"s\" } }",
    );
    assert_eq!(
        pam.hba,
        "local \"all\" u pam pamservice=x\nhost \"all\" u all pam pamservice=x\n"
    );
}

#[test]
fn odysseys_routes_that_disagree_have_pools_of_their_own() {
    let route = |name: &str, size: u32| {
        format!("user \"{name}\" {{ authentication \"md5\" storage \"s\" pool_size {size} }}\n")
    };
    let by_user = odyssey(&format!(
        "database \"a\" {{ {}{} }}\ndatabase \"b\" {{ {}{} }}",
        route("u", 1),
        route("v", 2),
        route("u", 1),
        route("v", 2)
    ));
    assert!(
        by_user.text.contains("[users.\"u\"]\npool_size = 1\n"),
        "{}",
        by_user.text
    );
    let mixed = odyssey(&format!(
        "database \"a\" {{ {}{} }}\ndatabase \"b\" {{ {}{} }}",
        route("u", 1),
        route("v", 2),
        route("u", 3),
        route("v", 4)
    ));
    for own in [
        "[pools.\"a\".\"u\"]\npool_size = 1\n",
        "[pools.\"a\".\"v\"]\npool_size = 2\n",
        "[pools.\"b\".\"u\"]\npool_size = 3\n",
        "[pools.\"b\".\"v\"]\npool_size = 4\n",
    ] {
        assert!(mixed.text.contains(own), "{}", mixed.text);
    }
}

#[test]
fn proxysqls_hosts_without_readers_are_alternatives() {
    let text = "pgsql_servers = ( { hostname=\"a\", hostgroup=0 }, { hostname=\"b\", hostgroup=0, port=5433 }, \
        { hostname=\"c\", hostgroup=0, use_ssl=1 } )\npgsql_variables = { interfaces=\"0.0.0.0:1;0.0.0.0:2\", \
        connection_max_age_ms=0, have_ssl=true }";
    check(
        Product::ProxySql,
        text,
        &[
            "hostname = \"c\": mapped to databases.*.host = [\"a\", \"c\"]",
            "hostname = \"b\": not mapped: alternatives of one host have one port",
            "use_ssl = 1: not mapped: all hosts of a database have one server_tls_sslmode",
            "interfaces = \"0.0.0.0:1;0.0.0.0:2\": not mapped: all addresses of Weir have one port",
            "have_ssl = true: not mapped: set client_tls_sslmode",
            "connection_max_age_ms = 0: no meaning here",
        ],
    );
}

#[test]
fn proxysqls_rules_are_mapped_as_a_whole_or_not_at_all() {
    let text = "pgsql_servers = ( { hostname=\"a\", hostgroup=0 } )\npgsql_query_rules = (\n\
        { rule_id=1, active=1, match_pattern=\"(\", error_msg=\"no\" },\n\
        { rule_id=2, active=1, match_pattern=\"x\", flagOUT=3 },\n\
        { rule_id=3, active=1, username=\"u\", delay=500, apply=1 },\n\
        { rule_id=4, active=1, username=\"u\", destination_hostgroup=9, apply=1 } )";
    check(
        Product::ProxySql,
        text,
        &[
            "rule_id = 1: not mapped: Weir refuses such a rule: ",
            "rule_id = 2: not mapped: flagOUT: use the order of rules",
            "rule_id = 3: mapped to rules.proxysql-3",
            "rule_id = 4: not mapped: host group 9: ",
        ],
    );
    let imported = read(Product::ProxySql, "proxysql.cnf", text);
    assert_eq!(
        imported.text.matches("[[rules]]").count(),
        1,
        "{}",
        imported.text
    );
}

#[test]
fn haproxys_frontends_lead_to_their_backends() {
    let text = "defaults\n mode tcp\nfrontend w\n bind :5000 ssl crt /x.pem accept-proxy\n default_backend p\n\
        frontend r\n bind :5001\n default_backend q\nbackend p\n option httpchk GET /master\n \
        server a 10.0.0.1:6432 check port 8008 check-ssl\n server b 10.0.0.2:6432 check port 8008 check-ssl\n\
        backend q\n option httpchk GET /replica\n server a 10.0.0.1:6432 check port 8008 weight 1\n \
        server b 10.0.0.2:6432 check port 8008 weight 4 ssl verify none\n";
    check(
        Product::HaProxy,
        text,
        &[
            "frontend w.bind = \":5000\": mapped to listen_addr = [\"*\"], and listen_port",
            "frontend w.bind.ssl = \"\": mapped to client_tls_sslmode = \"require\"",
            "frontend w.bind.accept-proxy = \"\": not mapped: list the proxies in proxy_protocol_from",
            "frontend r.bind = \":5001\": not mapped: Weir has one port: give these clients an entry of their own with target = \"standby\"",
            "failover_hints = [\"patroni:https://10.0.0.1:8008\", \"patroni:https://10.0.0.2:8008\"]",
            "backend q.server a.weight = \"1\": mapped to databases.*.hosts.10.0.0.1:6432.weight = 25",
            "backend q.server b.ssl = \"\": mapped to server_tls_sslmode = \"require\"",
        ],
    );
    let imported = read(Product::HaProxy, "haproxy.cfg", text);
    assert!(
        imported
            .notes
            .iter()
            .any(|note| note.contains("6432 are poolers"))
    );
}

#[test]
fn haproxy_without_postgres_says_so() {
    let imported = read(
        Product::HaProxy,
        "haproxy.cfg",
        "listen web\n mode http\n server a b:80\n",
    );
    assert!(imported.notes[0].starts_with("no section leads to PostgreSQL"));
    check(
        Product::HaProxy,
        ".if defined(X)\nglobal\n.endif\n",
        &["not mapped: files of Weir have no conditions"],
    );
}

#[test]
fn pgcats_users_of_other_pools_stay_out() {
    let pool = |name: &str, user: &str| {
        format!(
            "[pools.{name}.users.0]\nusername = \"{user}\"\npassword = \"x\"\npool_size = 1\n[pools.{name}.shards.0]\n\
             servers = [[\"h\", 5432, \"primary\"]]\ndatabase = \"d\"\n"
        )
    };
    let general = "[general]\nadmin_username = \"root\"\n";
    let two = read(
        Product::PgCat,
        "pgcat.toml",
        &format!("{general}{}{}", pool("a", "u"), pool("b", "v")),
    );
    let expected = "local a u md5\nhost a u all md5\nlocal b v md5\nhost b v all md5\n\
        local pgbouncer,weir root md5\nhost pgbouncer,weir root all md5\n";
    assert_eq!(two.hba, expected);
    let same = read(
        Product::PgCat,
        "pgcat.toml",
        &format!("{general}{}{}", pool("a", "u"), pool("b", "u")),
    );
    assert_eq!(same.hba, "");
    let nameless = read(
        Product::PgCat,
        "pgcat.toml",
        &format!("[general]\n{}{}", pool("a", "u"), pool("b", "")),
    );
    assert_eq!(nameless.hba, "local a u md5\nhost a u all md5\n");
}
