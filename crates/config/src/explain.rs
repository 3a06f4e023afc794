//! Settings of one database and user, each with its source: the pool's entry, the user's entry, the database's entry, the global section,
//! the environment, or the default (`weir check --database`).

use crate::cluster::{Cluster, HostKey, OPTIONS};
use crate::convert::host_header;
use crate::load::Loaded;
use crate::options::{Host, Opt, Scope};
use crate::point::HostPoint;
use crate::settings::Settings;
use crate::value::Value;

/// User options that follow the user who logged in. The others follow the user on the server, which a database may
/// force. As in `Settings::pool`.
const OF_CLIENT: [&str; 6] = [
    "client_idle_timeout",
    "idle_transaction_timeout",
    "max_user_client_connections",
    "query_timeout",
    "statement_policy",
    "transaction_timeout",
];

/// An option as it applies to a pool.
struct Found {
    value: Value,
    /// Source of the value: the key of `Loaded::sources`, and its section in words.
    key: String,
    section: String,
}

/// Lists every option that a database or a user may set, with the value for this pair and its source, one per line in
/// the spelling of weir.toml. `None` if there is no such database. Secrets are `***`.
#[must_use]
pub fn pool_text(loaded: &Loaded, database: &str, user: &str) -> Option<String> {
    let settings = &loaded.settings;
    let pool = settings.pool(database, user)?;
    let entry = if pool.is_auto {
        crate::FALLBACK
    } else {
        database
    };
    let mut out = format!("# database {database:?}, user {user:?}");
    if pool.is_user_forced {
        out.push_str(&format!(", {:?} on the server", pool.user));
    }
    out.push('\n');
    let is_used = |opt: &&Opt| pool.cluster.is_some() || !OPTIONS.contains(&opt.name);
    for opt in options().filter(is_used) {
        let name = match opt.name {
            name if OF_CLIENT.contains(&name) => user,
            _ => &pool.user,
        };
        let found = pool_value(settings, [database, entry], name, opt)
            .or_else(|| user_value(settings, name, opt))
            .or_else(|| database_value(settings, entry, opt))
            .or_else(|| global_value(settings, opt));
        let line = match found {
            Some(found) => described(loaded, opt, &found),
            None if opt.name == "dbname" => {
                let value = Value::Text(pool.dbname.clone());
                format!("dbname = {}  # default", value.to_toml(opt.kind))
            }
            // Only users have it.
            None if opt.name == "statement_policy" => {
                let value = Value::Text(pool.statement_policy.to_string());
                format!("{} = {}  # default", opt.name, value.to_toml(opt.kind))
            }
            None => continue,
        };
        out.push_str(&line);
        out.push('\n');
    }
    if let Some(cluster) = &pool.cluster {
        out.push_str(&hosts_text(loaded, entry, cluster));
    }
    Some(out)
}

/// Lists the hosts of a cluster with their options, and the login that watches them.
fn hosts_text(loaded: &Loaded, entry: &str, cluster: &Cluster) -> String {
    let watch = &cluster.watch;
    let mut out = format!(
        "\n# hosts are watched as user {:?} in database {:?}\n",
        watch.user, watch.dbname
    );
    let settings = &loaded.settings;
    let port = settings.databases.get(entry).map_or(0, |entry| entry.port);
    for host in &cluster.hosts {
        let point = HostPoint {
            address: host.address.clone(),
            port: Some(host.port),
        };
        out.push_str(&format!("\n{}\n", host_header(entry, &point)));
        // The table may spell the host in another way.
        let mut tables = settings.hosts.get(entry).into_iter().flatten();
        let table = tables.find(|(point, _)| HostKey::of(point, port) == host.key());
        let key = table.map_or(&point, |(point, _)| point);
        let options = Host {
            role: host.role,
            weight: host.weight,
            az: host.az.clone(),
            reads: host.reads,
        };
        for (opt, value) in options.values() {
            let found = Found {
                value,
                key: format!("databases.{entry}.hosts.{key}.{}", opt.name),
                section: String::new(),
            };
            out.push_str(&described(loaded, opt, &found));
            out.push('\n');
        }
    }
    out
}

/// Returns the rows of both sections, each name once.
fn options() -> impl Iterator<Item = &'static Opt> {
    let databases = Scope::Database.options().iter();
    let users = Scope::User.options().iter();
    // Every option of `[pools]` is one of these.
    databases.chain(users.filter(|opt| Scope::Database.find(opt.name).is_none()))
}

fn of(values: Vec<(&'static Opt, Value)>, name: &str) -> Option<Value> {
    let mut values = values.into_iter();
    let (_, value) = values.find(|(opt, _)| opt.name == name)?;
    (value != Value::Unset).then_some(value)
}

/// Returns the value for this user, by the first of these names of the database that has an entry of the user.
fn pool_value(settings: &Settings, databases: [&str; 2], user: &str, opt: &Opt) -> Option<Found> {
    let mut entries = databases
        .into_iter()
        .filter_map(|name| Some((name, settings.pools.get(name)?.get(user)?)));
    let (name, entry) = entries.next()?;
    Some(Found {
        value: of(entry.values(), opt.name)?,
        key: format!("pools.{name}.{user}.{}", opt.name),
        section: format!("[pools] {name}/{user}"),
    })
}

fn user_value(settings: &Settings, user: &str, opt: &Opt) -> Option<Found> {
    // `user` and `password` are not options of a user; only `[databases]` has them.
    let entry = settings.users.get(user)?;
    Some(Found {
        value: of(entry.values(), opt.name)?,
        key: format!("users.{user}.{}", opt.name),
        section: format!("[users] {user}"),
    })
}

fn database_value(settings: &Settings, name: &str, opt: &Opt) -> Option<Found> {
    let entry = settings.databases.get(name)?;
    Some(Found {
        value: of(entry.values(), opt.name)?,
        key: format!("databases.{name}.{}", opt.name),
        section: format!("[databases] {name}"),
    })
}

fn global_value(settings: &Settings, opt: &Opt) -> Option<Found> {
    let name = match opt.name {
        // The only option with another name in the global section; `user` means something else there.
        "pool_size" => "default_pool_size",
        "user" => return None,
        name => name,
    };
    Scope::Global.find(name)?;
    let (_, value) = settings
        .global
        .values()
        .into_iter()
        .find(|(opt, _)| opt.name == name)?;
    Some(Found {
        value,
        key: name.to_owned(),
        section: name.to_owned(),
    })
}

fn described(loaded: &Loaded, opt: &Opt, found: &Found) -> String {
    let place = match loaded.sources.get(&found.key) {
        Some(origin) => format!("{origin} {}", found.section),
        None => "default".to_owned(),
    };
    // A path may hold any character, even a line end.
    let place: String = place.chars().filter(|c| !c.is_control()).collect();
    format!(
        "{} = {}  # {}",
        opt.name,
        found.value.to_toml(opt.kind),
        place.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::UserSettings;

    #[test]
    fn options_of_the_client_are_options_of_users() {
        for name in OF_CLIENT {
            assert!(Scope::User.find(name).is_some(), "{name}");
        }
    }

    /// Sets each option for one pool only, and compares the settings in which it takes effect.
    #[test]
    fn each_option_of_a_pool_comes_before_that_of_its_user() {
        for opt in Scope::Pool.options() {
            let (one, other) = match opt.kind {
                crate::Kind::Enum(_) => ("transaction", "statement"),
                _ => ("77", "78"),
            };
            let is_of_users = Scope::User.find(opt.name).is_some();
            let users = match is_of_users {
                true => format!("client = {0}={one}\nserver = {0}={one}", opt.name),
                false => "\n".to_owned(),
            };
            for user in ["client", "server"] {
                let ini = format!(
                    "[databases]\na = host=h user=server\n[users]\n{users}\n[pools]\na/{user} = {}={other}\n\
                     [pgbouncer]\nauth_file=u\npool_mode=transaction\n",
                    opt.name
                );
                let mut read = |_: &std::path::Path| Ok(ini.clone());
                let path = std::path::Path::new("a.ini");
                let loaded = crate::load(path, &mut read, std::iter::empty()).unwrap();
                let with = loaded.settings.pool("a", "client").unwrap();
                let mut without = loaded.settings.clone();
                without.pools.clear();
                let is_in_force = with != without.pool("a", "client").unwrap();
                let text = pool_text(&loaded, "a", "client").unwrap();
                let line = text
                    .lines()
                    .find(|line| line.starts_with(&format!("{} = ", opt.name)));
                let says =
                    line.is_some_and(|line| line.ends_with(&format!("# a.ini:7 [pools] a/{user}")));
                assert_eq!(says, is_in_force, "{} of {user}: {line:?}", opt.name);
            }
        }
    }

    /// Sets each option for one user only, and compares the settings in which it takes effect.
    #[test]
    fn each_option_follows_the_user_that_it_follows_in_force() {
        for opt in Scope::User.options() {
            let value = match opt.kind {
                // Needs a list.
                _ if opt.name == "statement_policy" => "warn",
                crate::Kind::Enum(words) => words.last().copied().unwrap_or_default(),
                _ => "77",
            };
            for user in ["client", "server"] {
                let ini = format!(
                    "[databases]\na = host=h user=server replicas=r\n[users]\n{user} = {}={value}\n\
                     [pgbouncer]\nauth_file=u\npool_mode=transaction\n",
                    opt.name
                );
                let mut read = |_: &std::path::Path| Ok(ini.clone());
                let path = std::path::Path::new("a.ini");
                let loaded = crate::load(path, &mut read, std::iter::empty()).unwrap();
                let with = loaded.settings.pool("a", "client").unwrap();
                let mut without = loaded.settings.clone();
                let none = UserSettings::from_values(&|_| Value::Unset);
                without.users.insert(user.to_owned(), none);
                let is_in_force = with != without.pool("a", "client").unwrap();
                let text = pool_text(&loaded, "a", "client").unwrap();
                let line = text
                    .lines()
                    .find(|line| line.starts_with(&format!("{} = ", opt.name)))
                    .unwrap_or_else(|| panic!("{} is missing: {text}", opt.name));
                let says = line.ends_with(&format!("# a.ini:4 [users] {user}"));
                assert_eq!(says, is_in_force, "{} of {user}: {line}", opt.name);
            }
        }
    }
}
