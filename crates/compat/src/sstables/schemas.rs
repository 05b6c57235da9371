//! The tables, as data: every type in every place, every kind of collection, key, tombstone and compressor.
//!
//! A table is written as lines `key|asc|desc|static|value NAME TYPE`: partition key, clustering in either order, static and
//! regular columns. User types stand in [`TYPES`] and are made in every keyspace.

/// User types, each after those that it uses.
pub const TYPES: &[&str] = &[
    "place (street text, number int, tags frozen<set<text>>)",
    "person (name text, home frozen<place>, phones frozen<map<text, int>>, seen timestamp)",
    "letters (\"ж\" int, a text, \"é\" frozen<set<text>>, b int, \"aж\" text)",
];

/// What a column is in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Part of the partition key.
    Key,
    /// Clustering, ascending.
    Asc,
    /// Clustering, descending.
    Desc,
    /// One value for the partition.
    Static,
    /// One value for the row.
    Value,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// As in CQL, with its quotes if it needs any.
    pub name: String,
    /// As in CQL.
    pub ty: String,
    /// What it is.
    pub role: Role,
}

impl Column {
    /// Whether it is stored as many cells.
    pub fn is_complex(&self) -> bool {
        let collection = ["list<", "set<", "map<"].iter().any(|kind| self.ty.starts_with(kind));
        collection || self.is_open_type()
    }

    /// Whether it is a user type whose fields are cells.
    pub fn is_open_type(&self) -> bool {
        TYPES.iter().any(|ty| ty.split(' ').next() == Some(&self.ty))
    }

    /// Whether it belongs to a row's position.
    pub fn is_clustering(&self) -> bool {
        matches!(self.role, Role::Asc | Role::Desc)
    }
}

/// How much is written, and of what.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Different partition keys.
    pub partitions: usize,
    /// Different clusterings; each partition uses them.
    pub rows: usize,
    /// Whether every row of every partition is inserted before anything else.
    pub fill: bool,
    /// Statements of each of the three rounds.
    pub writes: usize,
    /// Values of texts and blobs are at most so long.
    pub bytes: usize,
    /// Of a hundred statements, so many delete.
    pub deletes: u64,
    /// Of a hundred values, so many have no bytes.
    pub empty: u64,
    /// Whether values of a partition resemble each other, so that they compress.
    pub repetitive: bool,
}

const FEW: Load = Load {
    partitions: 12,
    rows: 8,
    fill: false,
    writes: 90,
    bytes: 40,
    deletes: 20,
    empty: 0,
    repetitive: false,
};
const WIDE: Load = Load { partitions: 3, rows: 900, fill: true, writes: 120, bytes: 400, ..FEW };
const HUGE: Load = Load { partitions: 6, rows: 2, writes: 10, bytes: 1_200_000, ..FEW };

/// A table.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// Options behind WITH.
    pub options: String,
    /// What is written.
    pub load: Load,
    /// Statements between the first round and the second, behind `ALTER TABLE name`.
    pub alters: &'static [&'static str],
    /// Whether it is one of those for every commit.
    pub quick: bool,
}

impl Schema {
    fn new(name: &str, columns: &str, options: &str, load: Load) -> Schema {
        let columns = columns.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
            let mut words = line.splitn(3, ' ');
            let role = match words.next() {
                Some("key") => Role::Key,
                Some("asc") => Role::Asc,
                Some("desc") => Role::Desc,
                Some("static") => Role::Static,
                _ => Role::Value,
            };
            let mut word = || words.next().unwrap_or_default().to_owned();
            Column { name: word(), ty: word(), role }
        });
        let columns = columns.collect();
        let options = options.to_owned();
        Schema { name: name.into(), columns, options, load, alters: &[], quick: false }
    }

    /// One without columns.
    pub fn empty(name: &str) -> Schema {
        Schema::new(name, "", "", FEW)
    }

    fn quick(self) -> Schema {
        Schema { quick: true, ..self }
    }

    /// Columns of a role.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(move |column| column.role == role)
    }

    /// The clustering, in order.
    pub fn clustering(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_clustering())
    }

    /// Whether it is of the form of Cassandra's tables before version 3.
    pub fn is_compact(&self) -> bool {
        self.options.starts_with(COMPACT)
    }

    /// Whether rows are written whose last clustering values are missing.
    pub fn has_null_clusterings(&self) -> bool {
        self.is_compact() && self.clustering().count() > 1
    }

    /// Whether its values are counters.
    pub fn counts(&self) -> bool {
        self.columns.iter().any(|column| column.ty == "counter")
    }

    /// The statement that makes it.
    pub fn create(&self, keyspace: &str) -> String {
        let names = |columns: &mut dyn Iterator<Item = &Column>| {
            columns.map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let columns = self.columns.iter().map(|column| {
            let suffix = if column.role == Role::Static { " static" } else { "" };
            format!("{} {}{suffix}", column.name, column.ty)
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let mut key = format!("({})", names(&mut self.of(Role::Key)));
        let mut with = Vec::new();
        if self.clustering().next().is_some() {
            key = format!("{key}, {}", names(&mut self.clustering()));
            let orders = self.clustering().map(|column| {
                let order = if column.role == Role::Desc { "DESC" } else { "ASC" };
                format!("{} {order}", column.name)
            });
            with.push(format!("CLUSTERING ORDER BY ({})", orders.collect::<Vec<_>>().join(", ")));
        }
        if !self.options.is_empty() {
            with.push(self.options.clone());
        }
        let with = if with.is_empty() { String::new() } else { format!(" WITH {}", with.join(" AND ")) };
        format!("CREATE TABLE {keyspace}.{} ({columns}, PRIMARY KEY ({key})){with}", self.name)
    }
}

/// The option that makes a table of that form.
const COMPACT: &str = "COMPACT STORAGE";

/// Types that keys may have.
pub const KEY_TYPES: [&str; 18] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
];

/// Compressors and sizes of chunks, taken in turns by the tables of types.
const COMPRESSIONS: [&str; 9] = [
    "",
    "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    "compression = {'class': 'SnappyCompressor', 'chunk_length_in_kb': 16}",
    "compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 32}",
    "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 64}",
    "compression = {'enabled': 'false'}",
    "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 128}",
    "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 8, 'compression_level': 5}",
    "compression = {'class': 'NoopCompressor'}",
];

/// All but those whose names follow from a seed.
pub fn all() -> Vec<Schema> {
    let mut all: Vec<Schema> = KEY_TYPES.iter().enumerate().map(|(index, ty)| of_type(index, ty)).collect();
    all.push(Schema::new(
        "of_duration",
        "key pk int
         asc ck int
         static s duration
         value v duration
         value l list<duration>
         value m map<int, duration>",
        "",
        FEW,
    ));
    // A type that CQL has no name for: the only one with an order of its own.
    all.push(
        of_named("lexical", "'org.apache.cassandra.db.marshal.LexicalUUIDType'", COMPRESSIONS[0]).quick(),
    );
    all.extend(keys());
    all.extend(collections());
    all.extend(shapes());
    all.extend(storage());
    all.extend(compact());
    all
}

/// One type as everything that it can be.
fn of_type(index: usize, ty: &str) -> Schema {
    of_named(ty, ty, COMPRESSIONS[index % COMPRESSIONS.len()])
}

fn of_named(name: &str, ty: &str, compression: &str) -> Schema {
    let columns = format!(
        "key pk {ty}
         asc up {ty}
         desc down {ty}
         static s {ty}
         value v {ty}
         value f frozen<list<{ty}>>
         value l list<{ty}>
         value t set<{ty}>
         value m map<{ty}, {ty}>"
    );
    Schema::new(&format!("of_{name}"), &columns, compression, FEW)
}

fn keys() -> Vec<Schema> {
    let of_all = |role: &str| {
        KEY_TYPES.iter().enumerate().fold(String::new(), |lines, (index, ty)| {
            let role = if role == "key" || index % 2 == 0 { role } else { "desc" };
            lines + &format!("{role} {role}_{ty} {ty}\n")
        })
    };
    let many: String = (0..34).fold(String::from("key pk text\n"), |lines, index| {
        let role = if index % 3 == 0 { "desc" } else { "asc" };
        lines + &format!("{role} c{index:02} {}\n", ["int", "text", "tinyint"][index % 3])
    });
    vec![
        Schema::new("composite", &(of_all("key") + &of_all("asc") + "value v int"), "", FEW),
        Schema::new("many_clusterings", &(many + "static s text\nvalue v text"), "", Load { rows: 6, ..FEW }),
        Schema::new("key_value", "key k text\nvalue v blob", "", Load { partitions: 150, ..FEW }),
        Schema::new(
            "keys_only",
            "key a int\nkey b text\nasc c int\ndesc d text",
            "bloom_filter_fp_chance = 1.0",
            FEW,
        ),
        Schema::new("lone_key", "key k uuid", "", Load { partitions: 60, ..FEW }),
    ]
}

/// COMPACT STORAGE without clustering columns, with one and with several, with a value and without.
fn compact() -> Vec<Schema> {
    vec![
        Schema::new(
            "compact_static",
            "key k text
             value a int
             value b text
             value \"C\" frozen<list<int>>",
            COMPACT,
            Load { partitions: 60, ..FEW },
        )
        .quick(),
        Schema::new(
            "compact_static_keys",
            "key a int\nkey b text\nvalue column1 blob\nvalue value timestamp",
            COMPACT,
            FEW,
        ),
        Schema::new("compact_value", "key k int\ndesc c bigint\nvalue v blob", COMPACT, FEW),
        Schema::new("compact_row_is_key", "key k text\nasc c timeuuid", COMPACT, FEW),
        Schema::new(
            "compact_clusterings",
            "key k int\nasc a int\ndesc b text\nasc c int\nvalue v text",
            COMPACT,
            Load { writes: 220, ..FEW },
        )
        .quick(),
        Schema::new("compact_rows_are_keys", "key k int\ndesc a text\nasc b inet", COMPACT, FEW),
        Schema::new("compact_wide", "key k int\nasc a int\nasc b text\nvalue v text", COMPACT, WIDE),
    ]
}

fn collections() -> Vec<Schema> {
    vec![
        Schema::new(
            "collections",
            "key pk text
             asc ck int
             static sl list<text>
             static st set<int>
             static sm map<text, int>
             static s text
             value l list<int>
             value t set<text>
             value m map<int, text>
             value n map<timeuuid, blob>
             value v int",
            "compression = {'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}",
            Load { writes: 220, ..FEW },
        )
        .quick(),
        Schema::new(
            "frozen_ones",
            "key pk frozen<list<int>>
             asc ck frozen<set<text>>
             desc cm frozen<map<int, text>>
             static s frozen<list<text>>
             value l frozen<list<int>>
             value t frozen<set<text>>
             value m frozen<map<text, int>>",
            "",
            FEW,
        ),
        Schema::new(
            "nested",
            "key pk frozen<map<text, frozen<list<int>>>>
             asc ck frozen<list<frozen<set<int>>>>
             value l list<frozen<map<int, text>>>
             value t set<frozen<list<text>>>
             value m map<text, frozen<map<int, frozen<set<text>>>>>
             value n map<frozen<tuple<int, text>>, frozen<place>>
             value f frozen<map<text, frozen<list<frozen<set<int>>>>>>",
            "",
            FEW,
        ),
        Schema::new(
            "user_types",
            "key pk frozen<place>
             asc ck frozen<person>
             static s place
             value u person
             value p place
             value f frozen<person>
             value l list<frozen<place>>",
            "",
            Load { writes: 160, ..FEW },
        )
        .quick(),
        Schema::new(
            "tuples",
            "key pk tuple<int, text>
             desc ck tuple<text, bigint, boolean>
             static s tuple<int, int>
             value t tuple<int, tuple<text, double>, frozen<set<int>>>
             value l list<frozen<tuple<int, text>>>",
            "",
            FEW,
        ),
        Schema::new(
            "vectors",
            "key pk vector<int, 2>
             asc ck vector<float, 2>
             desc ct vector<text, 2>
             static s vector<bigint, 2>
             value v vector<float, 16>
             value t vector<text, 3>
             value w vector<vector<float, 2>, 2>
             value b vector<boolean, 5>",
            "",
            FEW,
        ),
        Schema::new("counters", "key pk text\nasc ck int\nvalue n counter", "", Load { deletes: 4, ..FEW }),
    ]
}

fn shapes() -> Vec<Schema> {
    let mut many = String::from("key pk text\nasc ck smallint\nvalue \"Größe\" int\nvalue \"UPPER\" text\n");
    for index in 0..70 {
        many += &format!("value v{index:02} {}\n", if index % 2 == 0 { "int" } else { "text" });
    }
    for index in 0..66 {
        many += &format!("static s{index:02} {}\n", if index % 5 == 0 { "set<int>" } else { "boolean" });
    }
    let readded = Schema {
        alters: &[
            "DROP v USING TIMESTAMP 1600000000500000",
            "ADD v int",
            "DROP m USING TIMESTAMP 1600000000500000",
            "ADD m map<int, text>",
            "DROP s USING TIMESTAMP 1600000000500000",
            "ADD s text static",
            "ADD later int",
            "DROP gone USING TIMESTAMP 1600000000500000",
        ],
        ..Schema::new(
            "readded",
            "key pk int\nasc ck int\nstatic s text\nvalue v int\nvalue m map<int, text>\nvalue stays text\nvalue gone int",
            "",
            FEW,
        )
    };
    vec![
        Schema::new("many_columns", &many, "", Load { partitions: 8, rows: 4, writes: 60, ..FEW }).quick(),
        Schema::new("static_rows", "key pk int\nasc ck text\nstatic s text\nstatic n int", "", FEW),
        Schema::new(
            "expiring",
            "key pk int\nasc ck int\nstatic s text\nvalue v text\nvalue m map<int, text>\nvalue t set<int>",
            "default_time_to_live = 900000 AND gc_grace_seconds = 60",
            Load { writes: 200, ..FEW },
        ),
        Schema::new(
            "tombstones",
            "key pk int
             asc a int
             desc b text
             asc c bigint
             static s int
             value v text
             value l list<int>
             value m map<text, int>",
            "",
            Load { partitions: 5, rows: 60, writes: 350, deletes: 65, bytes: 12, ..FEW },
        )
        .quick(),
        readded,
        Schema::new(
            "empties",
            "key pk int
             asc a int
             desc b text
             asc c bigint
             desc d timeuuid
             value v_ascii ascii
             value v_bigint bigint
             value v_blob blob
             value v_boolean boolean
             value v_decimal decimal
             value v_double double
             value v_float float
             value v_inet inet
             value v_int int
             value v_text text
             value v_timestamp timestamp
             value v_uuid uuid
             value v_varint varint
             value l list<text>
             value t set<int>
             value m map<int, blob>",
            "",
            Load { empty: 30, writes: 160, ..FEW },
        ),
    ]
}

fn storage() -> Vec<Schema> {
    vec![
        Schema::new(
            "wide",
            "key pk int\nasc ck int\nstatic s text\nvalue v text\nvalue b blob",
            "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}",
            Load { deletes: 50, ..WIDE },
        )
        .quick(),
        Schema::new(
            "wide_reversed",
            "key pk text\ndesc a int\nasc b timeuuid\nvalue v text\nvalue l list<text>",
            "compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 4}",
            Load { deletes: 50, repetitive: true, ..WIDE },
        ),
        Schema::new(
            "huge_cells",
            "key pk int\nasc ck int\nvalue b blob\nvalue t text\nvalue m map<int, blob>",
            "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 128, 'min_compress_ratio': 1.5}",
            HUGE,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_names_of_their_own_and_few_are_quick() {
        let all = all();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|schema| schema.name.as_str()).collect();
        assert_eq!((all.len(), names.len()), (48, 48));
        assert_eq!(all.iter().filter(|schema| schema.quick).count(), 8);
        let text = all[20].create("k");
        assert!(text.starts_with("CREATE TABLE k.composite (key_ascii ascii, "), "{text}");
        assert!(text.contains("CLUSTERING ORDER BY (asc_ascii ASC, desc_bigint DESC"), "{text}");
    }
}
