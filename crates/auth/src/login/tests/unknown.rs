//! Tests that a client cannot learn which users exist (SEC-49): not by the challenge, the contents of messages, or the
//! work that a rejection takes.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::*;

#[test]
fn sec_49_an_unknown_user_sees_the_same_exchange_as_a_wrong_password() {
    for (method, kinds) in [
        (Method::Md5, &["md5", "plain", "empty"][..]),
        (Method::Plain, &["md5", "plain", "scram", "empty"]),
        (Method::Scram, &["plain", "md5", "empty"]),
    ] {
        let (unknown, _) = log_in(method, Account::Unknown, "wrong");
        for kind in kinds {
            let (known, _) = log_in(method, account(kind, "pencil"), "wrong");
            assert_eq!(known, unknown, "{method:?} {kind}");
        }
    }
}

#[test]
fn sec_49_salts_are_stable_per_user_whether_known_or_not() {
    let salt = |user: &[u8], account: Account| {
        let Opening::Ask { mut exchange, .. } = begin_as(user, Method::Scram, account) else {
            panic!("not asked");
        };
        let body = initial_response(MECHANISM, b"n,,n=,r=abc");
        let progress = exchange.handle_response(&body).unwrap();
        let Ok(Progress::Continue(first)) = settle(&mut exchange, progress) else {
            panic!("no server-first-message");
        };
        String::from_utf8(first)
            .unwrap()
            .split(',')
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        salt(b"eve", Account::Unknown),
        salt(b"eve", Account::Unknown)
    );
    assert_eq!(
        salt(b"eve", Account::Unknown),
        salt(b"eve", account("plain", "pencil"))
    );
    assert_ne!(
        salt(b"eve", Account::Unknown),
        salt(b"bob", Account::Unknown)
    );
}

const ITERATIONS: u32 = 2;

/// Makes a verifier of this shape that no password fits.
fn any_verifier(iterations: u32, salt_len: usize) -> StoredSecret {
    let shape = crate::mock::Shape {
        iterations,
        salt_len,
    };
    let secret = ServerSecret::new([0x77; 32]);
    StoredSecret::Scram(crate::mock::verifier(&secret, b"", shape))
}

/// Users of all kinds, most of them with an MD5 hash.
fn mixed_users() -> Vec<StoredSecret> {
    let mut users = Vec::new();
    users.extend(vec![any_verifier(3, 16); 10]);
    users.extend(vec![any_verifier(4, 12); 5]);
    users.extend(vec![StoredSecret::Md5(md5::hash(b"x", b"x")); 25]);
    users.extend(vec![StoredSecret::Plain(Secret::from("x")); 10]);
    users
}

fn population(users: &[StoredSecret]) -> Population {
    let mut population = Population::default();
    users.iter().for_each(|secret| population.add(secret));
    population
}

/// Cache of derived keys, as in the proxy.
#[derive(Default)]
struct Cache(BTreeMap<[u8; 32], ScramKeys>);

/// A login with a wrong password, as an attacker sees it: the messages without their random bytes, and the work in
/// PBKDF2 rounds.
fn fingerprint(
    population: &Population,
    method: Method,
    user: &[u8],
    account: Account,
    cache: &mut Cache,
) -> (String, u32) {
    let opening = Exchange::begin(LoginInput {
        method,
        user,
        account,
        random: LoginRandom {
            md5_salt: MD5_SALT,
            scram_nonce: [6; 18],
        },
        server_secret: &ServerSecret::new([3; 32]),
        iterations: ITERATIONS,
        channel_binding: None,
        population,
    });
    let Opening::Ask {
        challenge,
        mut exchange,
    } = opening
    else {
        panic!("not asked");
    };
    let (shape, last) = match challenge {
        Challenge::Cleartext => ("cleartext".to_owned(), cstring(b"wrong")),
        Challenge::Md5 { .. } => ("md5".to_owned(), cstring(&[b'x'; 35])),
        Challenge::Sasl { .. } => {
            let body = initial_response(MECHANISM, b"n,,n=,r=abc");
            let Ok(Progress::Continue(first)) = exchange.handle_response(&body) else {
                panic!("no server-first-message");
            };
            let first = String::from_utf8(first).unwrap();
            let parts: Vec<_> = first.split(',').collect();
            let shape = format!("sasl {} salt characters, {}", parts[1].len(), parts[2]);
            let proof = crate::crypto::base64_encode(&[0; 32]);
            (shape, format!("c=biws,{},p={proof}", parts[0]).into_bytes())
        }
    };
    let mut work = 0;
    let mut progress = exchange.handle_response(&last).unwrap();
    while let Progress::NeedKdf(request) = progress {
        let name = request.cache_key(&[0; 32]);
        let kept = name.and_then(|name| cache.0.get(&name));
        progress = match kept {
            Some(keys) => exchange.provide_cached_keys(keys),
            None => {
                work += request.iterations();
                let keys = keys_for(&request);
                cache.0.extend(name.map(|name| (name, keys.clone())));
                exchange.provide_keys(&keys)
            }
        }
        .unwrap();
    }
    assert!(matches!(progress, Progress::Rejected));
    (shape, work)
}

/// Frequency of each fingerprint, per thousand.
fn frequencies(
    population: &Population,
    method: Method,
    accounts: impl Iterator<Item = Account>,
) -> BTreeMap<(String, u32), f64> {
    let mut counts = BTreeMap::new();
    let mut all = 0.0;
    for (number, account) in accounts.enumerate() {
        let user = format!("user {number}");
        let seen = fingerprint(
            population,
            method,
            user.as_bytes(),
            account,
            &mut Cache::default(),
        );
        *counts.entry(seen).or_insert(0.0) += 1.0;
        all += 1.0;
    }
    counts
        .into_iter()
        .map(|(seen, count)| (seen, 1000.0 * count / all))
        .collect()
}

#[test]
fn sec_49_unknown_users_look_like_real_ones_in_the_same_proportions() {
    let users = mixed_users();
    let mixed = population(&users);
    // A user who cannot log in by the method looks like an unknown user, not like a user who can.
    let can = |method: Method, secret: &StoredSecret| {
        method != Method::Scram || !matches!(secret, StoredSecret::Md5(_))
    };
    for method in [Method::Md5, Method::Plain, Method::Scram] {
        let able = users.iter().filter(|secret| can(method, secret));
        let real = frequencies(&mixed, method, able.cloned().map(Account::Known));
        let unknown = frequencies(&mixed, method, std::iter::repeat_n(Account::Unknown, 3000));
        let kinds = |of: &BTreeMap<_, f64>| of.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(kinds(&real), kinds(&unknown), "{method:?}");
        assert!(real.len() >= 2, "{method:?} {real:?}");
        for (seen, often) in &real {
            // At most five times the standard deviation of 3000 draws.
            let difference = (often - unknown[seen]).abs();
            assert!(
                difference < 45.0,
                "{method:?} {seen:?} {often} {difference}"
            );
        }
    }
}

#[test]
fn sec_49_an_unknown_user_looks_the_same_each_time() {
    let mixed = population(&mixed_users());
    for method in [Method::Md5, Method::Plain, Method::Scram] {
        for number in 0..100_u32 {
            let user = number.to_be_bytes();
            let look = || {
                let mut cache = Cache::default();
                fingerprint(&mixed, method, &user, Account::Unknown, &mut cache)
            };
            assert_eq!(look(), look());
        }
    }
}

#[test]
fn sec_49_a_secret_that_cannot_log_in_looks_like_no_user() {
    let mixed = population(&mixed_users());
    let mut cache = Cache::default();
    let mut look =
        |method, user: &[u8], account| fingerprint(&mixed, method, user, account, &mut cache);
    for number in 0..100_u32 {
        let user = number.to_be_bytes();
        for method in [Method::Md5, Method::Plain, Method::Scram] {
            let unknown = look(method, &user, Account::Unknown);
            let empty = look(method, &user, Account::Known(StoredSecret::Empty));
            assert_eq!(unknown, empty, "{method:?}");
        }
        let unknown = look(Method::Scram, &user, Account::Unknown);
        let hash = StoredSecret::Md5(md5::hash(b"x", &user));
        assert_eq!(unknown, look(Method::Scram, &user, Account::Known(hash)));
    }
}

#[test]
fn sec_49_every_rejection_of_one_method_costs_the_same_keys() {
    let all_scram = population(&[any_verifier(ITERATIONS, 16)]);
    let all_plain = population(&[StoredSecret::Plain(Secret::from("x"))]);
    let both = population(&[
        any_verifier(ITERATIONS, 16),
        StoredSecret::Plain(Secret::from("x")),
    ]);
    let none = md5_population();
    let table = [
        (Method::Md5, &all_scram, 0),
        (Method::Md5, &both, 0),
        (Method::Plain, &all_scram, ITERATIONS),
        (Method::Plain, &both, ITERATIONS),
        (Method::Plain, &all_plain, 0),
        (Method::Scram, &all_scram, 0),
        (Method::Scram, &all_plain, ITERATIONS),
        (Method::Scram, &both, ITERATIONS),
        (Method::Scram, &none, 0),
    ];
    for (method, population, expected) in table {
        let lists = |kind: &str| match kind {
            "plain" => population.has_plain(),
            "scram" => population.has_scram(),
            _ => true,
        };
        for kind in ["unknown", "empty", "md5", "plain", "scram"] {
            if !lists(kind) {
                continue;
            }
            let account = match kind {
                "scram" => Account::Known(any_verifier(ITERATIONS, 16)),
                kind => account(kind, "pencil"),
            };
            // The second and third time, keys may come from the cache.
            let mut cache = Cache::default();
            for turn in 0..3 {
                let (_, work) = fingerprint(population, method, USER, account.clone(), &mut cache);
                assert_eq!(work, expected, "{method:?} {kind} {turn}");
            }
        }
    }
}

#[test]
fn sec_49_a_client_that_only_begins_makes_us_derive_nothing() {
    for kind in ["unknown", "plain", "scram"] {
        let (_, mut exchange) = asked(Method::Scram, account(kind, "pencil"));
        let body = initial_response(MECHANISM, b"n,,n=,r=abc");
        let progress = exchange.handle_response(&body);
        assert!(matches!(progress, Ok(Progress::Continue(_))));
    }
}

#[test]
fn sec_49_where_nothing_is_known_about_users_unknown_ones_are_asked_by_scram() {
    let nobody = Population::default();
    let mut cache = Cache::default();
    let seen = fingerprint(&nobody, Method::Md5, USER, Account::Unknown, &mut cache);
    assert_eq!(seen, ("sasl 26 salt characters, i=2".to_owned(), 0));
}

#[test]
fn sec_49_who_draws_what_depends_on_the_secret_of_the_process() {
    let mixed = population(&mixed_users());
    let drawn = |secret: u8| -> Vec<bool> {
        let secret = ServerSecret::new([secret; 32]);
        (0..200_u32)
            .map(|user| mixed.draws_scram(&secret, &user.to_be_bytes()))
            .collect()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn keys_from_a_cache_let_in_who_knows_the_password() {
    let (_, mut exchange) = asked(Method::Scram, account("plain", "pencil"));
    let nonce = Nonce::from_random([7; 18]);
    let mut client = ScramClient::with_password(Secret::from("pencil"), nonce);
    let body = initial_response(MECHANISM, &client.first_message().unwrap());
    let Ok(Progress::Continue(first)) = exchange.handle_response(&body) else {
        panic!("no server-first-message");
    };
    let Ok(Step::NeedKeys(request)) = client.handle_server_first(&first) else {
        panic!("server-first-message refused");
    };
    let last = client.provide_keys(&keys_for(&request)).unwrap();
    let Ok(Progress::NeedKdf(request)) = exchange.handle_response(&last) else {
        panic!("keys were not asked for");
    };
    let progress = exchange.provide_cached_keys(&keys_for(&request));
    assert!(matches!(progress, Ok(Progress::Accepted(_))));
}
