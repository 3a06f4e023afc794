//! Tests of weir.toml's features beyond PgBouncer's ini: environment variables, passwords in files, several files.

use std::io;
use std::path::{Path, PathBuf};

use weir_config::{ConfigError, Files, Loaded, Origin, effective_text, load_directory};

use crate::{ini, lines, load_files, native, pairs};

const FILE: &str = r#"
auth_file = "${CONFIG_DIR}/users"
listen_addr = ["${ADDRESS}", "::1"]
default_pool_size = "${SIZE}"
[databases.shop]
host = "db.${DOMAIN}"
user = "app"
password = "${WEIR_SHOP_PASSWORD}"
"#;
const ENV: [(&str, &str); 5] = [
    ("CONFIG_DIR", "/etc/weir"),
    ("ADDRESS", "127.0.0.1"),
    ("SIZE", "7"),
    ("DOMAIN", "example.org"),
    ("WEIR_SHOP_PASSWORD", "hunter2${SIZE}"),
];

#[test]
fn values_take_variables_of_the_environment() {
    let loaded = load_files("weir.toml", &[("weir.toml", FILE)], &ENV).unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.global.auth_file, "/etc/weir/users");
    assert_eq!(settings.global.listen_addr[0].to_string(), "127.0.0.1");
    assert_eq!(
        settings.global.default_pool_size,
        weir_config::PoolSize::Fixed(7)
    );
    let pool = settings.pool("shop", "ann").unwrap();
    assert_eq!(pool.hosts[0].to_string(), "db.example.org");
    assert_eq!(pool.password.unwrap().expose(), "hunter2${SIZE}");
    assert_eq!(
        loaded.sources["databases.shop.password"],
        Origin::Variable("weir.toml".into(), 8, "WEIR_SHOP_PASSWORD".into())
    );
    let text = effective_text(&loaded);
    assert!(
        text.contains("default_pool_size = 7  # weir.toml:4 by ${SIZE}"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_missing_variable_is_a_mistake_that_names_it() {
    let result = load_files("weir.toml", &[("weir.toml", FILE)], &ENV[..3]);
    assert_eq!(
        lines(result),
        "weir.toml:6: bad value \"db.${DOMAIN}\" for \"host\": environment variable DOMAIN is not set\n\
         weir.toml:8: bad value for \"password\": environment variable WEIR_SHOP_PASSWORD is not set\n"
    );
    // The value of a variable is never repeated: it may be a secret in the wrong place.
    let result = load_files(
        "weir.toml",
        &[("weir.toml", "pool_mode = '${SECRET}'")],
        &[("SECRET", "hunter2")],
    );
    let said = lines(result);
    assert!(
        said.contains("${SECRET}") && !said.contains("hunter2"),
        "{said}"
    );
}

#[test]
fn the_ini_has_no_variables_as_in_pgbouncer() {
    let loaded =
        ini("[databases]\na = host=h user=u password=x${HOME}\n[pgbouncer]\nauth_file=${A\n");
    let settings = loaded.unwrap().settings;
    assert_eq!(settings.global.auth_file, "${A");
    let password = settings.databases["a"].password.as_ref().unwrap();
    assert_eq!(password.expose(), "x${HOME}");
}

#[test]
fn a_password_may_stand_in_a_file_of_its_own() {
    let toml = "auth_file='u'\n[databases.a]\nhost='h'\nuser='u'\npassword_file='/run/secret'\n";
    let ini =
        "[databases]\na = host=h user=u password_file=/run/secret\n[pgbouncer]\nauth_file=u\n";
    for (name, file) in [("a.toml", toml), ("a.ini", ini)] {
        for (text, password) in [("p w\n", "p w"), ("p\r\n", "p"), (" p", " p")] {
            let loaded = load_files(name, &[(name, file), ("/run/secret", text)], &[]).unwrap();
            let own = loaded.settings.pool("a", "x").unwrap().password.unwrap();
            assert_eq!(own.expose(), password);
            let place = &loaded.sources["databases.a.password"];
            assert_eq!(*place, Origin::File("/run/secret".into(), 0));
        }
        for text in ["", "\n", "one\ntwo\n"] {
            let result = load_files(name, &[(name, file), ("/run/secret", text)], &[]);
            assert!(
                lines(result).ends_with(
                    ": password_file \"/run/secret\" must hold one line, the password\n"
                )
            );
        }
    }
    assert_eq!(
        lines(native(toml)),
        "weir.toml:5: cannot read password_file \"/run/secret\": no such file\n"
    );
    assert_eq!(
        lines(native(&format!("{toml}password = 'x'\n"))),
        "weir.toml:5: database \"a\" has both password and password_file\n"
    );
}

/// Files of one directory, whatever its name.
struct Texts<'a>(&'a [(&'a str, &'a str)]);

impl Files for Texts<'_> {
    fn read(&mut self, path: &Path) -> io::Result<String> {
        let found = self.0.iter().find(|(name, _)| Path::new(name) == path);
        let text = found.map(|(_, text)| (*text).to_owned());
        text.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.0.iter().map(|(name, _)| name.into()).collect())
    }
}

fn directory(files: &[(&str, &str)]) -> Result<Loaded, Vec<ConfigError>> {
    load_directory(Path::new("conf.d"), &mut Texts(files), pairs(&ENV[..4]))
}

#[test]
fn the_files_of_a_directory_are_one_configuration() {
    let loaded = directory(&[
        (
            "conf.d/10-main.toml",
            "auth_file = 'u'\npool_mode = 'transaction'\n",
        ),
        (
            "conf.d/20-shop.toml",
            "[databases.shop]\nhost = 'db.${DOMAIN}'\n",
        ),
        (
            "conf.d/30-more.toml",
            "verbose = 1\n[databases.more]\nhost = 'x'\n[users.shop]\npool_size = 1\n",
        ),
    ])
    .unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.databases.len(), 2);
    assert_eq!(
        (settings.global.verbose, &*settings.global.auth_file),
        (1, "u")
    );
    assert_eq!(settings.global.conffile, "conf.d");
    assert_eq!(
        loaded.sources["databases.more.host"],
        Origin::File("conf.d/30-more.toml".into(), 3)
    );
}

#[test]
fn what_two_files_of_a_directory_set_is_a_mistake() {
    let result = directory(&[
        (
            "a.toml",
            "auth_file = 'u'\nverbose = 1\n[databases.shop]\nhost = 'x'\n[users.u]\n[peers.1]\n",
        ),
        (
            "b.toml",
            "\nverbose = 1\n[databases.shop]\nport = 1\n[users.u]\n[peers.1]\n",
        ),
    ]);
    assert_eq!(
        lines(result),
        "b.toml:2: \"verbose\" was set at a.toml:2 already\n\
         b.toml:3: \"shop\" was set at a.toml:3 already\n\
         b.toml:5: \"u\" was set at a.toml:5 already\n\
         b.toml:6: \"1\" was set at a.toml:6 already\n"
    );
    assert_eq!(
        lines(directory(&[])),
        "conf.d: no file named *.toml is in this directory\n"
    );
}
