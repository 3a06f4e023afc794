//! How the clients of a measurement log in: in plain or over TLS, with or without a password.

use std::process::Command;

/// The password of every user of a measurement, on loopback and for minutes only.
pub const PASSWORD: &str = "weir-bench";

/// What clients bring along; all programs of PostgreSQL take it from their environment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// `sslmode=require`: encrypted, the certificate is not looked at.
    pub tls: bool,
    /// Offers [`PASSWORD`].
    pub password: bool,
}

impl Access {
    /// Sets libpq's variables (PostgreSQL manual, "Environment Variables" of libpq). Without TLS
    /// nothing is set: a server without TLS then costs one refused request per connection.
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
