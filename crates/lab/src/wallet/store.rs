//! The databases: one that is filled once, and a copy of it for each cell.

use super::Wallet;
use crate::collector::psql::{Address, Psql};
use crate::error::{Error, Result};

/// What marks a database as ours, as its comment. Without it we drop nothing.
const MARK: &str = "made by weir tune; may be dropped";

/// The template and the copy that is worked on.
#[derive(Debug)]
pub struct Store {
    admin: Psql,
    address: Address,
    work: String,
    template: String,
}

impl Store {
    /// Makes and fills the template. `address` is of a database from which others can be made, such as `postgres`;
    /// the user must be allowed to.
    ///
    /// # Errors
    /// The server refuses, or has databases of these names that are not ours.
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
        // Not from template1, which may hold anything.
        store
            .admin
            .execute(&format!("CREATE DATABASE {template} TEMPLATE template0"))?;
        store.mark(&template)?;
        let mut psql = Psql::connect(&store.address.with_database(&template))?;
        wallet.fill(&mut psql)?;
        Ok(store)
    }

    /// Makes the working database anew out of the template, and says where it is. Whoever is connected to the old one
    /// is thrown out.
    ///
    /// # Errors
    /// The server refuses.
    pub fn restore(&mut self) -> Result<Address> {
        let (work, template) = (self.work.clone(), self.template.clone());
        self.drop_ours(&work)?;
        self.admin
            .execute(&format!("CREATE DATABASE {work} TEMPLATE {template}"))?;
        self.mark(&work)?;
        // Else the next checkpoint would fall into one measurement and not into another.
        super::checkpoint(&mut self.admin)?;
        Ok(self.address.with_database(&work))
    }

    /// What the working database is called.
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
