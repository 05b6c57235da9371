//! Both formats: what they allow is read, what they do not is named with its line, wherever the bytes are cut.

use super::*;
use crate::record::{FIELDS, Record};
use proptest::prelude::*;
use uuid::Uuid;

const GUID: &str = "8b7c2f00-c50a-11e8-9a1d-0242ac110002";

fn parser(format: Format) -> Parser {
    match format {
        Format::Csv => Parser::Csv(csv::Csv::default()),
        Format::Mysql => Parser::Mysql(mysql::Mysql::new("files")),
    }
}

/// All rows of a text that comes in pieces of so many bytes, as `path|owner|…`; or what is wrong.
fn rows_of(format: Format, text: &[u8], piece: usize) -> Result<Vec<String>, String> {
    let mut parser = parser(format);
    let (mut row, mut rows, mut at, mut seen) = (Row::default(), Vec::new(), 0, 0);
    loop {
        match parser.next(&text[at..seen], seen == text.len(), &mut row)? {
            Step::More => {
                assert!(seen < text.len(), "asks for more than there is");
                seen = (seen + piece).min(text.len());
            }
            Step::End => return Ok(rows),
            Step::Passed(taken) => at += taken,
            Step::Row(taken) => {
                at += taken;
                let record = parser.columns().record(&row)?;
                rows.push(shown(&record));
            }
        }
    }
}

fn shown(record: &Record<'_>) -> String {
    let Record { path, owner, permissions, size, changed, guid, locations } = record;
    format!("{path}|{owner}|{permissions:o}|{size}|{changed}|{guid}|{locations}")
}

fn rows(format: Format, text: &str) -> Result<Vec<String>, String> {
    let whole = rows_of(format, text.as_bytes(), usize::MAX);
    for piece in [1, 2, 7] {
        assert_eq!(rows_of(format, text.as_bytes(), piece), whole, "in pieces of {piece}");
    }
    whole
}

#[test]
fn csv_is_as_rfc_4180_says() {
    let plain = format!(
        "/a/b,me,644,1,2,{GUID},A=x\r\n\"/a/\"\"c\"\", d\r\ne\",me,600,1,2,{GUID},\n\n/a/f,me,7,0,0,{GUID},B=y"
    );
    let expected = [
        format!("/a/b|me|644|1|2|{GUID}|A=x"),
        format!("/a/\"c\", d\r\ne|me|600|1|2|{GUID}|"),
        format!("/a/f|me|7|0|0|{GUID}|B=y"),
    ];
    assert_eq!(rows(Format::Csv, &plain), Ok(expected.to_vec()));
    let turned =
        format!("\u{feff}guid,PATH,owner,permissions,size,changed,locations\n{GUID},/a/b,me,644,1,2,A=x\n");
    assert_eq!(rows(Format::Csv, &turned), Ok(vec![expected[0].clone()]));
    assert_eq!(rows(Format::Csv, ""), Ok(Vec::new()));
    for (bad, said) in [
        ("/a,b\"c\n", "a quote inside a field"),
        ("\"/a\"b\n", "\"b\" after the end of a quoted field"),
        ("\"/a\n", "a quoted field without an end"),
        ("/a\rb\n", "a carriage return"),
        ("/a,b\n", "2 fields instead of 7"),
        ("path,owner\n", "no column \"permissions\""),
    ] {
        let text = rows(Format::Csv, bad).expect_err(bad);
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn a_dump_is_read_statement_by_statement() {
    let guid = GUID.replace('-', "");
    let dump = format!(
        "-- a dump; of 'files'\n/*!40101 SET NAMES utf8 */;\n# other\nSET @x = 'a;b';\n\
         CREATE TABLE `other` (`path` int);\nINSERT INTO `other` VALUES (1,'(;'),(2,NULL);\n\
         CREATE TABLE IF NOT EXISTS `files` (\n `owner` varchar(9) DEFAULT 'a,b' COMMENT 'it''s, (x)', `path` text, `locations` enum('a','b)'),\n\
         `guid` binary(16), permissions char(4), size decimal(3,0), `changed` datetime,\n PRIMARY KEY (`path`), KEY `k` (`owner`,`size`)\n) ENGINE=InnoDB;\n\
         INSERT INTO `files` VALUES ('me','/a/it\\'s','A=x',0x{guid},'0644',1,'1970-01-01 00:00:00.002'),\n\
         (\"me\",'/a/''q''\\\\\\n','',x'{guid}','600',1,2) ;\n\
         DELIMITER ;;\nCREATE TRIGGER t BEGIN INSERT INTO `files` VALUES (1);; END ;;\nDELIMITER ;\n\
         insert ignore into db.files (path, owner, permissions, size, changed, guid, locations) values\n\
         ('/a/f','me','7',0,0,_binary '{GUID}','B=y'); UNLOCK TABLES;"
    );
    assert_eq!(
        rows(Format::Mysql, &dump),
        Ok(vec![
            format!("/a/it's|me|644|1|2|{GUID}|A=x"),
            format!("/a/'q'\\\n|me|600|1|2|{GUID}|"),
            format!("/a/f|me|7|0|0|{GUID}|B=y"),
        ])
    );
}

#[test]
fn bytes_of_a_guid_are_unescaped() {
    let guid = Uuid::try_parse("00225c27-0a1a-1108-9a1d-0242ac110d5f").expect("a UUID");
    let mut dump = b"INSERT INTO files VALUES ('/a','me','644',1,2,_binary '".to_vec();
    for byte in guid.as_bytes() {
        match byte {
            0 => dump.extend_from_slice(b"\\0"),
            b'"' | b'\\' | b'\'' => dump.extend_from_slice(&[b'\\', *byte]),
            10 => dump.extend_from_slice(b"\\n"),
            26 => dump.extend_from_slice(b"\\Z"),
            byte => dump.push(*byte),
        }
    }
    dump.extend_from_slice(b"','');\n");
    for piece in [1, 3, 1000] {
        assert_eq!(rows_of(Format::Mysql, &dump, piece), Ok(vec![format!("/a|me|644|1|2|{guid}|")]));
    }
}

#[test]
fn a_dump_that_makes_no_sense_is_named() {
    for (bad, said) in [
        ("INSERT INTO files VALUES (1,2", "the file ends in a row"),
        ("INSERT INTO files VALUES ('a", "the file ends in a row"),
        ("INSERT INTO others VALUES (1) (2);", "expected a comma or semicolon after a row, found \"(\""),
        ("INSERT INTO others VALUES (1)", "the last INSERT has no end"),
        ("INSERT INTO files VALUES 1;", "expected a row in parentheses, found \"1\""),
        ("INSERT INTO files SELECT 1;", "expected VALUES, found \"SELECT\""),
        ("INSERT INTO files VALUES (NOW());", "\"NOW\" is no literal"),
        ("INSERT INTO files VALUES (0x1);", "\"1\" is not hexadecimal"),
        ("INSERT INTO files VALUES (1 2);", "\"2\" after a value"),
        ("INSERT INTO files VALUES (1,2);", "2 fields instead of 7"),
        ("INSERT INTO files (path) VALUES ('/a');", "no column \"owner\""),
        ("INSERT INTO (path) VALUES ('/a');", "expected a name, found \"(\""),
    ] {
        let text = rows(Format::Mysql, bad).expect_err(bad);
        assert!(text.contains(said), "{bad}: {text}");
    }
}

#[test]
fn formats_are_known_by_their_files() {
    assert_eq!(Format::of_file("/x/a.CSV"), Some(Format::Csv));
    assert_eq!(
        (Format::of_file("a.sql"), Format::of_file("a.dump")),
        (Some(Format::Mysql), Some(Format::Mysql))
    );
    assert_eq!((Format::of_file("csv"), Format::of_file("a.gz")), (None, None));
}

proptest! {
    #[test]
    fn what_is_written_is_read(name in "[^/\0]{1,20}", owner in "\\PC{0,10}", place in "[^\0]{1,20}", piece in 1usize..50) {
        let mut locations = String::new();
        crate::record::put_location("A", &place, &mut locations);
        let path = format!("/{}", if name.starts_with('.') { "x".to_owned() } else { name });
        let guid = Uuid::try_parse(GUID).expect("a UUID");
        let record = Record { path: &path, owner: &owner, permissions: 0o644, size: 7, changed: -1_000_000_001, guid, locations: &locations };
        let record = Record { changed: 1_000_000_001, ..record };
        let mut csv = (FIELDS.join(",") + "\r\n").into_bytes();
        crate::generate::put_csv(&record, &mut csv);
        prop_assert_eq!(rows_of(Format::Csv, &csv, piece), Ok(vec![shown(&record)]));
        let mut dump = b"INSERT INTO `files` VALUES ".to_vec();
        crate::generate::put_values(&record, &mut dump);
        dump.push(b';');
        prop_assert_eq!(rows_of(Format::Mysql, &dump, piece), Ok(vec![shown(&record)]));
    }

    #[test]
    fn any_bytes_end_in_rows_or_a_reason(bytes in proptest::collection::vec(any::<u8>(), 0..200), piece in 1usize..50) {
        let mut text = b"INSERT INTO files VALUES (".to_vec();
        text.extend_from_slice(&bytes);
        let _rows_or_reason = rows_of(Format::Mysql, &text, piece);
        let _rows_or_reason = rows_of(Format::Mysql, &bytes, piece);
        let _rows_or_reason = rows_of(Format::Csv, &bytes, piece);
    }
}
