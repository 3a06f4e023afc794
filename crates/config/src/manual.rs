//! Descriptions of one option in words and without markup, for manual pages and other lists.

use crate::options::Opt;
use crate::reference::values;
use crate::settings::{Format, default_of};

impl Opt {
    /// The default as weir.toml spells it; `None` if nothing is set by default or the option inherits.
    #[must_use]
    pub fn default_text(&self) -> Option<String> {
        self.default_native.or(self.default)?;
        Some(default_of(self, Format::Native).to_toml(self.kind))
    }

    /// Returns the values that the option accepts.
    #[must_use]
    pub fn values_text(&self) -> String {
        values(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::Scope;

    #[test]
    fn defaults_are_spelt_as_in_the_native_format() {
        let default = |name: &str| Scope::Global.find(name).unwrap().default_text();
        assert_eq!(default("listen_port").as_deref(), Some("6432"));
        assert_eq!(default("query_wait_timeout").as_deref(), Some("\"120s\""));
        assert_eq!(default("logfile").as_deref(), Some("\"\""));
        let inherited = Scope::Database.find("pool_mode").unwrap();
        assert_eq!(inherited.default_text(), None);
        assert_eq!(inherited.values_text(), "session, transaction, statement");
    }
}
