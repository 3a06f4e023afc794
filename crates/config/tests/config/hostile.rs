//! Tests with hostile input: endless includes, huge lines, NUL bytes, loops without progress (SEC-24).

use std::path::Path;

use weir_config::load;

use crate::{ini, lines, load_files, native};

#[test]
fn includes_that_turn_in_a_circle_are_refused() {
    let files = [("a", "[pgbouncer]\n%include b\n"), ("b", "%include a\n")];
    assert_eq!(
        lines(load_files("a", &files, &[])),
        "b:1: \"a\" includes itself\n"
    );
}

#[test]
fn includes_nest_ten_deep_and_no_deeper() {
    let chain = |depth: usize| {
        let mut read = |path: &Path| {
            let number: usize = path.to_str().unwrap().parse().unwrap();
            let more = if number < depth {
                format!("%include {}\n", number + 1)
            } else {
                String::new()
            };
            Ok(format!("[pgbouncer]\nauth_file=u\n{more}"))
        };
        lines(load(Path::new("0"), &mut read, std::iter::empty()))
    };
    assert_eq!(chain(10), "no mistake");
    assert_eq!(chain(11), "10:3: %include nests deeper than 10\n");
}

#[test]
fn a_tree_of_includes_is_cut() {
    // Each file includes ten others one level deeper under fresh names: 10^9 files without a limit.
    let mut reads = 0;
    let mut read = |path: &Path| {
        reads += 1;
        let name = path.to_str().unwrap();
        let width = if name.len() < 10 { 10 } else { 0 };
        Ok((0..width)
            .map(|i| format!("%include {name}{i}\n"))
            .collect())
    };
    let errors = load(Path::new("r"), &mut read, std::iter::empty()).unwrap_err();
    assert!(errors[0].message.contains("too many files"), "{errors:?}");
    assert!(errors.len() <= 101);
    assert_eq!(reads, 1_000);
}

#[test]
fn nul_bytes_are_refused_everywhere() {
    assert_eq!(
        lines(ini("[pgbouncer]\nlogfile = a\0b\n")),
        "pgbouncer.ini:2: a NUL byte is not allowed\n"
    );
    for text in [
        "logfile = \"a\\u0000b\"",
        "admin_users = [\"a\\u0000b\"]",
        "[databases.\"a\\u0000b\"]\nhost = 'x'",
        "[databases.a]\npassword = \"x\\u0000y\"",
    ] {
        let told = lines(native(text));
        assert!(told.contains("NUL byte"), "{text}: {told}");
    }
}

#[test]
fn lines_of_a_megabyte_are_answered_shortly() {
    let long = "x".repeat(1 << 20);
    for text in [
        format!("[pgbouncer]\n{long}\n"),
        format!("[pgbouncer]\n{long} = 1\n"),
        format!("[pgbouncer]\npool_mode = {long}\n"),
        format!("[pgbouncer]\nlogfile = {long}\n"),
        format!("[{long}]\n"),
        format!("[databases]\n{long} = host=x\n"),
        format!("[databases]\na = {}\n", "host=x ".repeat(1 << 17)),
        format!("[databases]\na = password='{}\n", "''".repeat(1 << 19)),
        format!("[pgbouncer]\n%include {long}\n"),
        format!("[hosts]\n{long} = weight=1\n"),
        format!("[hosts]\n{}\n", "/".repeat(1 << 20)),
        format!(
            "[databases]\na = host=x\n[hosts]\na{} = az=b\n",
            "/".repeat(1 << 20)
        ),
        format!("[databases]\na = host=x\n[hosts]\na/{long} = az=b\n"),
        format!("[databases]\na = host=x\n[hosts]\na/x = az='{long}'\n"),
        format!("[databases]\na = host=x replicas='{long}'\n"),
        format!("[databases]\na = host=x read_functions='{long}*'\n"),
        "\n[".repeat(1 << 19),
        "=\n".repeat(1 << 19),
    ] {
        let told = lines(ini(&text));
        assert!(told.len() < 64 * 1024, "{}", told.len());
    }
    assert!(lines(native(&format!("{long} = 1"))).len() < 1024);
    assert!(lines(native(&format!("logfile = '{long}'"))).len() < 1024);
    assert!(lines(native(&"[".repeat(1 << 20))).len() < 64 * 1024);
    let table = format!("[databases.a.hosts.'{long}']\nweight = 1");
    assert!(lines(native(&table)).len() < 1024);
}

#[test]
fn many_hosts_are_counted_and_refused() {
    let names = |separator: &str| {
        let names = (0..20_000).map(|number| format!("h{number}"));
        names.collect::<Vec<_>>().join(separator)
    };
    let rest = "[pgbouncer]\nauth_file=u\nwatch_user=w\n";
    let text = format!("[databases]\na = host=h replicas='{}'\n{rest}", names(","));
    assert_eq!(
        lines(ini(&text)),
        "pgbouncer.ini:2: database \"a\" has 20001 hosts: at most 64 are possible\n"
    );
    let hosts = names(" =\na/");
    let text = format!("[databases]\na = host=h\n[hosts]\na/{hosts} =\n{rest}");
    assert_eq!(
        lines(ini(&text)),
        "pgbouncer.ini:2: database \"a\" has 20001 hosts: at most 64 are possible\n"
    );
    let same = "h,".repeat(20_000);
    let text = format!("[databases]\na = host=h replicas='{same}'\n{rest}");
    assert_eq!(
        lines(ini(&text)),
        "pgbouncer.ini:2: database \"a\" lists the host h:5432 twice: remove one\n"
    );
}

#[test]
fn nul_bytes_in_hosts_are_refused() {
    for text in [
        "[databases.a]\nreplicas = \"a\\u0000b\"",
        "[databases.a]\nread_functions = [\"\\\"a\\u0000b\\\"\"]",
        "[databases.a.hosts.\"/a\\u0000b\"]",
        "[databases.a.hosts.\"a\\u0000b\"]",
        "[databases.a.hosts.b]\naz = \"a\\u0000b\"",
    ] {
        let told = lines(native(text));
        let is_refused = told.contains("NUL byte") || told.contains("no control characters");
        assert!(is_refused, "{text}: {told}");
    }
}

#[test]
fn degenerate_entries_end_and_are_refused() {
    for value in [
        "=", "==", "'", "''", "a", "a= b", "host='", "host=''x", "= x", "host=x =", "\\", "-c=",
    ] {
        let told = lines(ini(&format!(
            "[databases]\na = {value}\n[pgbouncer]\nauth_file=u\n"
        )));
        assert!(told.starts_with("pgbouncer.ini:2: "), "{value}: {told}");
    }
}
