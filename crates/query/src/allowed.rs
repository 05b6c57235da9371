//! Who was let through: what one statement remembers of that.

use crate::limits;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The users that a statement was let through for, at one number of the roles.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    at: Cell<u64>,
    users: RefCell<Vec<Rc<str>>>,
}

impl Allowed {
    /// Whether a user was let through at this number of the roles.
    pub(crate) fn has(&self, at: u64, user: &str) -> bool {
        self.at.get() == at && self.users.borrow().iter().any(|known| **known == *user)
    }

    /// Remembers that one was.
    pub(crate) fn add(&self, at: u64, user: &str) {
        let mut users = self.users.borrow_mut();
        if self.at.replace(at) != at || users.len() >= limits::ALLOWED_USERS_MAX {
            users.clear();
        }
        users.push(user.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_let_through_is_known_until_the_roles_change() {
        let allowed = Allowed::default();
        assert!(!allowed.has(1, "a"));
        allowed.add(1, "a");
        allowed.add(1, "b");
        assert!(allowed.has(1, "a") && allowed.has(1, "b") && !allowed.has(1, "c"));
        assert!(!allowed.has(2, "a"));
        allowed.add(2, "c");
        assert!(allowed.has(2, "c") && !allowed.has(2, "a") && !allowed.has(1, "a"));
        for number in 0..=limits::ALLOWED_USERS_MAX {
            allowed.add(2, &number.to_string());
        }
        assert!(allowed.users.borrow().len() <= limits::ALLOWED_USERS_MAX);
    }
}
