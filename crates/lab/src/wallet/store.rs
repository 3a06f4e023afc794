//! Databases of the e-wallet: a template that is filled once, and a copy of it for each cell.

use super::Wallet;
use crate::collector::psql::{Address, Psql};
use crate::error::{Error, Result};

/// Comment that marks a database as created by `weir tune`. Databases without it are never dropped.
const MARK: &str = "made by weir tune; may be dropped";

/// Template database and its working copy.
#[derive(Debug)]
pub struct Store {
    admin: Psql,
    address: Address,
    work: String,
    template: String,
}

impl Store {
    /// Creates and fills the template. `address` is that of a database from which others can be created, such as
    /// `postgres`; the user must be allowed to do so.
    ///
    /// # Errors
    /// The server refuses, or databases of these names exist without the mark.
    pub fn create(address: &Address, wallet: &Wallet) -> Result<Self> {
        let admin = Psql::connect(address)?;
        let mut store = Self {
            admin,
            address: address.clone(),
            work: "weir_tune".to_owned(),
            template: "weir_tune_template".to_owned(),
        };
        let template = store.template.clone();
        store.drop_ours(&template)?;
        // template1 may hold anything.
        store
            .admin
            .execute(&format!("CREATE DATABASE {template} TEMPLATE template0"))?;
        store.mark(&template)?;
        let mut psql = Psql::connect(&store.address.with_database(&template))?;
        wallet.fill(&mut psql)?;
        Ok(store)
    }

    /// Creates the working database anew from the template and returns its address. Connections to the old one are
    /// closed.
    ///
    /// # Errors
    /// The server refuses.
    pub fn restore(&mut self) -> Result<Address> {
        let (work, template) = (self.work.clone(), self.template.clone());
        self.drop_ours(&work)?;
        self.admin
            .execute(&format!("CREATE DATABASE {work} TEMPLATE {template}"))?;
        self.mark(&work)?;
        // Without this, the next checkpoint would fall into some measurements and not into others.
        super::checkpoint(&mut self.admin)?;
        Ok(self.address.with_database(&work))
    }

    /// Returns the name of the working database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.work
    }

    /// Drops both databases.
    ///
    /// # Errors
    /// The server refuses.
    pub fn remove(mut self) -> Result<()> {
        let (work, template) = (self.work.clone(), self.template.clone());
        self.drop_ours(&work)?;
        self.drop_ours(&template)
    }

    fn mark(&mut self, name: &str) -> Result<()> {
        let sql = format!("COMMENT ON DATABASE {name} IS '{MARK}'");
        self.admin.execute(&sql)
    }

    fn drop_ours(&mut self, name: &str) -> Result<()> {
        let sql = format!(
            "SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = '{name}'"
        );
        match self.admin.value(&sql)?.as_deref() {
            None => Ok(()),
            Some(MARK) => self
                .admin
                .execute(&format!("DROP DATABASE {name} WITH (FORCE)")),
            Some(_) => Err(Error::Unexpected {
                what: format!("the database {name}"),
                text: "it was not made by weir tune; rename it, or use another server".to_owned(),
            }),
        }
    }
}
