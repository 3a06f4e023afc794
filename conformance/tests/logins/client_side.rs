//! Clients that log in to Weir: every `auth_type` with every kind of secret, and every kind of refusal.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::raw::Message;

use crate::support::PASSWORD;
use crate::support::attempt;
use crate::support::begin;
use crate::support::inside;
use crate::support::outside;
use crate::support::password;
use crate::support::scram_first;

/// Error text for a wrong password, by method.
fn wrong(auth_type: &str) -> &'static str {
    match auth_type {
        "plain" | "scram-sha-256" => "password authentication failed for user",
        // Depends on the kind of the stored secret.
        _ => " authentication failed",
    }
}

/// Starts with three users that have the same password, stored in three ways, and a server that trusts everybody.
fn start(auth_type: &str) -> Result<(std::sync::Arc<Postgres>, Weir)> {
    let postgres = Postgres::shared()?;
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    let hash = raw.query_one(&format!("select 'md5' || md5('{PASSWORD}hashed')"))?;
    // One role per test, because tests run side by side.
    let role = format!("keeper_{}", auth_type.replace('-', "_"));
    raw.query(&format!("drop role if exists {role}"))?;
    raw.query(&format!(
        "set password_encryption = 'scram-sha-256'; create role {role} password '{PASSWORD}'"
    ))?;
    let verifier = raw.query_one(&format!(
        "select rolpassword from pg_authid where rolname = '{role}'"
    ))?;
    raw.query(&format!("drop role {role}"))?;
    let users = format!(
        "\"plain\" \"{PASSWORD}\"\n\"hashed\" \"{hash}\"\n\"scram\" \"{verifier}\"\n\"empty\" \"\"\n"
    );
    // `shop` is the only database; its forced user exists on the server.
    let shop = format!(
        "shop = host=127.0.0.1 port={} dbname=postgres user=postgres",
        postgres.port()
    );
    let config = Config::new().database(&shop).userlist(&users);
    let weir = Weir::start(&config.set("auth_type", auth_type))?;
    Ok((postgres, weir))
}

/// Checks the right, a wrong, an empty and no password of each user; `works` names the users that the right one
/// lets in.
fn check_passwords(auth_type: &str, works: &[&str]) -> Result<()> {
    let (_postgres, mut weir) = start(auth_type)?;
    for user in ["plain", "hashed", "scram", "empty", "nobody"] {
        let what = format!("{auth_type}, {user}");
        let right = attempt(weir.port(), user, Some(PASSWORD), "shop")?;
        if works.contains(&user) {
            inside(&what, &right)?;
        } else {
            outside(&what, &right, wrong(auth_type))?;
        }
        let refused = attempt(weir.port(), user, Some("incorrect horse"), "shop")?;
        outside(
            &format!("{what}, wrong password"),
            &refused,
            wrong(auth_type),
        )?;
        let none = attempt(weir.port(), user, None, "shop")?;
        outside(
            &format!("{what}, no password"),
            &none,
            "no password supplied",
        )?;
    }
    // The name of the database does not reveal which users exist.
    let refused = attempt(weir.port(), "plain", Some("incorrect horse"), "nowhere")?;
    outside("wrong password, no database", &refused, wrong(auth_type))?;
    if works.contains(&"plain") {
        let refused = attempt(weir.port(), "plain", Some(PASSWORD), "nowhere")?;
        outside(
            "no database",
            &refused,
            "database \"nowhere\" does not exist",
        )?;
    }
    weir.check_healthy()
}

#[test]
fn plain_takes_every_kind_of_secret() -> Result<()> {
    check_passwords("plain", &["plain", "hashed", "scram"])
}

#[test]
fn md5_takes_plain_and_md5_secrets_and_switches_to_scram_by_itself() -> Result<()> {
    check_passwords("md5", &["plain", "hashed", "scram"])
}

#[test]
fn scram_takes_plain_secrets_and_verifiers_and_no_md5() -> Result<()> {
    check_passwords("scram-sha-256", &["plain", "scram"])
}

#[test]
fn md5_asks_a_user_with_a_verifier_for_scram() -> Result<()> {
    let (_postgres, weir) = start("md5")?;
    // An unknown user is asked like one of the known users, selected at random (hazard SEC-49).
    for (user, kinds) in [
        ("plain", &[5][..]),
        ("hashed", &[5]),
        ("scram", &[10]),
        ("nobody", &[5, 10]),
    ] {
        let (_raw, asked) = begin(weir.port(), user, "shop")?;
        let kind = asked.body.get(3).copied().unwrap_or_default();
        ensure!(
            asked.tag == b'R' && kinds.contains(&kind),
            "{user} was asked {asked:?}"
        );
    }
    Ok(())
}

#[test]
fn trust_lets_in_whom_it_knows_and_asks_nothing() -> Result<()> {
    let (_postgres, weir) = start("trust")?;
    for user in ["plain", "hashed", "scram", "empty"] {
        inside(user, &attempt(weir.port(), user, None, "shop")?)?;
    }
    let refused = attempt(weir.port(), "nobody", None, "shop")?;
    outside(
        "an unknown user",
        &refused,
        "\"trust\" authentication failed",
    )?;
    let refused = attempt(weir.port(), "plain", None, "nowhere")?;
    outside(
        "no database",
        &refused,
        "database \"nowhere\" does not exist",
    )
}

#[test]
fn any_lets_in_everybody_where_the_user_is_forced() -> Result<()> {
    let postgres = Postgres::shared()?;
    let forced = format!(
        "shop = host=127.0.0.1 port={} dbname=postgres user=postgres",
        postgres.port()
    );
    let open = format!(
        "open = host=127.0.0.1 port={} dbname=postgres",
        postgres.port()
    );
    let weir = Weir::start(&Config::new().database(&forced).set("auth_type", "any"))?;
    let output = attempt(weir.port(), "whoever", None, "shop")?;
    ensure!(output.contains("inside as postgres"), "{output}");
    drop(weir);
    // Without a forced user, clients could use any server user: refused at the start or at the login.
    let config = Config::new().database(&forced).database(&open);
    let mut weir = Weir::spawn(
        &config.set("auth_type", "any"),
        weir_conformance::tools::free_port()?,
    )?;
    if weir.wait_log("process up").is_err() {
        let status = weir.wait_exit(crate::support::PATIENCE)?;
        ensure!(status.code() == Some(1), "{status}: {}", weir.log());
        return Ok(());
    }
    let refused = attempt(weir.port(), "whoever", None, "open")?;
    outside("no forced user", &refused, "bouncer config error")
}

/// Logs in with a wrong proof; returns all messages, without numbers that must differ.
fn observe(weir: &Weir, user: &str, method: u8) -> Result<Vec<Message>> {
    let (mut raw, asked) = begin(weir.port(), user, "shop")?;
    let kind = asked.body.get(3).copied();
    ensure!(kind == Some(method), "{user} was asked {asked:?}");
    let mut seen = vec![Message {
        tag: asked.tag,
        // The salt of md5 is random.
        body: asked.body.iter().copied().take(4).collect(),
    }];
    if method == 10 {
        raw.send(&scram_first("abcdefghijklmnop"))?;
        let first = raw.read_message()?;
        let text = String::from_utf8(first.body.get(4..).unwrap_or_default().to_vec())?;
        let nonce = text.split(',').next().context("no nonce")?;
        ensure!(nonce.starts_with("r=abcdefghijklmnop"), "{text}");
        let proof = "A".repeat(43);
        let last = format!("c=biws,{nonce},p={proof}=");
        raw.send(&frontend::message(b'p', last.as_bytes()))?;
        // Lengths and iterations stay; the values of nonce and salt are removed.
        let shape = text
            .split(',')
            .map(|part| match part.as_bytes().first() {
                Some(b'i') => part.to_owned(),
                _ => part.len().to_string(),
            })
            .collect::<Vec<_>>();
        seen.push(Message {
            tag: first.tag,
            body: shape.join(",").into_bytes(),
        });
    } else {
        raw.send(&password("md50123456789abcdef0123456789abcdef"))?;
    }
    seen.extend(raw.read_until_ready()?);
    ensure!(raw.read_to_close()?.is_empty(), "{user}: more after FATAL");
    Ok(seen)
}

#[test]
fn an_unknown_user_looks_like_a_wrong_password() -> Result<()> {
    for (auth_type, method) in [("plain", 3), ("md5", 5), ("scram-sha-256", 10)] {
        // Roles other than those of the tests above.
        let (_postgres, weir) = start_for_observer(auth_type)?;
        let known = observe(&weir, "plain", method)?;
        let last = known.last().map(Message::error);
        let known = without_user(&known, "plain");
        let words = "password authentication failed";
        ensure!(
            last.is_some_and(|last| last == format!("FATAL 28P01 {words} for user \"plain\"")),
            "{auth_type}: {known:?}"
        );
        for user in ["nobody", "hashed", "empty"] {
            let other = without_user(&observe(&weir, user, method)?, user);
            ensure!(
                known == other,
                "{auth_type}: {user} can be told apart\n{known:?}\n{other:?}"
            );
        }
    }
    Ok(())
}

/// Describes messages without the name of the user.
fn without_user(messages: &[Message], user: &str) -> Vec<String> {
    let told = |message: &Message| match message.tag {
        b'E' => message.error().replace(&format!("\"{user}\""), "the user"),
        _ => format!("{message:?}"),
    };
    messages.iter().map(told).collect()
}

/// Starts like [`start`], without a verifier.
fn start_for_observer(auth_type: &str) -> Result<(std::sync::Arc<Postgres>, Weir)> {
    let postgres = Postgres::shared()?;
    let shop = format!(
        "shop = host=127.0.0.1 port={} user=postgres",
        postgres.port()
    );
    let users = "\"plain\" \"secret\"\n\"hashed\" \"md50123456789abcdef0123456789abcdee\"\n\"empty\" \"\"\n";
    let config = Config::new().database(&shop).userlist(users);
    let weir = Weir::start(&config.set("auth_type", auth_type))?;
    Ok((postgres, weir))
}

#[test]
fn the_salt_of_an_unknown_user_is_as_steady_as_a_known_ones() -> Result<()> {
    let (_postgres, weir) = start_for_observer("scram-sha-256")?;
    let salt = |user: &str| -> Result<String> {
        let (mut raw, _) = begin(weir.port(), user, "shop")?;
        raw.send(&scram_first("abcdefghijklmnop"))?;
        let text = raw.read_message()?.body;
        let text = String::from_utf8(text.get(4..).unwrap_or_default().to_vec())?;
        let salt = text.split(',').find(|part| part.starts_with("s="));
        Ok(salt.context("no salt")?.to_owned())
    };
    for user in ["plain", "nobody"] {
        ensure!(salt(user)? == salt(user)?, "the salt of {user} changes");
    }
    ensure!(
        salt("nobody")? != salt("noone")?,
        "one salt for all strangers"
    );
    Ok(())
}

#[test]
fn an_empty_password_is_refused_in_every_method() -> Result<()> {
    for (auth_type, method) in [("plain", 3), ("md5", 5)] {
        let (_postgres, weir) = start_for_observer(auth_type)?;
        for user in ["plain", "empty", "nobody"] {
            let (mut raw, asked) = begin(weir.port(), user, "shop")?;
            ensure!(asked.body.get(3) == Some(&method), "{asked:?}");
            raw.send(&password(""))?;
            let words = raw.read_until_ready()?;
            let code = words.last().and_then(|word| word.field(b'C'));
            ensure!(
                words.len() == 1 && code.is_some_and(|code| code == "28P01" || code == "08P01"),
                "{auth_type}, {user}: {words:?}"
            );
        }
    }
    Ok(())
}
