//! Statements as written: names unresolved, values untyped, the whole grammar of Cassandra 5.0.
//!
//! Names are already folded to lower case unless they were quoted. Every bind marker is a number: its place among all
//! markers of the statement, in order of appearance.

/// A parsed statement with the names of its bind markers.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// What to do.
    pub kind: StatementKind,
    /// One entry per marker: `Some` for `:name`, `None` for `?`.
    pub markers: Vec<Option<String>>,
}

impl Statement {
    /// Whether it reads, writes or empties tables, and names the keyspace of each: then the one in use does not matter.
    pub fn is_fully_qualified(&self) -> bool {
        match &self.kind {
            StatementKind::Batch(batch) => batch.statements.iter().all(StatementKind::names_its_keyspace),
            kind => kind.names_its_keyspace(),
        }
    }
}

/// Every kind of statement.
#[derive(Debug, Clone, PartialEq)]
pub enum StatementKind {
    /// SELECT.
    Select(Select),
    /// INSERT, with values or JSON.
    Insert(Insert),
    /// UPDATE.
    Update(Update),
    /// DELETE.
    Delete(Delete),
    /// BEGIN BATCH … APPLY BATCH.
    Batch(Batch),
    /// USE.
    Use {
        /// The keyspace to use from now on.
        keyspace: String,
    },
    /// TRUNCATE.
    Truncate {
        /// The table to empty.
        table: TableName,
    },
    /// CREATE KEYSPACE.
    CreateKeyspace(CreateKeyspace),
    /// ALTER KEYSPACE.
    AlterKeyspace {
        /// The keyspace.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// WITH.
        properties: Vec<Property>,
    },
    /// DROP KEYSPACE.
    DropKeyspace {
        /// The keyspace.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// CREATE TABLE.
    CreateTable(CreateTable),
    /// ALTER TABLE.
    AlterTable(AlterTable),
    /// DROP TABLE.
    DropTable {
        /// The table.
        table: TableName,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// CREATE TYPE.
    CreateType(CreateType),
    /// ALTER TYPE.
    AlterType(AlterType),
    /// DROP TYPE, INDEX, MATERIALIZED VIEW, TRIGGER, ROLE, USER.
    DropObject {
        /// Which kind of object.
        object: Object,
        /// Its name; for roles without keyspace.
        name: TableName,
        /// IF EXISTS.
        if_exists: bool,
        /// ON table, for triggers.
        on: Option<TableName>,
    },
    /// DROP FUNCTION, DROP AGGREGATE.
    DropRoutine {
        /// Whether it is an aggregate.
        aggregate: bool,
        /// Its name.
        name: TableName,
        /// IF EXISTS.
        if_exists: bool,
        /// Argument types, if given.
        arguments: Option<Vec<TypeName>>,
    },
    /// CREATE INDEX.
    CreateIndex(CreateIndex),
    /// CREATE MATERIALIZED VIEW.
    CreateView(Box<CreateView>),
    /// ALTER MATERIALIZED VIEW.
    AlterView {
        /// The view.
        view: TableName,
        /// IF EXISTS.
        if_exists: bool,
        /// WITH.
        properties: Vec<Property>,
    },
    /// CREATE FUNCTION.
    CreateFunction(CreateFunction),
    /// CREATE AGGREGATE.
    CreateAggregate(CreateAggregate),
    /// CREATE TRIGGER.
    CreateTrigger {
        /// Its name.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// The table it is on.
        table: TableName,
        /// The class.
        class: String,
    },
    /// CREATE or ALTER ROLE, CREATE or ALTER USER.
    Role(RoleStatement),
    /// ADD or DROP IDENTITY.
    Identity {
        /// Whether it is added.
        add: bool,
        /// The identity.
        identity: String,
        /// TO ROLE, when added.
        role: Option<String>,
        /// IF [NOT] EXISTS.
        conditional: bool,
    },
    /// GRANT or REVOKE of permissions.
    Permission {
        /// GRANT, otherwise REVOKE.
        grant: bool,
        /// The permissions; `ALL` alone for all.
        permissions: Vec<String>,
        /// On what.
        resource: Resource,
        /// To or from whom.
        role: String,
    },
    /// GRANT or REVOKE of a role.
    RoleGrant {
        /// GRANT, otherwise REVOKE.
        grant: bool,
        /// The role given.
        role: String,
        /// To or from whom.
        grantee: String,
    },
    /// LIST ROLES, USERS, SUPERUSERS, PERMISSIONS.
    List(ListStatement),
    /// DESCRIBE.
    Describe(Describe),
}

impl StatementKind {
    fn names_its_keyspace(&self) -> bool {
        let table = match self {
            StatementKind::Select(statement) => &statement.table,
            StatementKind::Insert(statement) => &statement.table,
            StatementKind::Update(statement) => &statement.table,
            StatementKind::Delete(statement) => &statement.table,
            StatementKind::Truncate { table } => table,
            _ => return false,
        };
        table.keyspace.is_some()
    }
}

/// A name with an optional keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// Before the point.
    pub keyspace: Option<String>,
    /// After it.
    pub name: String,
}

/// Kinds of objects that DROP names simply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// A user-defined type.
    Type,
    /// An index.
    Index,
    /// A materialized view.
    View,
    /// A trigger.
    Trigger,
    /// A role.
    Role,
    /// A user, the old word for a role.
    User,
}

/// A type as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeName {
    /// A native or user-defined type.
    Named {
        /// Before the point: user-defined types only.
        keyspace: Option<String>,
        /// The name.
        name: String,
        /// Quoted names are never native types.
        quoted: bool,
    },
    /// `frozen<…>`
    Frozen(Box<TypeName>),
    /// `list<…>`
    List(Box<TypeName>),
    /// `set<…>`
    Set(Box<TypeName>),
    /// `map<…, …>`
    Map(Box<TypeName>, Box<TypeName>),
    /// `tuple<…>`
    Tuple(Vec<TypeName>),
    /// `vector<…, n>`
    Vector(Box<TypeName>, i64),
    /// `'java.class.Name'`
    Custom(String),
}

impl TypeName {
    /// The type as CQL text, user types with the keyspace they are of.
    pub fn to_cql(&self, in_keyspace: &str) -> String {
        let inner = |ty: &TypeName| ty.to_cql(in_keyspace);
        match self {
            TypeName::Named { keyspace: None, name, quoted: false }
                if crate::names::native_type(name).is_some() =>
            {
                name.clone()
            }
            TypeName::Named { keyspace, name, .. } => {
                format!("{}.{name}", keyspace.as_deref().unwrap_or(in_keyspace))
            }
            TypeName::Frozen(ty) => format!("frozen<{}>", inner(ty)),
            TypeName::List(ty) => format!("list<{}>", inner(ty)),
            TypeName::Set(ty) => format!("set<{}>", inner(ty)),
            TypeName::Map(key, value) => format!("map<{}, {}>", inner(key), inner(value)),
            TypeName::Tuple(fields) => {
                format!("tuple<{}>", fields.iter().map(inner).collect::<Vec<_>>().join(", "))
            }
            TypeName::Vector(ty, dimension) => format!("vector<{}, {dimension}>", inner(ty)),
            TypeName::Custom(class) => format!("'{class}'"),
        }
    }
}

/// Arithmetic operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

/// Values and selectors share one grammar; where a column may not stand, analysis says so.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// NULL
    Null,
    /// TRUE, FALSE
    Boolean(bool),
    /// Digits with an optional minus.
    Integer(String),
    /// With point or exponent, NaN, Infinity.
    Float(String),
    /// A string.
    Text(String),
    /// A uuid.
    Uuid(u128),
    /// The digits after `0x`, even or not.
    Hex(String),
    /// A duration with an optional minus.
    Duration(String),
    /// A bind marker.
    Marker(usize),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{a, b}`; `{}` may be an empty map too.
    Set(Vec<Expr>),
    /// `{a: b}`
    Map(Vec<(Expr, Expr)>),
    /// `{field: value}`
    Udt(Vec<(String, Expr)>),
    /// `(a, b)`; one element is a tuple of one.
    Tuple(Vec<Expr>),
    /// A column.
    Column(String),
    /// `f(a, b)`
    Call {
        /// The function.
        function: TableName,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// `count(*)`, `count(1)`
    CountRows,
    /// `cast(a AS type)`
    Cast(Box<Expr>, TypeName),
    /// `(type) a`
    TypeHint(TypeName, Box<Expr>),
    /// `a.field`
    Field(Box<Expr>, String),
    /// `a[key]`
    Element(Box<Expr>, Box<Expr>),
    /// `a[from..to]`
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// `a + b`
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    /// `-a`
    Negate(Box<Expr>),
}

/// SELECT.
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    /// SELECT JSON.
    pub json: bool,
    /// SELECT DISTINCT.
    pub distinct: bool,
    /// What to return; empty for `*`.
    pub selectors: Vec<(Expr, Option<String>)>,
    /// From where.
    pub table: TableName,
    /// WHERE.
    pub relations: Vec<Relation>,
    /// GROUP BY.
    pub group_by: Vec<Expr>,
    /// ORDER BY.
    pub order_by: Vec<(OrderTarget, bool)>,
    /// PER PARTITION LIMIT.
    pub per_partition_limit: Option<Expr>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// ALLOW FILTERING.
    pub allow_filtering: bool,
    /// USING TIMEOUT.
    pub using: Using,
}

/// What ORDER BY names.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderTarget {
    /// A column.
    Column(String),
    /// `column ANN OF vector`.
    Nearest(String, Expr),
}

/// Comparison operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `IN`
    In,
    /// `CONTAINS`
    Contains,
    /// `CONTAINS KEY`
    ContainsKey,
    /// `LIKE`
    Like,
    /// `IS NOT NULL`
    IsNotNull,
}

/// The left side of a relation.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// `a`
    Column(String),
    /// `a[key]`
    Element(String, Expr),
    /// `a.field`
    Field(String, String),
    /// `token(a, b)`
    Token(Vec<String>),
    /// `(a, b)`
    Tuple(Vec<String>),
    /// `expr(index, value)`
    Custom(TableName),
}

/// The right side of a relation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// One value; for IN: a marker that holds the whole list.
    One(Expr),
    /// `(a, b, …)` after IN.
    Many(Vec<Expr>),
    /// Nothing: IS NOT NULL.
    Nothing,
}

/// One condition of WHERE or IF.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// Left side.
    pub subject: Subject,
    /// Operator.
    pub operator: Operator,
    /// Right side.
    pub object: Operand,
}

/// USING.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Using {
    /// TIMESTAMP, microseconds.
    pub timestamp: Option<Expr>,
    /// TTL, seconds.
    pub ttl: Option<Expr>,
    /// TIMEOUT, a duration.
    pub timeout: Option<Expr>,
}

/// IF.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// None given.
    None,
    /// IF EXISTS
    Exists,
    /// IF NOT EXISTS
    NotExists,
    /// IF relations
    Relations(Vec<Relation>),
}

/// INSERT.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// Into which table.
    pub table: TableName,
    /// Column names; empty for JSON.
    pub columns: Vec<String>,
    /// As many values.
    pub values: Vec<Expr>,
    /// INSERT … JSON, and whether DEFAULT UNSET.
    pub json: Option<(Expr, bool)>,
    /// IF NOT EXISTS.
    pub condition: Condition,
    /// USING.
    pub using: Using,
}

/// What an assignment or a deletion names.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A column.
    Column(String),
    /// `a[key]`
    Element(String, Expr),
    /// `a.field`
    Field(String, String),
}

/// How an assignment combines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assign {
    /// `=`
    Set,
    /// `+=`
    Add,
    /// `-=`
    Subtract,
}

/// One assignment of UPDATE. `a = a + b` is kept as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Left side.
    pub target: Target,
    /// Operator.
    pub assign: Assign,
    /// Right side.
    pub value: Expr,
}

/// UPDATE.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Which table.
    pub table: TableName,
    /// USING.
    pub using: Using,
    /// SET.
    pub assignments: Vec<Assignment>,
    /// WHERE.
    pub relations: Vec<Relation>,
    /// IF.
    pub condition: Condition,
}

/// DELETE.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// Columns or elements; empty for whole rows.
    pub targets: Vec<Target>,
    /// From which table.
    pub table: TableName,
    /// USING.
    pub using: Using,
    /// WHERE.
    pub relations: Vec<Relation>,
    /// IF.
    pub condition: Condition,
}

/// Kinds of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// All or nothing.
    Logged,
    /// Each partition by itself.
    Unlogged,
    /// Of counter updates.
    Counter,
}

/// BEGIN BATCH … APPLY BATCH.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Kind.
    pub kind: BatchKind,
    /// USING of the whole.
    pub using: Using,
    /// INSERT, UPDATE, DELETE only.
    pub statements: Vec<StatementKind>,
}

/// One `name = value` after WITH.
#[derive(Debug, Clone, PartialEq)]
pub struct Property {
    /// Name, lower case.
    pub name: String,
    /// Value.
    pub value: PropertyValue,
}

/// The value of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyValue {
    /// Any scalar, as text.
    Scalar(String),
    /// A map of texts.
    Map(Vec<(String, String)>),
}

/// CREATE KEYSPACE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateKeyspace {
    /// Its name.
    pub name: String,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// WITH.
    pub properties: Vec<Property>,
}

/// A column of CREATE TABLE or ALTER TABLE ADD.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: TypeName,
    /// STATIC.
    pub is_static: bool,
    /// PRIMARY KEY.
    pub primary_key: bool,
    /// MASKED WITH.
    pub masked: bool,
}

/// What WITH says of a table or view.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableProperties {
    /// `name = value` pairs, without `id`.
    pub properties: Vec<Property>,
    /// CLUSTERING ORDER BY: name and whether descending.
    pub clustering_order: Vec<(String, bool)>,
    /// COMPACT STORAGE.
    pub compact_storage: bool,
    /// ID = uuid.
    pub id: Option<u128>,
}

/// CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub table: TableName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// PRIMARY KEY clauses: partition key and clustering names. More than one is an error of analysis.
    pub primary_keys: Vec<(Vec<String>, Vec<String>)>,
    /// WITH.
    pub with: TableProperties,
}

/// ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    /// Which table.
    pub table: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// What changes.
    pub change: TableChange,
}

/// What ALTER TABLE changes.
#[derive(Debug, Clone, PartialEq)]
pub enum TableChange {
    /// ADD.
    Add {
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// The new columns.
        columns: Vec<ColumnDefinition>,
    },
    /// DROP.
    Drop {
        /// IF EXISTS.
        if_exists: bool,
        /// The names.
        columns: Vec<String>,
        /// USING TIMESTAMP, microseconds.
        timestamp: Option<i64>,
    },
    /// RENAME a TO b AND …
    Rename {
        /// IF EXISTS.
        if_exists: bool,
        /// From, to.
        renames: Vec<(String, String)>,
    },
    /// ALTER column TYPE.
    Retype {
        /// The column.
        column: String,
    },
    /// ALTER column MASKED WITH, DROP MASKED.
    Mask,
    /// DROP COMPACT STORAGE.
    DropCompactStorage,
    /// WITH.
    With(TableProperties),
}

/// CREATE TYPE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateType {
    /// Its name.
    pub name: TableName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Fields.
    pub fields: Vec<(String, TypeName)>,
}

/// ALTER TYPE.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterType {
    /// Its name.
    pub name: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// ADD a field.
    pub add: Option<(String, TypeName)>,
    /// RENAME fields.
    pub renames: Vec<(String, String)>,
    /// IF NOT EXISTS after ADD, IF EXISTS after RENAME.
    pub if_field: bool,
    /// ALTER field TYPE.
    pub retype: bool,
}

/// CREATE INDEX.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    /// Its name, unless one is to be made.
    pub name: Option<TableName>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// CUSTOM.
    pub custom: bool,
    /// On which table.
    pub table: TableName,
    /// Targets: column and `keys`, `values`, `entries`, `full` or nothing.
    pub targets: Vec<(Option<String>, String)>,
    /// USING class.
    pub class: Option<String>,
    /// WITH.
    pub properties: Vec<Property>,
}

/// CREATE MATERIALIZED VIEW.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// Its name.
    pub name: TableName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// AS SELECT.
    pub select: Select,
    /// PRIMARY KEY.
    pub primary_key: (Vec<String>, Vec<String>),
    /// WITH.
    pub with: TableProperties,
}

/// CREATE FUNCTION.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateFunction {
    /// Its name.
    pub name: TableName,
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Arguments.
    pub arguments: Vec<(String, TypeName)>,
    /// CALLED ON NULL INPUT.
    pub called_on_null: bool,
    /// RETURNS.
    pub returns: TypeName,
    /// LANGUAGE.
    pub language: String,
    /// AS.
    pub body: String,
}

/// CREATE AGGREGATE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateAggregate {
    /// Its name.
    pub name: TableName,
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Argument types.
    pub arguments: Vec<TypeName>,
    /// SFUNC.
    pub state_function: String,
    /// STYPE.
    pub state_type: TypeName,
    /// FINALFUNC.
    pub final_function: Option<String>,
    /// INITCOND.
    pub initial: Option<Expr>,
}

/// CREATE or ALTER ROLE or USER.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleStatement {
    /// CREATE, otherwise ALTER.
    pub create: bool,
    /// IF [NOT] EXISTS.
    pub conditional: bool,
    /// The role.
    pub name: String,
    /// WITH, and what is meant without it.
    pub options: RoleOptions,
}

/// What CREATE and ALTER ROLE say of a role; `None`: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// SUPERUSER.
    pub superuser: Option<bool>,
    /// LOGIN.
    pub login: Option<bool>,
    /// PASSWORD.
    pub password: Option<String>,
    /// HASHED PASSWORD.
    pub hashed_password: Option<String>,
    /// OPTIONS, whatever they are.
    pub custom: Option<()>,
    /// ACCESS TO DATACENTERS.
    pub datacenters: Option<Access>,
    /// ACCESS FROM CIDRS.
    pub cidrs: Option<Access>,
}

/// What a role has access to, or from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    All,
    /// These.
    Some(std::collections::BTreeSet<String>),
}

/// What permissions are given on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// ALL KEYSPACES
    AllKeyspaces,
    /// KEYSPACE ks
    Keyspace(String),
    /// ALL TABLES IN KEYSPACE ks
    AllTables(String),
    /// [TABLE] t
    Table(TableName),
    /// ALL ROLES
    AllRoles,
    /// ROLE r
    Role(String),
    /// ALL FUNCTIONS [IN KEYSPACE ks]
    AllFunctions(Option<String>),
    /// FUNCTION f(types)
    Function(TableName, Vec<TypeName>),
    /// ALL MBEANS
    AllMbeans,
    /// MBEAN, MBEANS pattern
    Mbean(String),
}

/// LIST.
#[derive(Debug, Clone, PartialEq)]
pub enum ListStatement {
    /// ROLES [OF r] [NORECURSIVE]
    Roles {
        /// OF.
        of: Option<String>,
        /// Without NORECURSIVE.
        recursive: bool,
    },
    /// USERS
    Users,
    /// permissions [ON r] [OF r] [NORECURSIVE]
    Permissions {
        /// Which; `ALL` alone for all.
        permissions: Vec<String>,
        /// ON.
        resource: Option<Resource>,
        /// OF.
        of: Option<String>,
        /// Without NORECURSIVE.
        recursive: bool,
    },
}

/// DESCRIBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    /// What.
    pub what: DescribeTarget,
    /// WITH INTERNALS.
    pub internals: bool,
}

/// What DESCRIBE names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeTarget {
    /// KEYSPACES
    Keyspaces,
    /// TABLES
    Tables,
    /// TYPES
    Types,
    /// FUNCTIONS
    Functions,
    /// AGGREGATES
    Aggregates,
    /// CLUSTER
    Cluster,
    /// [FULL] SCHEMA
    Schema {
        /// FULL: system keyspaces too.
        full: bool,
    },
    /// [ONLY] KEYSPACE [ks]
    Keyspace {
        /// The keyspace; the one in use when absent.
        name: Option<String>,
        /// Without its tables.
        only: bool,
    },
    /// TABLE t
    Table(TableName),
    /// INDEX i
    Index(TableName),
    /// MATERIALIZED VIEW v
    View(TableName),
    /// TYPE t
    Type(TableName),
    /// FUNCTION f
    Function(TableName),
    /// AGGREGATE a
    Aggregate(TableName),
    /// Just a name.
    Any(TableName),
}
