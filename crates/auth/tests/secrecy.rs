//! Compile-time proof that secrets cannot be formatted or compared with `==` (SEC-60, SEC-68): this file does not
//! compile if one of the types gains such a trait. A second test searches the sources for secrets that are taken out of
//! their types to be compared.

#![expect(
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is what it is for"
)]

use std::fmt::Debug;
use std::fmt::Display;
use std::path::PathBuf;

use weir_auth::account_cache::AccountCache;
use weir_auth::fetched::Fetched;
use weir_auth::kdf::KdfRequest;
use weir_auth::kdf::ScramKeys;
use weir_auth::login::Acceptance;
use weir_auth::login::Account;
use weir_auth::login::Exchange;
use weir_auth::login::LoginInput;
use weir_auth::login::Opening;
use weir_auth::login::Progress;
use weir_auth::md5::Md5Hash;
use weir_auth::scram::PassThrough;
use weir_auth::scram::Proof;
use weir_auth::scram::ScramClient;
use weir_auth::scram::ScramServer;
use weir_auth::scram::Step;
use weir_auth::secret::ClientKey;
use weir_auth::secret::SaltedPassword;
use weir_auth::secret::Secret;
use weir_auth::secret::ServerKey;
use weir_auth::secret::ServerSecret;
use weir_auth::secret::StoredKey;
use weir_auth::stored::ScramVerifier;
use weir_auth::stored::StoredSecret;
use weir_auth::userlist::UserList;

/// Fails to compile if the type has the trait. The type of `probe`'s parameter can be inferred only while one
/// implementation applies; the second one applies to types with the trait and makes the call ambiguous.
macro_rules! lacks {
    ($trait:path, $type:ty) => {{
        trait Lacks<Marker> {
            fn probe() -> &'static str {
                stringify!($type)
            }
        }
        struct Has;
        impl<T: ?Sized> Lacks<()> for T {}
        impl<T: ?Sized + $trait> Lacks<Has> for T {}
        <$type as Lacks<_>>::probe()
    }};
}

macro_rules! opaque {
    ($($type:ty),* $(,)?) => {
        [$([
            lacks!(Debug, $type),
            lacks!(Display, $type),
            lacks!(PartialEq<$type>, $type),
        ]),*]
    };
}

#[test]
fn sec_60_sec_68_secrets_have_neither_debug_nor_display_nor_equality() {
    let proved = opaque![
        Acceptance,
        Account,
        AccountCache,
        ClientKey,
        Exchange,
        Fetched,
        KdfRequest,
        LoginInput<'static>,
        Md5Hash,
        Opening,
        PassThrough,
        Progress,
        Proof,
        SaltedPassword,
        ScramClient,
        ScramKeys,
        ScramServer,
        ScramVerifier,
        Secret,
        ServerKey,
        ServerSecret,
        Step,
        StoredKey,
        StoredSecret,
        UserList,
    ];
    assert!(
        proved
            .iter()
            .all(|names| names.iter().all(|name| !name.is_empty()))
    );
}

/// All source files of the crate: path and text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

#[test]
fn sec_60_no_secret_is_compared_with_an_operator() {
    let sources = sources();
    assert!(sources.len() > 20);
    for (path, text) in &sources {
        for (number, line) in text.lines().enumerate() {
            let exposes = ["expose()", "to_text()"]
                .iter()
                .any(|call| line.contains(call));
            let compares = [
                " == ",
                " != ",
                "assert_eq!",
                "assert_ne!",
                "starts_with",
                "cmp(",
            ]
            .iter()
            .any(|operator| line.contains(operator));
            assert!(
                !(exposes && compares),
                "{}:{}: use ct_eq",
                path.display(),
                number + 1
            );
        }
    }
}

#[test]
fn sec_60_the_files_of_secrets_derive_and_implement_nothing_that_shows_them() {
    let files = ["kdf.rs", "md5.rs", "secret.rs", "stored.rs"];
    for (path, text) in sources() {
        if !files
            .iter()
            .any(|file| path.ends_with(format!("src/{file}")))
        {
            continue;
        }
        for line in text.lines() {
            let declares = line.contains("derive(") || line.contains("impl ");
            for name in [
                "Debug",
                "Display",
                "PartialEq",
                "Ord",
                "Hash,",
                "Hash)",
                "Serialize",
            ] {
                assert!(
                    !(declares && line.contains(name)),
                    "{}: {line}",
                    path.display()
                );
            }
        }
    }
}
