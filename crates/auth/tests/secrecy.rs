//! Proof at compile time that secrets cannot be formatted or compared with `==` (SEC-60, SEC-68):
//! this file stops compiling when one of the types gains such a trait.

use std::fmt::Debug;
use std::fmt::Display;

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

/// The type of `probe`'s parameter can only be inferred while one implementation applies: the
/// second one applies to types that have the trait, and then the call is ambiguous.
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
