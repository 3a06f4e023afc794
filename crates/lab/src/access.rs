//! Login settings of the clients in a measurement: plain or TLS, with or without a password.

use std::process::Command;

/// The password of every user of a measurement, on loopback and for minutes only.
pub const PASSWORD: &str = "weir-bench";

/// Login settings of clients. All programs of PostgreSQL read them from their environment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// True for `sslmode=require`: the connection is encrypted, the certificate is not checked.
    pub tls: bool,
    /// True if clients offer [`PASSWORD`].
    pub password: bool,
}

impl Access {
    /// Sets libpq's variables (PostgreSQL manual, "Environment Variables" of libpq). Without TLS,
    /// `PGSSLMODE` stays unset: libpq then asks for TLS first, which costs one refused request per
    /// connection at a server without TLS.
    pub fn apply(&self, command: &mut Command) {
        if self.tls {
            command.env("PGSSLMODE", "require");
        }
        if self.password {
            command.env("PGPASSWORD", PASSWORD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_set() {
        let mut command = Command::new("true");
        Access::default().apply(&mut command);
        assert_eq!(command.get_envs().count(), 0);
        let access = Access {
            tls: true,
            password: false,
        };
        access.apply(&mut command);
        let set: Vec<_> = command.get_envs().collect();
        assert_eq!(set, [("PGSSLMODE".as_ref(), Some("require".as_ref()))]);
    }
}
