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
        /// Table `repmgr.nodes` of a repmgr cluster.
        Repmgr = "repmgr",
        /// Monitor of pg_auto_failover.
        AutoFailover = "pg_auto_failover",
    }
}

impl HintTool {
    const ALL: [Self; 4] = [Self::Patroni, Self::Etcd, Self::Repmgr, Self::AutoFailover];

    /// True if the tool keeps its state in a PostgreSQL database.
    #[must_use]
    pub const fn is_sql(self) -> bool {
        matches!(self, Self::Repmgr | Self::AutoFailover)
    }

    /// Returns an element for this tool, for advice.
    const fn example(self) -> &'static str {
        match self {
            Self::Patroni => "patroni:http://HOST:PORT",
            Self::Etcd => "etcd:http://HOST:PORT/NAMESPACE/SCOPE",
            Self::Repmgr => "repmgr:postgresql://HOST:PORT/DATABASE",
            Self::AutoFailover => "pg_auto_failover:postgresql://HOST:PORT/DATABASE",
        }
    }
}

/// Protocol of a place that tells of failovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HintScheme {
    /// `http`.
    Http,
    /// `https`.
    Https,
    /// `postgresql`, without TLS.
    Postgresql,
}

impl HintScheme {
    /// Splits the scheme from a URL.
    fn split(url: &str) -> Option<(Self, &str)> {
        let schemes = [
            ("http", Self::Http),
            ("https", Self::Https),
            ("postgresql", Self::Postgresql),
            ("postgres", Self::Postgresql),
        ];
        let (name, rest) = url.split_once("://")?;
        let mut schemes = schemes.into_iter();
        let (_, scheme) = schemes.find(|(known, _)| *known == name)?;
        Some((scheme, rest))
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Postgresql => "postgresql",
        }
    }

    fn is_sql(self) -> bool {
        self == Self::Postgresql
    }
}

/// An element of `failover_hints`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HintPoint {
    /// The tool; `None` = that of the element before.
    pub tool: Option<HintTool>,
    /// Protocol of the server.
    pub scheme: HintScheme,
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
    /// Servers as `SCHEME://HOST:PORT`, with `http`, `https` or `postgresql`. At least one.
    pub servers: Vec<String>,
    /// Place of the state: in etcd the key of the leader, as `/service/main/leader`; for repmgr the name of the database;
    /// for pg_auto_failover `DATABASE/FORMATION/GROUP`; empty for Patroni.
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
/// Longest path. Patroni's namespace and scope are words, and so are names of databases and formations.
const PATH_MAX: usize = 255;
/// Formation of pg_auto_failover unless the path names one.
const FORMATION: &str = "default";
/// Group of pg_auto_failover unless the path names one.
const GROUP: &str = "0";

impl HintPoint {
    /// Parses `TOOL:SCHEME://HOST:PORT/PATH`. The tool and the path may be missing.
    ///
    /// # Errors
    /// Describes the mistake in the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str = "a place for hints must be patroni:http://HOST:PORT, etcd:http://HOST:PORT/NAMESPACE/SCOPE, \
                             repmgr:postgresql://HOST:PORT/DATABASE or pg_auto_failover:postgresql://HOST:PORT/DATABASE, \
                             such as patroni:http://10.0.0.1:8008 or etcd:http://10.0.0.1:2379/service/main";
        let mut tools = HintTool::ALL.into_iter();
        let named = tools.find_map(|tool| {
            let rest = text.strip_prefix(tool.as_str())?.strip_prefix(':')?;
            Some((tool, rest))
        });
        let (tool, url) = match named {
            Some((tool, url)) => (Some(tool), url),
            None => (None, text),
        };
        let (scheme, rest) = HintScheme::split(url).ok_or(SHAPE)?;
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
            scheme,
            host,
            path,
        })
    }
}

impl HintPoint {
    /// Returns the server, as `http://HOST:PORT`.
    fn server(&self) -> String {
        format!("{}://{}", self.scheme.as_str(), self.host)
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
            let source = sources.last_mut().ok_or_else(|| without_tool(point))?;
            check_next(point, source)?;
            source.servers.push(server);
            continue;
        };
        let key = key(tool, point).map_err(|advice| format!("has {point}: {advice}"))?;
        let servers = vec![server];
        sources.push(HintSource { tool, servers, key });
    }
    Ok(sources)
}

/// Describes a first element that names no tool.
fn without_tool(point: &HintPoint) -> String {
    let advice = match (point.scheme.is_sql(), &*point.path) {
        (false, _) => format!("write patroni:{point} or etcd:{point}/service/SCOPE"),
        (true, "") => {
            format!("write repmgr:{point}/DATABASE or pg_auto_failover:{point}/DATABASE")
        }
        (true, _) => format!("write repmgr:{point} or pg_auto_failover:{point}"),
    };
    format!("names no tool for hints: {advice}")
}

/// Checks that an element without a tool may be one more server of this source.
fn check_next(point: &HintPoint, source: &HintSource) -> Result<(), String> {
    let tool = source.tool;
    if point.scheme.is_sql() != tool.is_sql() {
        let example = tool.example();
        return Err(format!(
            "has {point} behind a place of {tool}, which is read as {example}: name the tool of {point}"
        ));
    }
    if !point.path.is_empty() && key(tool, point).as_ref() != Ok(&source.key) {
        return Err(format!(
            "has {point} behind another path: write {tool}:{point}, or remove the path"
        ));
    }
    Ok(())
}

/// Returns the place of a tool's state, as [`HintSource::key`] has it.
///
/// # Errors
/// Advice to those who wrote the element.
fn key(tool: HintTool, point: &HintPoint) -> Result<String, String> {
    if point.scheme.is_sql() != tool.is_sql() {
        return Err(format!("write {}", tool.example()));
    }
    let path = point.path.trim_start_matches('/');
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match (tool, &*parts) {
        (HintTool::Patroni, []) => Ok(String::new()),
        (HintTool::Patroni, _) => Err("remove the path".to_owned()),
        (HintTool::Etcd, []) => {
            Err("append Patroni's namespace and scope, such as /service/main".to_owned())
        }
        (HintTool::Etcd, _) => Ok(format!("{}/leader", point.path)),
        (HintTool::Repmgr | HintTool::AutoFailover, []) => {
            Err(format!("append the name of the database, such as /{tool}"))
        }
        (HintTool::Repmgr, [database]) => Ok((*database).to_owned()),
        (HintTool::Repmgr, _) => Err("only the name of a database may follow the port".to_owned()),
        (HintTool::AutoFailover, [database, rest @ ..]) => {
            let (formation, group) = match rest {
                [] => (FORMATION, GROUP),
                [formation] => (*formation, GROUP),
                [formation, group] if group.parse::<u16>().is_ok() => (*formation, *group),
                _ => {
                    return Err(
                        "write /DATABASE, or /DATABASE/FORMATION/GROUP with the number of the group"
                            .to_owned(),
                    );
                }
            };
            Ok(format!("{database}/{formation}/{group}"))
        }
    }
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
    fn databases_of_tools_are_places_too() {
        use HintTool::{AutoFailover, Repmgr};
        assert_eq!(
            read(
                "repmgr:postgresql://db1:5432/repmgr,postgres://db2:5432,postgresql://[::1]:5432/repmgr/"
            ),
            Ok(vec![source(
                Repmgr,
                &[
                    "postgresql://db1:5432",
                    "postgresql://db2:5432",
                    "postgresql://[::1]:5432"
                ],
                "repmgr"
            )])
        );
        for (path, key) in [
            ("/pg_auto_failover", "pg_auto_failover/default/0"),
            ("/m/sales", "m/sales/0"),
            ("/m/default/2", "m/default/2"),
        ] {
            assert_eq!(
                read(&format!(
                    "pg_auto_failover:postgresql://10.0.0.9:5000{path}"
                )),
                Ok(vec![source(
                    AutoFailover,
                    &["postgresql://10.0.0.9:5000"],
                    key
                )])
            );
        }
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
            ("patroni:postgresql://db1:8008", "write patroni:http://"),
            ("repmgr:http://db1:5432/a", "write repmgr:postgresql://"),
            ("repmgr:postgresql://db1/repmgr", "must be patroni:"),
            ("repmgr:postgresqls://db1:5432/repmgr", "must be patroni:"),
            ("repmgr:postgresql://db1:5432", "such as /repmgr"),
            ("repmgr:postgresql://db1:5432/a/b", "only the name"),
            (
                "repmgr:postgresql://db1:5432/a,postgresql://db2:5432/b",
                "another path",
            ),
            (
                "repmgr:postgresql://db1:5432/a,http://db2:8008",
                "name the tool of http://db2:8008",
            ),
            (
                "postgresql://db1:5432/a",
                "write repmgr:postgresql://db1:5432/a or",
            ),
            (
                "postgresql://db1:5432",
                "write repmgr:postgresql://db1:5432/DATABASE",
            ),
            (
                "repmgr:postgresql://u:p@db1:5432/a",
                "set failover_hints_user",
            ),
            (
                "pg_auto_failover:postgresql://m:5432",
                "such as /pg_auto_failover",
            ),
            (
                "pg_auto_failover:postgresql://m:5432/a/b/c",
                "number of the group",
            ),
            (
                "pg_auto_failover:postgresql://m:5432/a/b/0/1",
                "number of the group",
            ),
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
