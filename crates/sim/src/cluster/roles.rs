//! Roles that clients of a cluster make, change and drop, at any node, while nodes are down, cut off or slow.
//!
//! Each role has one owner. What a node has answered it acts on from then on, on every shard: the new password lets in, the old one does
//! not. When the faults have ended, every node shows the same roles, and all that was answered.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;

use base::Prng;
use protocol::failure::FailureKind;
use types::Consistency;

use crate::clients::{Door, Pace, Sessions, text};
use crate::limits::{CONNECT_PATIENCE, START};
use crate::session::{Ask, Session, Trouble, insist};

/// Connections that look at one node, as each may be of another shard.
const LOOKS: usize = 6;

/// What is known of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is there, with this password.
    Made(u64),
    Dropped,
    /// The answer to the last change did not come.
    Unknown,
}

/// What clients know of the roles.
#[derive(Default)]
pub(super) struct Book {
    roles: BTreeMap<String, Fate>,
    violation: Option<String>,
}

pub(super) type Shared = Rc<RefCell<Book>>;

impl Book {
    /// Errors: what a client has seen and must not.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }
}

/// Makes roles, changes and drops them until something is wrong. `owner`: no other client has this number.
pub(super) async fn client(nodes: Vec<Door>, book: Shared, owner: u64, mut rng: Prng) {
    let mut sessions = Sessions::new(nodes);
    let mut count = 0;
    let mut pace = Pace::new(100_000, 100);
    while book.borrow().violation.is_none() {
        sessions.move_on(&mut rng);
        let to = sessions.door().address;
        let name = format!("r{owner}_{}", rng.below(count + 1));
        count = (count + 1).min(5);
        let fate = book.borrow().roles.get(&name).copied();
        let password = rng.below(1 << 40);
        let (cql, becomes) = match fate {
            None | Some(Fate::Dropped) => (
                format!("CREATE ROLE {name} WITH PASSWORD = 'p{password}' AND LOGIN = true"),
                Fate::Made(password),
            ),
            // What changes nothing, as there seems to be nothing, does not keep an earlier change from coming still: only another change does.
            Some(Fate::Unknown) if rng.chance(0.5) => (
                format!("CREATE ROLE {name} WITH PASSWORD = 'p{password}' AND LOGIN = true"),
                Fate::Made(password),
            ),
            Some(Fate::Unknown) => (
                format!("ALTER ROLE {name} WITH PASSWORD = 'p{password}' AND LOGIN = true"),
                Fate::Made(password),
            ),
            Some(Fate::Made(_)) if rng.chance(0.3) => (format!("DROP ROLE {name}"), Fate::Dropped),
            Some(Fate::Made(_)) => {
                (format!("ALTER ROLE {name} WITH PASSWORD = 'p{password}'"), Fate::Made(password))
            }
        };
        book.borrow_mut().roles.insert(name.clone(), Fate::Unknown);
        if let Some(session) = sessions.get().await {
            match session.query(&cql, Ask::at(Consistency::One)).await {
                Ok(_) => {
                    book.borrow_mut().roles.insert(name.clone(), becomes);
                    check_login(to, &name, becomes, fate, &book).await;
                }
                Err(Trouble::Lost(_)) => sessions.close(),
                Err(_) => {}
            }
        }
        pace.pause(&mut rng).await;
    }
}

/// The node that has answered acts on it.
async fn check_login(to: SocketAddr, name: &str, fate: Fate, before: Option<Fate>, book: &Shared) {
    let complain = |what: String| {
        book.borrow_mut().violation.get_or_insert(what);
    };
    if let Fate::Made(password) = fate
        && is_let_in(to, name, password).await == Some(false)
    {
        complain(format!("{to} does not let {name} in, who was {fate:?} there"));
    }
    if let Some(Fate::Made(old)) = before
        && is_let_in(to, name, old).await == Some(true)
    {
        complain(format!("{to} lets {name} in with the password of before, {old}; since then {fate:?}"));
    }
}

/// Whether a password lets in; `None`: that is not known.
async fn is_let_in(to: SocketAddr, name: &str, password: u64) -> Option<bool> {
    let password = format!("p{password}");
    let login = Session::connect_as(to, (name, &password));
    match runtime::timeout(CONNECT_PATIENCE, login).await.ok()? {
        Ok(_) => Some(true),
        Err(Trouble::Refused(failure)) if failure.kind == FailureKind::BadCredentials => Some(false),
        Err(_) => None,
    }
}

/// Every shard of every node shows the same roles, all that were answered, and lets in who they say.
pub(super) async fn settled(nodes: Vec<SocketAddr>, book: Shared) -> Result<(), String> {
    let told = |trouble: Trouble| format!("roles, after all faults ended: {trouble}");
    let mut shown: Option<BTreeSet<String>> = None;
    for to in &nodes {
        for _ in 0..LOOKS {
            let mut session = insist(*to, START).await.map_err(told)?;
            let found = session.all("SELECT role FROM system_auth.roles", Ask::at(Consistency::One)).await;
            let found: BTreeSet<String> =
                found.map_err(told)?.iter().filter_map(|row| text(&row[0])).collect();
            if shown.get_or_insert_with(|| found.clone()) != &found {
                return Err(format!("{to} shows the roles {found:?}, another shard or node {shown:?}"));
            }
        }
    }
    let (shown, roles) = (shown.unwrap_or_default(), book.borrow().roles.clone());
    for (name, fate) in roles {
        let is_there = shown.contains(&name);
        if matches!(fate, Fate::Made(_)) && !is_there || fate == Fate::Dropped && is_there {
            return Err(format!("role {name} is {fate:?}, and it is there: {is_there}"));
        }
        if let Fate::Made(password) = fate {
            for to in &nodes {
                if is_let_in(*to, &name, password).await == Some(false) {
                    return Err(format!("{to} does not let {name} in, who is {fate:?}"));
                }
            }
        }
    }
    Ok(())
}
