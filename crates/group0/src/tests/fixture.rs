//! A founded cluster, members and tables for tests.

use crate::{Applicant, Change, Command, Fill, Founding, Outcome, Role, Roles, State};
use base::{HostId, Token};
use schema::{Keyspace, Replication, Schema, Table, TableBuilder, TableId};
use std::sync::Arc;
use topology::{Member, MemberState, Version};
use types::CqlType;

/// The id of the cluster that `founded` founds.
pub(crate) const CLUSTER: u128 = 77;

pub(crate) fn member(octet: u8) -> Member {
    let ip = std::net::IpAddr::from([127, 0, 0, octet]);
    Member {
        host_id: HostId(u128::from(octet)),
        internode: (ip, 7000).into(),
        native: (ip, 9042).into(),
        dc: "dc1".to_owned(),
        rack: "r1".to_owned(),
        tokens: vec![Token(i64::from(octet) * 10), Token(i64::from(octet) * 10 + 1)],
        shards: 1,
        ignore_msb: 0,
        state: MemberState::Joining,
        features: crate::FEATURES,
        release: "test".to_owned(),
    }
}

pub(crate) fn applicant(octet: u8) -> Box<Applicant> {
    let (cluster, name, member) = (CLUSTER, "c".to_owned(), member(octet));
    Box::new(Applicant { cluster, name, member, fill: Fill::Proven })
}

pub(crate) fn founding() -> Box<Founding> {
    let role = Role { superuser: true, login: true, salted_hash: Some("hash".into()), ..Role::default() };
    let roles = Roles { roles: [("cassandra".to_owned(), role)].into(), ..Roles::default() };
    let (cluster, name, schema) = (CLUSTER, "c".to_owned(), Arc::new(Schema::default()));
    Box::new(Founding { cluster, name, member: member(1), schema, roles })
}

pub(crate) fn table(name: &str, id: u128) -> Arc<Table> {
    let builder = TableBuilder::new("ks", name, TableId(id)).partition_key("k", CqlType::Int);
    Arc::new(builder.regular("v", CqlType::Text).build().expect("sound"))
}

pub(crate) fn keyspace() -> schema::Change {
    schema::Change::PutKeyspace(Arc::new(Keyspace::new("ks", Replication::Simple { factor: 1 })))
}

/// One replica of the state whose entries come one after the other, each decided on what is there.
pub(crate) struct Log {
    pub(crate) state: State,
    pub(crate) index: u64,
}

impl Log {
    pub(crate) fn empty() -> Log {
        Log { state: State::new(), index: 0 }
    }

    pub(crate) fn founded() -> Log {
        let mut log = Log::empty();
        log.done(Change::Found(founding()));
        log
    }

    /// Founded, with these members joined.
    pub(crate) fn of(octets: &[u8]) -> Log {
        let mut log = Log::founded();
        for octet in octets {
            log.done(Change::Join(applicant(*octet)));
            log.done(Change::FinishJoin(HostId(u128::from(*octet))));
        }
        log
    }

    /// A command decided now, with an id of its own.
    pub(crate) fn command(&self, change: Change) -> Command {
        let base = self.state.base(change.scope());
        let epoch = u128::from(self.state.version().epoch) << 64;
        Command { id: epoch + u128::from(self.index) + 1_000, base, change }
    }

    pub(crate) fn send(&mut self, command: &Command) -> Outcome {
        self.index += 1;
        let (next, outcome) = self
            .state
            .apply_entry(self.state.version_at(self.index), &command.encode())
            .expect("commands of this release");
        let again = State::decode(&next.encode()).expect("as written");
        assert_eq!(again, next);
        self.state = next;
        outcome
    }

    pub(crate) fn propose(&mut self, change: Change) -> Outcome {
        let command = self.command(change);
        self.send(&command)
    }

    /// Proposes what must be allowed.
    pub(crate) fn done(&mut self, change: Change) -> Version {
        match self.propose(change) {
            Outcome::Done(version) => version,
            other => panic!("{other:?}"),
        }
    }

    /// Proposes what must be refused; the text, and whether nothing but the memory of it changed.
    pub(crate) fn refused(&mut self, change: Change) -> String {
        let before = self.state.clone();
        let Outcome::Refused(text) = self.propose(change) else { panic!("must be refused") };
        assert!(crate::Effects::between(&before, &self.state).is_empty());
        assert_eq!(before.versions(), self.state.versions());
        text
    }
}

pub(crate) fn host(octet: u8) -> HostId {
    HostId(u128::from(octet))
}
