//! Users, rules and maps: mistakes in their files, warnings about them, and `weir hba explain`.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Writes a configuration with rules; each file is named before it is written.
fn with_rules(dir: &Dir, rules: &str, more: &str) -> PathBuf {
    let at = dir.0.display();
    fs::write(dir.path("hba.conf"), rules).unwrap();
    let text = format!(
        "[databases]\nshop = host=127.0.0.1\n[pgbouncer]\nauth_type = hba\nauth_hba_file = {at}/hba.conf\n\
         unix_socket_dir = {at}\npidfile = {at}/pid\nlogfile = {at}/log\n{more}"
    );
    let path = dir.path("weir.ini");
    fs::write(&path, text).unwrap();
    path
}

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn mistakes_in_all_files_are_told_at_once() {
    let dir = Dir::new("files");
    let at = dir.0.display().to_string();
    fs::create_dir(dir.path("rules")).unwrap();
    // Relative to the including file, regardless of the working directory.
    fs::write(dir.path("rules/more.conf"), "local all\n").unwrap();
    fs::write(dir.path("users"), "hush-hush\n").unwrap();
    fs::write(dir.path("ident.conf"), "map /( x\n").unwrap();
    let file = with_rules(
        &dir,
        "local all all peer\nhost all all all peerr\ninclude rules/more.conf\n",
        &format!(
            "auth_file = {at}/users\nauth_ident_file = {at}/ident.conf\nauth_ldap_options = ldapserver\n"
        ),
    );
    for command in ["check", "run"] {
        let (code, out, err) = with_file(command, &file);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        let places: Vec<_> = err
            .lines()
            .map(|line| line.replace(&format!("{at}/"), ""))
            .map(|line| line.split(": ").next().unwrap().to_owned())
            .collect();
        let expected = [
            "users:1",
            "hba.conf:2",
            "rules/more.conf:1",
            "ident.conf:1",
            "weir.ini:11",
        ];
        assert_eq!(places, expected, "{err}");
        assert!(err.contains("did you mean \"peer\"?"), "{err}");
        assert!(!err.contains("hush-hush"), "{err}");
    }
    assert!(!dir.path("pid").exists());
}

#[test]
fn a_missing_file_of_rules_keeps_it_from_starting() {
    let dir = Dir::new("no-rules");
    let file = with_rules(&dir, "", "");
    fs::remove_file(dir.path("hba.conf")).unwrap();
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(
        err.contains("hba.conf") && err.contains("cannot read"),
        "{err}"
    );
}

#[test]
fn rules_that_cannot_work_are_noted() {
    let dir = Dir::new("idle-rules");
    let rules =
        "hostssl all all all scram-sha-256\nlocal all all peer map=gone\nhost all all all md5\n";
    let (code, _, err) = with_file("check", &with_rules(&dir, rules, ""));
    assert_eq!(code, 0, "{err}");
    for note in [
        "hba.conf:1: never matches, since client_tls_sslmode is disable",
        "hba.conf:2: refuses every client, since auth_ident_file has no map of this name",
        "hba.conf:3: md5: an md5 secret is enough to log in",
    ] {
        assert!(err.contains(note), "{note} is missing in:\n{err}");
    }
}

#[test]
fn a_reload_with_bad_rules_changes_nothing() {
    let dir = Dir::new("reload-rules");
    let mut running = Running::start(&with_rules(&dir, "local all all peer\n", ""));
    with_rules(&dir, "local all all pear\n", "default_pool_size = 30\n");
    running.signal(Signal::HUP);
    running.expect("hba.conf:1: unknown method \"pear\"");
    running.expect("reload failed, the running configuration stays as it was");
    // The failed reload did not apply its valid part, so this one reports it as a change.
    with_rules(&dir, "local all all reject\n", "default_pool_size = 30\n");
    running.signal(Signal::HUP);
    running.expect("auth_hba_file read, 1 lines");
    running.expect("reload: default_pool_size: \"20\" to \"30\"");
    running.expect("reload done");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn sec_48_files_with_secrets_that_everybody_can_read_are_noted() {
    let dir = Dir::new("exposed");
    let users = dir.path("users");
    fs::write(&users, "\"a\" \"hush-hush\"\n").unwrap();
    let file = dir.config(&format!("auth_file = {}\n", users.display()));
    let text = fs::read_to_string(&file).unwrap();
    let noted = |mode: u32| {
        set_mode(&users, mode);
        set_mode(&file, mode);
        let (code, out, err) = with_file("check", &file);
        assert_eq!(code, 0, "{err}");
        assert!(!format!("{out}{err}").contains("hush-hush"));
        let exposed = err.lines().filter(|l| l.contains("readable by everybody"));
        exposed
            .map(|line| line.contains("weir.ini"))
            .collect::<Vec<_>>()
    };
    // A configuration without a password is not secret.
    assert_eq!(noted(0o644), [false]);
    assert_eq!(noted(0o640), [false; 0]);
    fs::write(
        &file,
        text.replace("user=app", "user=app password=hush-hush"),
    )
    .unwrap();
    assert_eq!(noted(0o644), [false, true]);
    assert_eq!(noted(0o600), [false; 0]);
}

#[test]
#[cfg(not(feature = "pam"))]
fn a_method_that_was_not_built_is_refused() {
    let dir = Dir::new("unbuilt");
    let file = with_rules(&dir, "local all all pam\n", "");
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(
        err.contains("hba.conf:1: method pam is not part of this build"),
        "{err}"
    );
    let file = dir.config("auth_type = pam\n");
    let (code, _, err) = with_file("check", &file);
    assert_eq!(code, 1);
    assert!(
        err.contains("weir.ini:8: method pam is not part of this build"),
        "{err}"
    );
}

#[test]
fn explain_answers_by_text_and_exit_code() {
    let dir = Dir::new("explain");
    let rules = "host shop ann 10.0.0.0/8 ldap ldapserver=d ldapbasedn=x ldapbinddn=y ldapbindpasswd=hush-hush\n\
                 host all all all reject\n";
    let file = with_rules(&dir, rules, "");
    let explain = |words: &[&str]| {
        let mut command = weir(&["hba", "explain"]);
        command.args(words).arg("--config").arg(&file);
        output(&mut command)
    };
    let (code, out, err) = explain(&["ann", "shop", "10.1.2.3"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("may log in by ldap"), "{out}");
    assert!(!out.contains("hush-hush"), "{out}");
    let (code, out, _) = explain(&["ann", "web", "10.1.2.3"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("refused by") && out.contains("hba.conf:2"),
        "{out}"
    );
    let (code, out, err) = explain(&["ann", "shop", "example"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("must be an IP address, or local"), "{err}");

    let mut command = weir(&["hba", "explain", "ann", "shop", "local"]);
    let (code, out, _) = output(command.env("WEIR_CONFIG", &file));
    assert_eq!(code, 1);
    assert!(out.contains("refused: no line fits"), "{out}");
}

#[test]
fn explain_says_that_it_has_nothing_to_go_by() {
    let dir = Dir::new("explain-nothing");
    let file = dir.config("");
    let words = ["hba", "explain", "ann", "shop", "local"];
    let (code, _, err) = output(weir(&words).arg("--config").arg(&file));
    assert_eq!(code, 1);
    assert!(err.contains("auth_hba_file is not set"), "{err}");
    let (code, _, err) = output(&mut weir(&words));
    assert_eq!(code, 2);
    assert!(err.contains("--config"), "{err}");
}

#[test]
fn a_bad_certificate_is_a_mistake_like_others_and_stops_a_reload() {
    let dir = Dir::new("certificate");
    let mut running = Running::start(&dir.config(""));
    let at = dir.0.display();
    fs::write(dir.path("crt"), "no certificate\n").unwrap();
    fs::write(dir.path("users"), "hush-hush\n").unwrap();
    let file = dir.config(&format!(
        "client_tls_sslmode = require\nclient_tls_key_file = {at}/key\nclient_tls_cert_file = {at}/crt\n\
         auth_file = {at}/users\n"
    ));
    let (code, out, err) = with_file("check", &file);
    assert_eq!((code, out.as_str()), (1, ""));
    let told = |text: &str| assert!(err.contains(text), "{text} is missing in:\n{err}");
    told("users:1: expected a user name");
    told(&format!(
        "client_tls_cert_file: \"{at}/crt\": has no certificate"
    ));
    running.signal(Signal::HUP);
    running.expect("client_tls_cert_file");
    running.expect("reload failed, the running configuration stays as it was");
    running.signal(Signal::QUIT);
    assert_eq!(running.end(), Some(0));
}
