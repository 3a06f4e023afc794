//! Commands of the console whose answers the views show.

/// A `SHOW` command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    Clients,
    Databases,
    Diagnosis,
    Digests,
    Errors,
    ExtendedPools,
    Hosts,
    Pins,
    Pools,
    Servers,
    State,
    Stats,
    Version,
    Waits,
}

impl Question {
    /// Every question, for `--json` without a view.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 14] = [
        Self::Clients,
        Self::Databases,
        Self::Diagnosis,
        Self::Digests,
        Self::Errors,
        Self::ExtendedPools,
        Self::Hosts,
        Self::Pins,
        Self::Pools,
        Self::Servers,
        Self::State,
        Self::Stats,
        Self::Version,
        Self::Waits,
    ];

    /// Text to send.
    pub(crate) const fn sql(self) -> &'static str {
        match self {
            Self::Clients => "SHOW CLIENTS",
            Self::Databases => "SHOW DATABASES",
            Self::Diagnosis => "SHOW DIAGNOSIS",
            Self::Digests => "SHOW DIGESTS ORDER BY server_us LIMIT 200",
            Self::Errors => "SHOW ERRORS",
            Self::ExtendedPools => "SHOW EXTENDED POOLS",
            Self::Hosts => "SHOW HOSTS",
            Self::Pins => "SHOW PINS",
            Self::Pools => "SHOW POOLS",
            Self::Servers => "SHOW SERVERS",
            Self::State => "SHOW STATE",
            Self::Stats => "SHOW STATS",
            Self::Version => "SHOW VERSION",
            Self::Waits => "SHOW WAITS",
        }
    }

    /// Name of the table, for JSON and for messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Clients => "CLIENTS",
            Self::Databases => "DATABASES",
            Self::Diagnosis => "DIAGNOSIS",
            Self::Digests => "DIGESTS",
            Self::Errors => "ERRORS",
            Self::ExtendedPools => "EXTENDED POOLS",
            Self::Hosts => "HOSTS",
            Self::Pins => "PINS",
            Self::Pools => "POOLS",
            Self::Servers => "SERVERS",
            Self::State => "STATE",
            Self::Stats => "STATS",
            Self::Version => "VERSION",
            Self::Waits => "WAITS",
        }
    }
}
