//! What permissions are granted on: its name in the tables, its text in messages, what it lies in, and which permissions it knows.
//!
//! ```text
//!   data ◀─ data/ks ◀─ data/ks/* ◀─ data/ks/table      functions ◀─ functions/ks ◀─ functions/ks/f[types]
//!   roles ◀─ roles/name                                mbean ◀─ mbean/name
//! ```
//! A permission on a resource holds for all that lies in it. Names and texts are Cassandra's: drivers, tools and backups of `system_auth` hold them.

use crate::Permissions;

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Every keyspace.
    AllKeyspaces,
    /// A keyspace.
    Keyspace(String),
    /// Every table of a keyspace.
    AllTables(String),
    /// A table: keyspace and name.
    Table(String, String),
    /// Every role.
    AllRoles,
    /// A role.
    Role(String),
    /// Every function.
    AllFunctions,
    /// Every function of a keyspace.
    FunctionsOf(String),
    /// A function: keyspace, name, and the classes of its arguments with their CQL names.
    Function(String, String, Vec<(String, String)>),
    /// Every management bean of a Java process: there is none here, but scripts grant on them.
    AllMbeans,
    /// Management beans by name or pattern.
    Mbean(String),
}

impl Resource {
    /// The one of this name, as [`Resource::name`] gives it.
    pub fn named(name: &str) -> Option<Resource> {
        let (kind, rest) = name.split_once('/').map_or((name, None), |(kind, rest)| (kind, Some(rest)));
        Some(match (kind, rest) {
            ("data", None) => Resource::AllKeyspaces,
            ("data", Some(rest)) => match rest.split_once('/') {
                None => Resource::Keyspace(rest.to_owned()),
                Some((keyspace, "*")) => Resource::AllTables(keyspace.to_owned()),
                Some((keyspace, table)) => Resource::Table(keyspace.to_owned(), table.to_owned()),
            },
            ("roles", None) => Resource::AllRoles,
            ("roles", Some(role)) => Resource::Role(role.to_owned()),
            ("functions", None) => Resource::AllFunctions,
            ("functions", Some(rest)) => match rest.split_once('/') {
                None => Resource::FunctionsOf(rest.to_owned()),
                Some((keyspace, function)) => {
                    let (function, types) = function.strip_suffix(']')?.split_once('[')?;
                    let types = types.split('^').filter(|ty| !ty.is_empty());
                    let types = types.map(|class| (class.to_owned(), class.to_owned())).collect();
                    Resource::Function(keyspace.to_owned(), function.to_owned(), types)
                }
            },
            ("mbean", None) => Resource::AllMbeans,
            ("mbean", Some(name)) => Resource::Mbean(name.to_owned()),
            _ => return None,
        })
    }

    /// Its name in `system_auth.role_permissions`.
    pub fn name(&self) -> String {
        match self {
            Resource::AllKeyspaces => "data".to_owned(),
            Resource::Keyspace(keyspace) => format!("data/{keyspace}"),
            Resource::AllTables(keyspace) => format!("data/{keyspace}/*"),
            Resource::Table(keyspace, table) => format!("data/{keyspace}/{table}"),
            Resource::AllRoles => "roles".to_owned(),
            Resource::Role(role) => format!("roles/{role}"),
            Resource::AllFunctions => "functions".to_owned(),
            Resource::FunctionsOf(keyspace) => format!("functions/{keyspace}"),
            Resource::Function(keyspace, function, types) => {
                let types: Vec<&str> = types.iter().map(|(class, _)| class.as_str()).collect();
                format!("functions/{keyspace}/{function}[{}]", types.join("^"))
            }
            Resource::AllMbeans => "mbean".to_owned(),
            Resource::Mbean(name) => format!("mbean/{name}"),
        }
    }

    /// What it lies in.
    pub fn parent(&self) -> Option<Resource> {
        match self {
            Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions | Resource::AllMbeans => {
                None
            }
            Resource::Keyspace(_) => Some(Resource::AllKeyspaces),
            Resource::AllTables(keyspace) => Some(Resource::Keyspace(keyspace.clone())),
            Resource::Table(keyspace, _) => Some(Resource::AllTables(keyspace.clone())),
            Resource::Role(_) => Some(Resource::AllRoles),
            Resource::FunctionsOf(_) => Some(Resource::AllFunctions),
            Resource::Function(keyspace, ..) => Some(Resource::FunctionsOf(keyspace.clone())),
            Resource::Mbean(_) => Some(Resource::AllMbeans),
        }
    }

    /// It, what it lies in, and so on.
    pub fn chain(&self) -> impl Iterator<Item = Resource> {
        std::iter::successors(Some(self.clone()), Resource::parent)
    }

    /// The permissions that mean something here: what ALL stands for, and what a superuser has.
    pub fn applicable(&self) -> Permissions {
        let of_data = Permissions::ALTER
            | Permissions::DROP
            | Permissions::SELECT
            | Permissions::MODIFY
            | Permissions::AUTHORIZE
            | Permissions::UNMASK
            | Permissions::SELECT_MASKED;
        let of_role = Permissions::ALTER | Permissions::DROP | Permissions::AUTHORIZE | Permissions::DESCRIBE;
        let of_function =
            Permissions::ALTER | Permissions::DROP | Permissions::AUTHORIZE | Permissions::EXECUTE;
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) => {
                Permissions::CREATE | of_data
            }
            Resource::Table(..) => of_data,
            Resource::AllRoles => Permissions::CREATE | of_role,
            Resource::Role(_) => of_role,
            Resource::AllFunctions | Resource::FunctionsOf(_) => Permissions::CREATE | of_function,
            Resource::Function(..) => of_function,
            Resource::AllMbeans | Resource::Mbean(_) => {
                Permissions::AUTHORIZE
                    | Permissions::DESCRIBE
                    | Permissions::EXECUTE
                    | Permissions::MODIFY
                    | Permissions::SELECT
            }
        }
    }

    /// The class that Cassandra names where a resource of this kind knows none of the permissions asked for.
    pub fn class(&self) -> &'static str {
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) | Resource::Table(..) => {
                "DataResource"
            }
            Resource::AllRoles | Resource::Role(_) => "RoleResource",
            Resource::AllFunctions | Resource::FunctionsOf(_) | Resource::Function(..) => "FunctionResource",
            Resource::AllMbeans | Resource::Mbean(_) => "JMXResource",
        }
    }

    /// The keyspace that it is, or that it lies in; of data alone.
    pub fn keyspace(&self) -> Option<&str> {
        match self {
            Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) | Resource::Table(keyspace, _) => {
                Some(keyspace)
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Resource::AllKeyspaces => write!(f, "<all keyspaces>"),
            Resource::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Resource::AllTables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Resource::Table(keyspace, table) => write!(f, "<table {keyspace}.{table}>"),
            Resource::AllRoles => write!(f, "<all roles>"),
            Resource::Role(role) => write!(f, "<role {role}>"),
            Resource::AllFunctions => write!(f, "<all functions>"),
            Resource::FunctionsOf(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Resource::Function(keyspace, function, types) => {
                let types: Vec<&str> = types.iter().map(|(_, cql)| cql.as_str()).collect();
                write!(f, "<function {keyspace}.{function}({})>", types.join(", "))
            }
            Resource::AllMbeans => write!(f, "<all mbeans>"),
            Resource::Mbean(name) => write!(f, "<mbean {name}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Resource> {
        let (ks, t) = ("ks".to_owned(), "t".to_owned());
        let int = ("org.apache.cassandra.db.marshal.Int32Type".to_owned(), "int".to_owned());
        vec![
            Resource::AllKeyspaces,
            Resource::Keyspace(ks.clone()),
            Resource::AllTables(ks.clone()),
            Resource::Table(ks.clone(), t),
            Resource::AllRoles,
            Resource::Role("a/b".to_owned()),
            Resource::AllFunctions,
            Resource::FunctionsOf(ks.clone()),
            Resource::Function(ks.clone(), "f".to_owned(), vec![int.clone(), int]),
            Resource::Function(ks, "g".to_owned(), Vec::new()),
            Resource::AllMbeans,
            Resource::Mbean("a:b=c/d".to_owned()),
        ]
    }

    #[test]
    fn names_are_read_back() {
        for resource in all() {
            let again = Resource::named(&resource.name()).expect("it was made of one");
            assert_eq!(again.name(), resource.name());
            assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&resource));
        }
        assert_eq!(Resource::named("tables/x"), None);
        assert_eq!(Resource::named("functions/ks/f"), None);
    }

    #[test]
    fn each_lies_in_what_knows_its_permissions_or_more() {
        for resource in all() {
            let chain: Vec<Resource> = resource.chain().collect();
            assert_eq!(chain.first(), Some(&resource));
            for pair in chain.windows(2) {
                let (inner, outer) = (pair[0].applicable(), pair[1].applicable());
                assert!(outer.contains(inner), "{} in {}", pair[0], pair[1]);
            }
        }
        let table = Resource::Table("ks".to_owned(), "t".to_owned());
        let names: Vec<String> = table.chain().map(|resource| resource.name()).collect();
        assert_eq!(names, ["data/ks/t", "data/ks/*", "data/ks", "data"]);
        assert_eq!(table.to_string(), "<table ks.t>");
    }
}
