//! Warnings about secrets: files that all users can read (hazard SEC-48), and users whose secret is missing.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use weir_config::{FALLBACK, Loaded, Origin, Settings};
use weir_proxy::UserList;

/// Permission bits of users that are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// Files with secrets that all users of this machine can read or change: `auth_file`, and files of the configuration
/// that hold a password.
pub(crate) fn exposed_files(loaded: &Loaded) -> Vec<String> {
    let holds_secret = |key: &str| key.ends_with(".password") || key == "auth_ldap_options";
    let mut files: BTreeSet<String> = loaded
        .sources
        .iter()
        .filter(|(key, _)| holds_secret(key))
        .filter_map(|(_, origin)| match origin {
            Origin::File(path, _) => Some(path.to_string()),
            _ => None,
        })
        .collect();
    let settings = &loaded.settings;
    if !settings.global.auth_file.is_empty() && !settings.trust_loopback {
        files.insert(settings.global.auth_file.clone());
    }
    files
        .into_iter()
        .filter(|file| is_exposed(file))
        .map(|file| {
            format!(
                "{file}: holds secrets and is readable by everybody on this machine; chmod o= would do"
            )
        })
        .collect()
}

fn is_exposed(file: &str) -> bool {
    // An empty file holds no secret; /dev/null is the common one.
    fs::metadata(file).is_ok_and(|data| data.len() > 0 && data.permissions().mode() & OTHERS != 0)
}

/// Users that Weir itself logs in as and has no secret for. Only a warning, since the server may accept them without.
pub(crate) fn missing_from_auth_file(settings: &Settings, users: &UserList) -> Vec<String> {
    let mut missing = BTreeSet::new();
    let is_unknown = |user: &str| users.get(user.as_bytes()).is_none();
    for (name, entry) in &settings.databases {
        let lookup = if name == FALLBACK { "x" } else { name };
        let Some(lookup) = settings.auth_lookup(lookup) else {
            continue;
        };
        if is_unknown(&lookup.user) {
            missing.insert(format!(
                "auth_user \"{}\" is not in auth_file, so auth_query works only if the server asks for no password",
                lookup.user
            ));
        }
        // auth_query is for clients only, which is easily overlooked.
        if let Some(user) = &entry.user
            && entry.password.is_none()
            && !settings.global.auth_file.is_empty()
            && is_unknown(user)
        {
            missing.insert(format!(
                "database \"{name}\": the forced user \"{user}\" has no password and is not in auth_file; \
                 auth_query is not asked for it"
            ));
        }
    }
    missing.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn settings(text: &str) -> Settings {
        let mut read = |_: &Path| Ok(text.to_owned());
        weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty())
            .unwrap()
            .settings
    }

    #[test]
    fn users_that_weir_logs_in_as_are_looked_for() {
        let users = UserList::parse(b"\"known\" \"secret\"\n").unwrap();
        let settings = settings(
            "[databases]\na = host=h\nb = host=h user=known\nc = host=h user=gone\n\
             d = host=h user=gone password=p\n\
             [pgbouncer]\nauth_file=u\nauth_user=asker\n",
        );
        assert_eq!(
            missing_from_auth_file(&settings, &users),
            [
                "auth_user \"asker\" is not in auth_file, so auth_query works only if the server asks for no password",
                "database \"c\": the forced user \"gone\" has no password and is not in auth_file; \
                 auth_query is not asked for it",
            ]
        );
    }

    #[test]
    fn without_auth_query_there_is_nothing_to_say() {
        let users = UserList::parse(b"").unwrap();
        let settings = settings(
            "[databases]\nc = host=h user=gone\n[pgbouncer]\nauth_file=u\nauth_type=any\n",
        );
        assert!(missing_from_auth_file(&settings, &users).is_empty());
    }
}
