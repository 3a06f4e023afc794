//! Properties over all options and over arbitrary text.

use proptest::prelude::*;
use weir_config::{Kind, Opt, Scope, Unit, effective_text};

use crate::{ini, load_files, native, no_file, to};

/// Options with a value each.
type Pairs = Vec<(&'static str, String)>;

/// Generates a valid spelling of some value of the option, for the ini. Avoids values that rules across options refuse.
fn spelling(opt: &'static Opt) -> BoxedStrategy<String> {
    match opt.kind {
        Kind::Bool => prop_oneof!["0", "1"].boxed(),
        Kind::Int | Kind::Size => (opt.min..=opt.max).prop_map(|n| n.to_string()).boxed(),
        Kind::Mode => (opt.min..=opt.max).prop_map(|n| format!("0{n:o}")).boxed(),
        Kind::Duration(Unit::Seconds) => (opt.min..opt.max.min(86_000), 0..1_000_000)
            .prop_map(|(s, us)| {
                if us % 3 == 0 {
                    s.to_string()
                } else {
                    format!("{s}.{us:06}")
                }
            })
            .boxed(),
        Kind::Duration(Unit::Microseconds) => (opt.min..opt.max).prop_map(|n| n.to_string()).boxed(),
        Kind::Duration(Unit::Milliseconds) => (0i64..9_999_999).prop_map(|n| n.to_string()).boxed(),
        Kind::Enum(words) => {
            let supported: Vec<_> = words
                .iter()
                .filter(|w| !["cert", "hba", "ldap", "direct", "require"].contains(w))
                .filter(|w| !w.starts_with("verify"))
                .map(|w| (*w).to_owned())
                .collect();
            prop::sample::select(supported).boxed()
        }
        Kind::Hosts | Kind::Listen => {
            "([a-z]{1,8}|10\\.0\\.0\\.[1-9]|::1)(,[a-z]{1,4}){0,2}".boxed()
        }
        Kind::Hints => {
            "(patroni:http://[a-z]{1,4}:[1-9](,https?://\\[::1\\]:[1-9]|,etcd:http://[a-z]{1,4}:[1-9]/[a-z]{1,4}){0,2})?"
                .boxed()
        }
        Kind::HostPoints => {
            "([a-z]{1,8}|10\\.0\\.0\\.[1-9]|\\[::1\\]:[1-9]|/tmp)(,[a-z]{1,4}:[1-9][0-9]{0,3}){0,2}"
                .boxed()
        }
        Kind::Patterns => {
            "([a-z_]{1,8}\\*?(,(\"[A-Z.]{1,4}\"\\.)?[a-zA-Z]{1,4}|,[a-z]{1,4}\\.\\*){0,2})?".boxed()
        }
        Kind::ListenPoints => {
            "((localhost|10\\.0\\.0\\.[1-9]|\\[::1\\]|\\*):[1-9][0-9]{0,3})?".boxed()
        }
        Kind::Networks => {
            "(10\\.0\\.0\\.[1-9](,(10\\.[1-9]\\.0\\.0/16|fd00::/8|::1)){0,2})?".boxed()
        }
        Kind::Functions => "([a-z_]{1,8}(,(\"[A-Z.]{1,4}\"\\.)?[a-zA-Z]{1,4}){0,2})?".boxed(),
        Kind::PoolSize => prop_oneof![
            Just("auto".to_owned()),
            (opt.min..=opt.max).prop_map(|n| n.to_string()),
        ]
        .boxed(),
        Kind::StateCheck => prop_oneof![
            Just("off".to_owned()),
            Just("always".to_owned()),
            (1u32..=1_000_000).prop_map(|n| format!("sample({}.{:04}%)", n / 10_000, n % 10_000)),
        ]
        .boxed(),
        Kind::List => "([a-zA-Z_]{1,8}(,[a-z]{1,4}){0,2})?".boxed(),
        Kind::Text | Kind::Secret => "[ -~äß]{1,20}".prop_map(|s| s.trim().to_owned()).boxed(),
    }
}

/// Options that a rule ties to others; `tls.rs`, `auth.rs` and `dashboard.rs` have their tests.
const TIED: [&str; 8] = [
    "password_file",
    "client_tls_sslmode",
    "dashboard_listen",
    "probe_interval",
    "probe_timeout",
    "server_tls_cert_file",
    "server_tls_key_file",
    "statement_policy",
];

/// Options of a database that only several hosts can have.
const CLUSTERED: [&str; 14] = [
    "failover_hints",
    "failover_hints_ca_file",
    "fallback_max_share",
    "max_lag",
    "max_staleness",
    "primary_functions",
    "read_consistency",
    "read_fallback",
    "read_guard",
    "read_wait",
    "split_brain",
    "target",
    "watch_dbname",
    "watch_user",
];
/// Further ones, which rules tie to others.
const CLUSTERED_TIED: [&str; 7] = [
    "failover_hints_password",
    "failover_hints_user",
    "fence",
    "read_functions",
    "read_write_split",
    "replicas",
    "split_begin",
];

/// Generates some of the rows with a value each.
fn assignments(scope: Scope) -> BoxedStrategy<Pairs> {
    let rows: Vec<&'static Opt> = scope
        .options()
        .iter()
        .filter(|opt| opt.kind != Kind::Secret && !TIED.contains(&opt.name))
        .filter(|opt| scope != Scope::Database || !is_clustered(opt.name))
        .collect();
    values_of(rows)
}

fn is_clustered(name: &str) -> bool {
    CLUSTERED.contains(&name) || CLUSTERED_TIED.contains(&name)
}

/// Generates options of a database with several hosts.
fn cluster() -> BoxedStrategy<Pairs> {
    let rows = Scope::Database.options().iter();
    values_of(rows.filter(|opt| CLUSTERED.contains(&opt.name)).collect())
}

/// Generates lines of `[hosts]` for some of these hosts, with options that no rule refuses.
fn host_lines() -> BoxedStrategy<Vec<(&'static str, Pairs)>> {
    let hosts = [
        "h1", "r1:77", "[::1]:9", "::2", "/tmp", "/tmp:5", "@x", "new", "new:1",
    ];
    let options = Scope::Host.options().iter().map(|opt| {
        let value = match opt.name {
            "role" => prop_oneof!["auto", "Replica"].boxed(),
            _ => spelling(opt),
        };
        value.prop_map(move |value| (opt.name, value))
    });
    let options: Vec<_> = options.collect();
    let count = options.len();
    let options = options.prop_flat_map(move |all| prop::sample::subsequence(all, 0..=count));
    let lines = prop::collection::vec(options, hosts.len());
    (
        prop::sample::subsequence(hosts.to_vec(), 0..=hosts.len()),
        lines,
    )
        .prop_map(|(hosts, lines)| hosts.into_iter().zip(lines).collect())
        .boxed()
}

/// Generates a value for some of these rows.
fn values_of(rows: Vec<&'static Opt>) -> BoxedStrategy<Pairs> {
    prop::sample::subsequence(rows.clone(), 0..=rows.len())
        .prop_flat_map(|rows| {
            rows.into_iter()
                .map(|o| spelling(o).prop_map(move |s| (o.name, s)))
                .collect::<Vec<_>>()
        })
        .boxed()
}

fn entry(pairs: &[(&str, String)]) -> String {
    pairs
        .iter()
        .map(|(key, value)| format!("{key}='{}' ", value.replace('\'', "''")))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ini_to_toml_and_back_keeps_the_settings(
        global in assignments(Scope::Global),
        database in assignments(Scope::Database),
        user in assignments(Scope::User),
        pool in assignments(Scope::Pool),
        peer in assignments(Scope::Peer),
        name in "[a-zA-Z0-9 .\"äöü_*-]{1,20}",
    ) {
        let mut file = format!(
            "[databases]\n'{name}' = {}\n[users]\n'{name}' = {}\n[pools]\n'{name}/{name}x' = {}\n[peers]\n7 = {}\n[pgbouncer]\n",
            entry(&database), entry(&user), entry(&pool), entry(&peer)
        );
        for (key, value) in global {
            if !["auth_file", "listen_addr", "unix_socket_dir"].contains(&key) {
                file.push_str(&format!("{key} = {value}\n"));
            }
        }
        file.push_str("auth_file = u\nlisten_addr = *\n");
        let first = ini(&file).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        let text = effective_text(&first);
        let mut second = native(&text).map_err(|e| TestCaseError::fail(format!("{e:?}\n{text}")))?;
        // Unless the path was set, each file reloads itself.
        if !first.sources.contains_key("conffile") {
            second.settings.global.conffile.clone_from(&first.settings.global.conffile);
        }
        // The text has the rules of the directory, and so does not name it.
        prop_assert_eq!(&second.settings.global.rules_dir, "");
        second.settings.global.rules_dir.clone_from(&first.settings.global.rules_dir);
        prop_assert_eq!(&first.settings, &second.settings);
        let mut read = |_: &std::path::Path| Ok(file.clone());
        let converted = weir_config::convert(std::path::Path::new("pgbouncer.ini"), &mut read);
        let text = converted.map_err(|e| TestCaseError::fail(format!("{e:?}")))?.text;
        crate::convert::check_round_trip(&first, &text);
    }

    #[test]
    fn several_hosts_survive_every_format(
        database in cluster(),
        lines in host_lines(),
        split in "auto|hint",
        name in "[a-z/]{1,8}",
    ) {
        let mut file = "[pgbouncer]\nauth_file=u\npool_mode=transaction\nquery_wait_timeout=0\nprobe_interval=0.01\n\
            [hosts]\n".to_owned();
        for (host, options) in &lines {
            file.push_str(&format!("'{name}/{host}' = {}\n", entry(options)));
        }
        file.push_str(&format!(
            "[databases]\n'{name}' = host=h1,h2 port=77 user=f replicas='r1, r2:5433, [::1]:9' \
             read_functions='only_reads_here.*' read_write_split={split} {}\n",
            entry(&database)
        ));
        let first = ini(&file).map_err(|e| TestCaseError::fail(format!("{e:?}\n{file}")))?;
        let cluster = first.settings.pool(&name, "u").and_then(|pool| pool.cluster);
        prop_assert!(cluster.is_some_and(|cluster| cluster.hosts.len() >= 5), "{}", file);
        let text = effective_text(&first);
        let mut second = native(&text).map_err(|e| TestCaseError::fail(format!("{e:?}\n{text}")))?;
        second.settings.global.conffile.clone_from(&first.settings.global.conffile);
        // The text has the rules of the directory, and so does not name it.
        prop_assert_eq!(&second.settings.global.rules_dir, "");
        second.settings.global.rules_dir.clone_from(&first.settings.global.rules_dir);
        prop_assert_eq!(&first.settings, &second.settings);
        let mut read = |_: &std::path::Path| Ok(file.clone());
        let converted = weir_config::convert(std::path::Path::new("pgbouncer.ini"), &mut read);
        let text = converted.map_err(|e| TestCaseError::fail(format!("{e:?}")))?.text;
        crate::convert::check_round_trip(&first, &text);
        for user in ["", "u", "f"] {
            prop_assert!(weir_config::pool_text(&first, &name, user).is_some());
        }
        prop_assert!(weir_config::diff(&first.settings, &second.settings).is_empty());
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}|([\\[\\]=';#% \n\0a-z.*\"-]{0,200})") {
        let _ = ini(&text);
        let _ = native(&text);
        let _ = ini(&format!("[databases]\na = {text}"));
        let _ = ini(&format!("[databases]\na = host=x\n[hosts]\n{text}"));
        let _ = ini(&format!("[databases]\na = host=x\n[hosts]\na/{text}"));
        let _ = native(&format!("[databases.a.hosts]\n{text}"));
        let _ = native(&format!("[databases.a.hosts.{text:?}]\nweight = 1"));
        let _ = native(&format!("[databases.a]\nreplicas = {text:?}\nread_functions = {text:?}"));
        let _ = load_files("a.ini", &[("a.ini", "[pgbouncer]\n")], &[("WEIR_LISTEN_ADDR", &text)]);
        let _ = weir_config::upstream(&to(&text), &mut no_file, std::iter::empty());
    }

    #[test]
    fn arbitrary_values_never_panic(text in "[0-9a-zA-Z+. -]{0,12}", row in 0..Scope::Global.options().len()) {
        let key = Scope::Global.options()[row].name;
        let _ = ini(&format!("[pgbouncer]\nauth_file=u\n{key} = {text}\n"));
        let _ = native(&format!("{key} = '{text}'\n"));
    }
}

#[test]
fn every_global_option_can_come_from_the_environment() {
    for opt in Scope::Global.options() {
        let name = format!("WEIR_{}", opt.name.to_uppercase());
        // Setting the default is no change, except that some rules demand more than defaults.
        let env = [(name.as_str(), opt.default.unwrap_or_default())];
        let file = "[pgbouncer]\nauth_type = any\n";
        let result = load_files("a.ini", &[("a.ini", file)], &env);
        let is_known = match &result {
            Ok(loaded) => loaded.sources.contains_key(opt.name),
            Err(errors) => opt.name == "auth_type" && errors.len() == 1,
        };
        assert!(is_known, "{name}: {result:?}");
    }
}
