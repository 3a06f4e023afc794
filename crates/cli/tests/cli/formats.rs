//! Configuration formats on the command line: convert, schema, directories, variables.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;

use crate::{Dir, Running, output, weir, with_file};

/// Lines of `weir check` without the places, which differ between files.
fn settings(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with("# The"));
    let lines = lines.map(|line| line.split("  # ").next().unwrap_or_default());
    lines.map(str::to_owned).collect()
}

#[test]
fn a_converted_file_has_the_same_effect() {
    let dir = Dir::new("convert");
    let users = dir.path("users");
    fs::write(&users, "\"app\" \"x\"\n").unwrap();
    let file = dir.config(&format!(
        "auth_file = {}\n; many clients\nmax_client_conn = 2000\nquery_wait_timeout = 0.5\n",
        users.display()
    ));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("user=app", "user=app password='a b'")).unwrap();
    let (code, out, _) = with_file("convert", &file);
    assert_eq!(code, 0);
    assert!(out.contains("# many clients\n"), "{out}");
    assert!(out.contains("password = \"a b\""), "{out}");
    let toml = dir.path("weir.toml");
    let convert = |args: &[&str]| output(weir(&["convert"]).arg(&file).args(args).arg(&toml));
    let (code, printed, _) = convert(&["-o"]);
    assert_eq!((code, printed.as_str()), (0, ""));
    assert_eq!(fs::read_to_string(&toml).unwrap(), out);
    assert_eq!(
        fs::metadata(&toml).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let (ini_code, of_ini, _) = with_file("check", &file);
    let (toml_code, of_toml, said) = with_file("check", &toml);
    assert_eq!((ini_code, toml_code), (0, 0), "{said}");
    assert_eq!(settings(&of_ini), settings(&of_toml));
    // An existing file is never overwritten, and a file in the native format is not converted.
    let (code, _, err) = convert(&["--output"]);
    assert_eq!(code, 3, "{err}");
    assert_eq!(with_file("convert", &toml).0, 1);
    let bad = dir.config("pool_mod = session\n");
    let (code, out, err) = with_file("convert", &bad);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("did you mean \"pool_mode\"?"), "{err}");
}

#[test]
fn check_tells_what_one_pool_gets() {
    let dir = Dir::new("pool");
    let file = dir.config("[users]\napp = pool_size=3\n");
    let check = |args: &[&str]| output(weir(&["check"]).arg(&file).args(args));
    let (code, out, _) = check(&["--database", "shop", "--user", "ann"]);
    assert_eq!(code, 0);
    let first = out.lines().next().unwrap();
    assert_eq!(
        first,
        "# database \"shop\", user \"ann\", \"app\" on the server"
    );
    assert!(out.contains("pool_size = 3  # "), "{out}");
    assert!(out.contains(" [users] app\n"), "{out}");
    assert!(out.contains("query_timeout = 0  # default\n"), "{out}");
    let (code, out, err) = check(&["--database", "nowhere"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(err.lines().last(), Some("no such database: nowhere"));
}

#[test]
fn the_schema_is_json() {
    let (code, out, _) = output(&mut weir(&["schema"]));
    assert_eq!(code, 0);
    let schema: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(schema["properties"]["pool_mode"]["description"].is_string());
}

#[test]
fn a_directory_of_files_is_one_configuration_that_reloads() {
    let dir = Dir::new("directory");
    let parts = dir.path("conf.d");
    fs::create_dir(&parts).unwrap();
    let write = |name: &str, text: &str| fs::write(parts.join(name), text).unwrap();
    let (code, _, err) = with_file("check", &parts);
    assert_eq!(code, 1);
    assert!(err.contains("no file named *.toml"), "{err}");
    write(
        "10-main.toml",
        &format!(
            "unix_socket_dir = '{}'\nauth_type = 'any'\n",
            dir.path("").display()
        ),
    );
    write(
        "20-shop.toml",
        "[databases.shop]\nhost = '127.0.0.1'\nuser = 'app'\npassword_file = 'conf.d/x'\n",
    );
    for other in ["30-old.toml.bak", "README", ".20-shop.toml"] {
        write(other, "not = [ toml");
    }
    let (code, _, err) = with_file("check", &parts);
    assert_eq!(code, 1);
    assert!(
        err.contains("20-shop.toml:4: cannot read password_file"),
        "{err}"
    );
    write(
        "20-shop.toml",
        "[databases.shop]\nhost = '127.0.0.1'\nuser = 'app'\n",
    );
    let mut running = Running::start(&parts);
    write(
        "40-more.toml",
        "[databases.more]\nhost = '127.0.0.1'\nuser = 'app'\n",
    );
    running.signal(Signal::HUP);
    running.expect("reload: databases.more added");
    running.expect("reload done, 1 changes");
    write("50-again.toml", "[databases.more]\nhost = '127.0.0.2'\n");
    running.signal(Signal::HUP);
    let line = running.expect("50-again.toml:1: \"more\" was set at");
    assert!(line.ends_with("40-more.toml:1 already"), "{line}");
    running.expect("reload failed");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn an_import_is_strict_hides_secrets_and_overwrites_nothing() {
    let dir = Dir::new("import");
    let (source, out) = (dir.path("pgcat.toml"), dir.path("weir.toml"));
    let text = "[general]\nport = 6432\nautoreload = 5\nadmin_username = \"root\"\n\
        admin_password = \"hidden\"\n";
    fs::write(&source, text).unwrap();
    let import = |args: &[&str]| {
        let from = ["import", "--from", "pgcat", "--out"];
        output(weir(&from).arg(&out).args(args).arg(&source))
    };
    let (code, _, said) = import(&[]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("pgcat.toml:3: general.autoreload = 5: not mapped: "),
        "{said}"
    );
    assert!(!said.contains("hidden") && !out.exists(), "{said}");
    let (code, printed, _) = import(&["--lenient", "--dry-run"]);
    assert_eq!((code, out.exists()), (0, false));
    assert!(
        printed.contains("# not mapped: ") && !printed.contains("hidden"),
        "{printed}"
    );
    let (code, _, said) = import(&["--lenient"]);
    assert_eq!(code, 0, "{said}");
    let userlist = dir.path("userlist.txt");
    assert_eq!(
        fs::read_to_string(&userlist).unwrap(),
        "\"root\" \"hidden\"\n"
    );
    assert_eq!(
        fs::metadata(&userlist).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let (code, _, said) = with_file("check", &out);
    assert_eq!(code, 0, "{said}");
    let (code, _, _) = import(&["--lenient"]);
    assert_eq!(code, 3);
}

/// Files of the importer's own tests, whose results must pass `weir check`.
#[test]
fn every_import_passes_the_check() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/golden");
    let cases: [(&str, &str, &[&str]); 7] = [
        ("pgcat", "pgcat", &["pgcat.toml"]),
        ("pgdog", "pgdog", &["pgdog.toml", "users.toml"]),
        (
            "pgpool",
            "pgpool",
            &["pgpool.conf", "pool_hba.conf", "pool_passwd", "pcp.conf"],
        ),
        ("odyssey", "odyssey", &["odyssey.conf"]),
        ("proxysql", "proxysql", &["proxysql.cnf"]),
        ("haproxy", "haproxy", &["haproxy.cfg"]),
        ("haproxy", "haproxy_plain", &["haproxy.cfg"]),
    ];
    for (product, directory, files) in cases {
        let dir = Dir::new(&format!("import-{directory}"));
        let out = dir.path("weir.toml");
        let mut import = weir(&["import", "--lenient", "--from", product, "--out"]);
        import.arg(&out);
        import.args(files.iter().map(|file| golden.join(directory).join(file)));
        let (code, printed, said) = output(&mut import);
        assert_eq!((code, printed.as_str()), (0, ""), "{said}");
        assert!(said.contains("note: "), "{said}");
        let (code, _, said) = with_file("check", &out);
        assert_eq!(code, 0, "{product}: {said}");
        let written = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        let expected =
            |name: &str| fs::read_to_string(golden.join(directory).join(name)).unwrap_or_default();
        assert_eq!(written("userlist.txt"), expected("expected.userlist"));
        assert_eq!(written("hba.conf"), expected("expected.hba"));
    }
}

#[test]
fn an_import_writes_all_files_or_none() {
    let dir = Dir::new("import-none");
    let (source, out) = (dir.path("pgcat.toml"), dir.path("weir.toml"));
    fs::write(
        &source,
        "[general]\nadmin_username = \"root\"\nadmin_password = \"x\"\n",
    )
    .unwrap();
    fs::write(&out, "workers = 1\n").unwrap();
    let mut import = weir(&["import", "--from", "pgcat", "--out"]);
    let (code, _, said) = output(import.arg(&out).arg(&source));
    assert_eq!(code, 3, "{said}");
    assert!(!dir.path("userlist.txt").exists());
    assert_eq!(fs::read_to_string(&out).unwrap(), "workers = 1\n");
    fs::write(&source, "[general]\nadmin_password = \"hidden\n").unwrap();
    let mut import = weir(&["import", "--from", "pgcat", "--dry-run"]);
    let (code, printed, said) = output(import.arg(&source));
    assert_eq!((code, printed.as_str()), (1, ""));
    assert!(
        said.contains("pgcat.toml:2:") && !said.contains("hidden"),
        "{said}"
    );
}
