//! Whether whoever is logged in may run a statement.
//!
//! ```text
//!   execute ─▶ nothing is asked of anybody? ─▶ this user was let through at these roles? ─▶ look at the roles, and remember
//! ```
//! Roles have a number on each shard, which is another one whenever they change. A statement remembers the users that were let through, and
//! the number it was at: an execution compares that number and a name. A refusal is not remembered.

use crate::engine::Engine;
use crate::error::Error;
use crate::permission;
use crate::statement::Analysed;
use cluster::{Permissions, Resource, Roles};
use cql::{ModifyPlan, Plan, SchemaChange};
use std::sync::Arc;

impl Engine {
    /// Refuses a statement that `user` may not run. Statements about roles are refused where they are decided.
    #[inline]
    pub(crate) fn authorize(&self, analysed: &Analysed, user: Option<&str>) -> Result<(), Error> {
        if !self.settings.authorization.is_on() {
            return Ok(());
        }
        let user = user.ok_or_else(|| Error::Unauthorized("You have not logged in".into()))?;
        let at = self.roles_number();
        if analysed.allowed.has(at, user) {
            return Ok(());
        }
        self.look_up(&analysed.plan, user)?;
        analysed.allowed.add(at, user);
        Ok(())
    }

    #[cold]
    fn look_up(&self, plan: &Plan, user: &str) -> Result<(), Error> {
        let roles = self.roles_in_force()?;
        self.refuse_datacenter(&roles, user)?;
        if !self.settings.authorization.by_permissions {
            return Ok(());
        }
        match plan {
            Plan::Select(plan) => permission::ensure_rows(&roles, user, Permissions::SELECT, plan.table()),
            Plan::Modify(plan) => ensure_write(&roles, user, plan),
            Plan::Batch(plan) => plan.statements.iter().try_for_each(|part| ensure_write(&roles, user, part)),
            Plan::Truncate { keyspace, table } => {
                let on = Resource::Table(keyspace.clone(), table.clone());
                permission::ensure(&roles, user, Permissions::MODIFY, &on)
            }
            Plan::SchemaChange(change) => permission::ensure_change(&roles, user, change),
            // Whoever is logged in may see the schema.
            Plan::Use { .. } | Plan::Describe(_) | Plan::Role(_) => Ok(()),
        }
    }

    /// Refuses a text that cannot be run for what `user` may not do, where Cassandra says that first: who may not make an index is not told whether
    /// there is a table.
    pub(crate) fn authorize_refused(
        &self,
        keyspace: Option<&str>,
        text: &str,
        user: Option<&str>,
    ) -> Result<(), Error> {
        let Some(user) = user.filter(|_| self.settings.authorization.by_permissions) else { return Ok(()) };
        let Ok(statement) = cql::parse(text) else { return Ok(()) };
        match SchemaChange::not_made_yet(statement, keyspace) {
            Some(change) => permission::ensure_change(&*self.roles_in_force()?, user, &change),
            None => Ok(()),
        }
    }

    /// Refuses a user who has no access to this node's datacenter.
    pub(crate) fn refuse_datacenter(&self, roles: &Roles, user: &str) -> Result<(), Error> {
        if !self.settings.authorization.by_datacenter {
            return Ok(());
        }
        let snapshot = self.coordinator.topology();
        let here = &snapshot.local().dc;
        match roles.datacenters_of(user) {
            Some(named) if !named.contains(here) => {
                Err(Error::Unauthorized(format!("You do not have access to this datacenter ({here})")))
            }
            _ => Ok(()),
        }
    }

    /// The roles that statements are judged by.
    fn roles_in_force(&self) -> Result<Arc<Roles>, Error> {
        let known = self.shared_roles().or_else(|| self.own_roles());
        known.ok_or_else(|| Error::Overloaded("Roles are not known yet".into()))
    }
}

fn ensure_write(roles: &Roles, user: &str, plan: &ModifyPlan) -> Result<(), Error> {
    permission::ensure_rows(roles, user, Permissions::MODIFY, plan.table())?;
    // Its answer says what the rows are.
    if plan.is_conditional() {
        permission::ensure_rows(roles, user, Permissions::SELECT, plan.table())?;
    }
    Ok(())
}
