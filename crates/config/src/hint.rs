//! Places that tell of failovers: elements of `failover_hints`, and the sources that they add up to.

use std::fmt;

use crate::options::Field;
use crate::point::HostPoint;
use crate::types::{HostAddr, Secret, enumeration};
use crate::value::Value;

enumeration! {
    /// Tool that tells of failovers.
    HintTool {
        /// REST interface of a Patroni node.
        #[default]
        Patroni = "patroni",
        /// etcd, in which Patroni keeps the name of the leader.
        Etcd = "etcd",
    }
}

/// An element of `failover_hints`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HintPoint {
    /// The tool; `None` = that of the element before.
    pub tool: Option<HintTool>,
    /// True for `https`.
    pub is_secure: bool,
    /// Host with a port. Never a unix socket.
    pub host: HostPoint,
    /// Path behind the port, which begins with `/`; empty if there is none.
    pub path: String,
}

/// Servers that tell of the same failovers. One of them is asked; the others replace it when it fails.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HintSource {
    /// The tool.
    pub tool: HintTool,
    /// Servers as `http://HOST:PORT` or `https://HOST:PORT`. At least one.
    pub servers: Vec<String>,
    /// Key of the leader in etcd, as `/service/main/leader`; empty for Patroni.
    pub key: String,
}

impl HintSource {
    /// True if a server is reached by `https`.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| server.starts_with("https:"))
    }
}

/// All that a database has set about hints of failovers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Places that tell of failovers.
    pub sources: Vec<HintSource>,
    /// User at these places; empty = none is named.
    pub user: String,
    /// Password of the user.
    pub password: Secret,
    /// Path of the CA certificates for places with `https`, or [`SYSTEM_ROOTS`](crate::SYSTEM_ROOTS).
    pub ca_file: String,
}

/// Maximum number of elements of a list.
const PLACES_MAX: usize = 32;
/// Longest path. Patroni's namespace and scope are words.
const PATH_MAX: usize = 255;

impl HintPoint {
    /// Parses `TOOL:http://HOST:PORT/PATH`, or with `https`. The tool and the path may be missing.
    ///
    /// # Errors
    /// Describes the mistake in the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str = "a place for hints must be patroni:http://HOST:PORT or etcd:http://HOST:PORT/NAMESPACE/SCOPE, \
                             such as patroni:http://10.0.0.1:8008 or etcd:http://10.0.0.1:2379/service/main";
        let mut tools = [HintTool::Patroni, HintTool::Etcd].into_iter();
        let named = tools.find_map(|tool| {
            let rest = text.strip_prefix(tool.as_str())?.strip_prefix(':')?;
            Some((tool, rest))
        });
        let (tool, url) = match named {
            Some((tool, url)) => (Some(tool), url),
            None => (None, text),
        };
        let (is_secure, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, url.strip_prefix("http://").ok_or(SHAPE)?),
        };
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if host.contains('@') {
            return Err(
                "a place for hints has no user: set failover_hints_user and failover_hints_password",
            );
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        let path = path.trim_end_matches('/');
        if path.len() > PATH_MAX || !path.bytes().all(is_plain) {
            return Err("the path of a place for hints has letters, digits, '-', '_', '.' and '/'");
        }
        let host = HostPoint::parse(host)?;
        let is_network = matches!(host.address, HostAddr::Name(_) | HostAddr::Ip(_));
        if !is_network || host.port.is_none() {
            return Err(SHAPE);
        }
        let path = path.to_owned();
        Ok(Self {
            tool,
            is_secure,
            host,
            path,
        })
    }
}

impl HintPoint {
    /// Returns the server, as `http://HOST:PORT`.
    fn server(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }
}

impl fmt::Display for HintPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tool) = self.tool {
            write!(f, "{tool}:")?;
        }
        write!(f, "{}{}", self.server(), self.path)
    }
}

impl Field for Vec<HintPoint> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items
                .iter()
                .filter_map(|item| HintPoint::parse(item).ok())
                .collect(),
            _ => Self::new(),
        }
    }
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(ToString::to_string).collect())
    }
}

/// Returns the sources that elements add up to: an element with a tool begins a source, those without one add servers.
///
/// # Errors
/// Describes the element that does not fit, for people to read.
pub(crate) fn sources(points: &[HintPoint]) -> Result<Vec<HintSource>, String> {
    if points.len() > PLACES_MAX {
        let count = points.len();
        return Err(format!(
            "names {count} places for hints: at most {PLACES_MAX} are possible"
        ));
    }
    let mut sources: Vec<HintSource> = Vec::new();
    for point in points {
        let server = point.server();
        let Some(tool) = point.tool else {
            let source = sources.last_mut().ok_or_else(|| {
                format!(
                    "names no tool for hints: write patroni:{point} or etcd:{point}/service/SCOPE"
                )
            })?;
            if !point.path.is_empty() && key(&point.path) != source.key {
                return Err(format!(
                    "has {point} behind another path: write {}:{point}, or remove the path",
                    source.tool
                ));
            }
            source.servers.push(server);
            continue;
        };
        let is_right = match tool {
            HintTool::Patroni => point.path.is_empty(),
            HintTool::Etcd => point.path.len() > 1,
        };
        if !is_right {
            let advice = match tool {
                HintTool::Patroni => "remove the path",
                HintTool::Etcd => "append Patroni's namespace and scope, such as /service/main",
            };
            return Err(format!("has {point}: {advice}"));
        }
        let key = match tool {
            HintTool::Patroni => String::new(),
            HintTool::Etcd => key(&point.path),
        };
        let servers = vec![server];
        sources.push(HintSource { tool, servers, key });
    }
    Ok(sources)
}

/// Returns the key of the leader below Patroni's namespace and scope.
fn key(path: &str) -> String {
    format!("{path}/leader")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<HintSource>, String> {
        let points = text.split(',').map(HintPoint::parse);
        let points: Vec<_> = points.collect::<Result<_, _>>().map_err(str::to_owned)?;
        for point in &points {
            assert_eq!(
                HintPoint::parse(&point.to_string()).as_ref(),
                Ok(point),
                "{text}"
            );
        }
        sources(&points)
    }

    fn source(tool: HintTool, servers: &[&str], key: &str) -> HintSource {
        HintSource {
            tool,
            servers: servers.iter().map(|&server| server.to_owned()).collect(),
            key: key.to_owned(),
        }
    }

    #[test]
    fn elements_add_up_to_sources() {
        use HintTool::{Etcd, Patroni};
        assert_eq!(
            read("patroni:http://10.0.0.1:8008/,http://[::1]:8008"),
            Ok(vec![source(
                Patroni,
                &["http://10.0.0.1:8008", "http://[::1]:8008"],
                ""
            )])
        );
        assert_eq!(
            read("etcd:http://e1:2379/service/main,https://e2:2379/service/main/,http://e3:2379"),
            Ok(vec![source(
                Etcd,
                &["http://e1:2379", "https://e2:2379", "http://e3:2379"],
                "/service/main/leader"
            )])
        );
        assert_eq!(
            read("patroni:http://db1:8008,etcd:http://e1:2379/db/a,etcd:http://e1:2379/db/b"),
            Ok(vec![
                source(Patroni, &["http://db1:8008"], ""),
                source(Etcd, &["http://e1:2379"], "/db/a/leader"),
                source(Etcd, &["http://e1:2379"], "/db/b/leader"),
            ])
        );
    }

    #[test]
    fn a_list_has_a_largest_length() {
        let list = |count: usize| vec!["patroni:http://db1:8008"; count].join(",");
        assert_eq!(read(&list(32)).unwrap().len(), 32);
        let refusal = read(&list(33)).unwrap_err();
        assert!(refusal.contains("at most 32"), "{refusal}");
    }

    #[test]
    fn elements_that_name_no_place_are_refused() {
        for (text, why) in [
            ("", "must be patroni:http://HOST:PORT"),
            ("db1:8008", "must be patroni:http://HOST:PORT"),
            ("consul:http://db1:8500", "must be patroni:http://HOST:PORT"),
            ("patroni:http://db1", "must be patroni:http://HOST:PORT"),
            ("patroni:http:///tmp:8008", "the path"),
            ("patroni:http://@tmp:8008", "has no user"),
            ("patroni:http://a:b@db1:8008", "set failover_hints_user"),
            ("patroni:ftp://db1:8008", "must be patroni:http://HOST:PORT"),
            ("patroni:http://db1:0", "a port must be"),
            ("patroni:http://db1:8008/a b", "the path"),
            ("patroni:http://db1:8008/a?b=%20", "the path"),
            ("http://db1:8008", "names no tool"),
            ("patroni:http://db1:8008/cluster", "remove the path"),
            ("patroni:http://db1:8008,http://db2:8008/x", "another path"),
            ("etcd:http://db1:2379", "namespace and scope"),
            (
                "etcd:http://db1:2379/a/b,http://db2:2379/a/c",
                "another path",
            ),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }
}
