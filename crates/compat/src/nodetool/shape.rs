//! From a screen to its shape: what differs from node to node is taken out, what a script sees stays.

/// How the columns of a screen are made.
#[derive(Debug, Clone, Copy)]
pub enum Layout {
    /// Lines that stand for themselves.
    Lines,
    /// As lines, each different one once: how many there are is the data's.
    Unique,
    /// Columns of fixed width, filled from the left: a number's place keeps its width.
    Right,
    /// Columns of fixed width, filled to the right.
    Left,
    /// Columns as wide as their longest cell, under these heads; rows each different one once, and sorted.
    Table(&'static [&'static str]),
    /// Two such tables below each other, whose first column names what each server has of its own.
    Names([&'static [&'static str]; 2]),
    /// Lines that are all padded to the longest.
    Padded,
    /// Lines, and a list of keyspaces in any order.
    Keyspaces,
}

/// The shape of a screen, line by line.
pub fn lines(text: &str, layout: Layout) -> Vec<String> {
    match layout {
        Layout::Lines => text.lines().map(|line| normal(line, Pad::None)).collect(),
        Layout::Unique => unique(text.lines().map(|line| normal(line, Pad::None))),
        Layout::Right => unique(text.lines().map(|line| normal(line, Pad::Before))),
        Layout::Left => unique(text.lines().map(|line| normal(line, Pad::After))),
        Layout::Table(heads) => table(text, heads),
        Layout::Names(heads) => names(text, heads),
        Layout::Padded => padded(text),
        Layout::Keyspaces => keyspaces(text),
    }
}

fn unique(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in lines {
        // Empty lines are layout wherever they are.
        if line.is_empty() || !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

/// Tables whose rows are known by names of the server's own: one row stands for all that look alike.
fn names(text: &str, heads: [&[&str]; 2]) -> Vec<String> {
    let (first, second) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut shape = Vec::new();
    for (part, heads) in [first, second].into_iter().zip(heads) {
        let mut lines: Vec<String> = table(part, heads)
            .into_iter()
            .map(|line| match line.split_once('|') {
                Some((row, cells)) if row.starts_with("row ") => format!("row <name>|{cells}"),
                _ => line,
            })
            .collect();
        lines.dedup();
        shape.extend(lines);
    }
    shape
}

fn padded(text: &str) -> Vec<String> {
    let width = text.lines().next().map_or(0, |line| line.chars().count());
    let whole = text.lines().all(|line| line.chars().count() == width);
    let lines = text.lines().map(|line| normal(line.trim_end(), Pad::None));
    std::iter::once(format!("[padded: {whole}]")).chain(lines).collect()
}

fn keyspaces(text: &str) -> Vec<String> {
    let mut shape = lines(text, Layout::Lines);
    let is_keyspace = |line: &String| line.contains(" -> Replication class: ");
    if let Some(first) = shape.iter().position(is_keyspace) {
        let length = shape[first..].iter().take_while(|line| is_keyspace(line)).count();
        shape[first..first + length].sort();
    }
    shape
}

/// Replaces a table by its cells, one row each, after checking that its columns stand where they should.
fn table(text: &str, heads: &[&str]) -> Vec<String> {
    let all: Vec<&str> = text.lines().collect();
    let Some((at, starts)) = all.iter().enumerate().find_map(|(at, line)| Some((at, starts(line, heads)?)))
    else {
        return lines(text, Layout::Lines);
    };
    let end = all[at..].iter().position(|line| line.is_empty()).map_or(all.len(), |length| at + length);
    let mut shape: Vec<String> = all[..at].iter().map(|line| normal(line, Pad::None)).collect();
    let between = starts
        .get(1)
        .map_or(0, |second| all[at][starts[0]..*second].chars().rev().take_while(|c| *c == ' ').count());
    let widest = widest_gap(&all[at..end], &starts);
    shape.push(format!("[{}] between: {}", heads.join("|"), widest.min(between)));
    let width = all[at].chars().count();
    let mut rows = Vec::new();
    for line in &all[at + 1..end] {
        let cells = cells(line, &starts);
        let padded = if line.chars().count() == width { "" } else { " (not padded)" };
        let cells: Vec<String> = cells.iter().map(|cell| normal(cell.trim_end(), Pad::None)).collect();
        rows.push(format!("row {}{padded}", cells.join("|")));
    }
    rows.sort();
    rows.dedup();
    shape.extend(rows);
    shape.extend(lines(&all[end..].join("\n"), Layout::Lines));
    shape
}

/// Blanks that every row has before the second column: what stands between columns.
fn widest_gap(rows: &[&str], starts: &[usize]) -> usize {
    let Some(second) = starts.get(1) else { return 0 };
    let gap = |row: &&str| {
        let before: Vec<char> = row.chars().take(*second).collect();
        before.iter().rev().take_while(|c| **c == ' ').count()
    };
    rows.iter().map(gap).min().unwrap_or(0)
}

/// Where each head begins, if the line is made of them.
fn starts(line: &str, heads: &[&str]) -> Option<Vec<usize>> {
    let mut starts = Vec::new();
    let mut at = 0;
    for head in heads {
        let rest = &line[at..];
        let blanks = rest.len() - rest.trim_start().len();
        rest.trim_start().starts_with(head).then_some(())?;
        starts.push(at + blanks);
        at += blanks + head.len();
    }
    line[at..].trim().is_empty().then_some(starts)
}

fn cells(line: &str, starts: &[usize]) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    let cell = |(index, start): (usize, &usize)| {
        let end = starts.get(index + 1).copied().unwrap_or(chars.len()).min(chars.len());
        chars.get(*start..end).unwrap_or_default().iter().collect()
    };
    starts.iter().enumerate().map(cell).collect()
}

/// Where blanks make up for a number that became shorter.
#[derive(Clone, Copy, PartialEq)]
enum Pad {
    None,
    Before,
    After,
}

/// The end of a data file's path: keyspace, table, file. Each server writes the format it prefers.
fn data_file(line: &str) -> Option<String> {
    let inside = line.strip_prefix('/')?.strip_suffix("-Data.db")?;
    let mut parts = inside.rsplit('/');
    let (file, folder, keyspace) = (parts.next()?, parts.next()?, parts.next()?);
    let table = folder.split_once('-')?.0;
    let generation = match (file.strip_prefix("nb-"), file.strip_prefix("da-")) {
        (Some(big), _) => big.strip_suffix("-big")?,
        (_, Some(bti)) => bti.strip_suffix("-bti")?,
        _ => return None,
    };
    generation
        .chars()
        .all(|c| c.is_ascii_digit())
        .then(|| format!("<path>/{keyspace}/{table}-<id>/<n>-Data.db"))
}

/// A line without what differs from node to node.
fn normal(line: &str, pad: Pad) -> String {
    if let Some(path) = data_file(line) {
        return path;
    }
    let chars: Vec<char> = line.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        let inside = at > 0 && (chars[at - 1].is_alphanumeric() || "_-.".contains(chars[at - 1]));
        let found = if inside { None } else { token(&chars[at..], pad) };
        let Some((length, word)) = found else {
            out.push(chars[at]);
            at += 1;
            continue;
        };
        let blanks = length.saturating_sub(word.chars().count());
        let blanks = " ".repeat(if pad == Pad::None { 0 } else { blanks });
        let (before, after) =
            if pad == Pad::Before { (blanks, String::new()) } else { (String::new(), blanks) };
        out.push_str(&format!("{before}{word}{after}"));
        at += length;
    }
    out
}

/// What differs from node to node, if the text begins with it: its length and what stands for it.
fn token(text: &[char], pad: Pad) -> Option<(usize, &'static str)> {
    let boundary = |length: usize| text.get(length).is_none_or(|c| !c.is_alphanumeric() && *c != '_');
    for (find, word) in [(uuid as fn(&[char]) -> usize, "<uuid>"), (time, "<time>"), (address, "<address>")] {
        let length = find(text);
        if length > 0 && boundary(length) {
            return Some((length, word));
        }
    }
    if text.starts_with(&['N', 'a', 'N']) && boundary(3) {
        return Some((3, if pad == Pad::None { "<n>" } else { "#" }));
    }
    let length = number(text);
    if length == 0 {
        return None;
    }
    if text.get(length) == Some(&'%') {
        return Some((length + 1, if pad == Pad::None { "<n>%" } else { "#%" }));
    }
    let unit = unit(&text[length..]);
    if unit > 0 && boundary(length + unit) {
        return Some((length + unit, "<size>"));
    }
    boundary(length).then_some((length, if pad == Pad::None { "<n>" } else { "#" }))
}

fn unit(text: &[char]) -> usize {
    const UNITS: [&str; 12] =
        [" bytes", " KiB", " MiB", " GiB", " TiB", "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let is = |unit: &&&str| text.starts_with(&unit.chars().collect::<Vec<_>>());
    UNITS.iter().find(is).map_or(0, |unit| unit.len())
}

fn digits(text: &[char]) -> usize {
    text.iter().take_while(|c| c.is_ascii_digit()).count()
}

fn number(text: &[char]) -> usize {
    let sign = usize::from(text.first() == Some(&'-'));
    let whole = digits(&text[sign..]);
    if whole == 0 {
        return 0;
    }
    let mut length = sign + whole;
    if text.get(length) == Some(&'.') {
        let fraction = digits(&text[length + 1..]);
        length += if fraction > 0 { 1 + fraction } else { 0 };
    }
    if text.get(length) == Some(&'E') {
        let minus = usize::from(text.get(length + 1) == Some(&'-'));
        let exponent = digits(&text[length + 1 + minus..]);
        length += if exponent > 0 { 1 + minus + exponent } else { 0 };
    }
    length
}

fn uuid(text: &[char]) -> usize {
    let mut at = 0;
    for (index, group) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            if text.get(at) != Some(&'-') {
                return 0;
            }
            at += 1;
        }
        if text.iter().skip(at).take(group).filter(|c| c.is_ascii_hexdigit()).count() < group {
            return 0;
        }
        at += group;
    }
    at
}

/// `2026-11-21T13:06:55.103Z`.
fn time(text: &[char]) -> usize {
    let pattern = "dddd-dd-ddTdd:dd:dd";
    let fits = |(index, expected): (usize, char)| match (text.get(index), expected) {
        (Some(c), 'd') => c.is_ascii_digit(),
        (found, expected) => found == Some(&expected),
    };
    if !pattern.chars().enumerate().all(fits) {
        return 0;
    }
    let mut at = pattern.len();
    if text.get(at) == Some(&'.') {
        at += 1 + digits(&text[at + 1..]);
    }
    at + usize::from(text.get(at) == Some(&'Z'))
}

/// `127.0.0.1` and `127.0.0.1:9042`.
fn address(text: &[char]) -> usize {
    let mut at = 0;
    for index in 0..4 {
        if index > 0 {
            if text.get(at) != Some(&'.') {
                return 0;
            }
            at += 1;
        }
        let part = digits(&text[at..]);
        if part == 0 || part > 3 {
            return 0;
        }
        at += part;
    }
    if text.get(at) == Some(&':') {
        let port = digits(&text[at + 1..]);
        at += if port > 0 { 1 + port } else { 0 };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> String {
        normal(line, Pad::None)
    }

    #[test]
    fn what_differs_is_taken_out() {
        assert_eq!(one("Load                   : 106.57 KiB"), "Load                   : <size>");
        assert_eq!(one("\t\tBytes unrepaired: 7.510KiB"), "\t\tBytes unrepaired: <size>");
        assert_eq!(one("\tRead Latency: NaN ms"), "\tRead Latency: <n> ms");
        assert_eq!(one("\tRead Latency: 0.2391 ms"), "\tRead Latency: <n> ms");
        assert_eq!(one("6cfad6f0-e5ac-11f1-a596-c1a09588c68b at 127.0.0.1:7000"), "<uuid> at <address>");
        assert_eq!(one("{1:6, 3:1} 2026-11-21T13:06:55.103Z"), "{<n>:<n>, <n>:<n>} <time>");
        let path = "/some/where/data/shop/visits-b714c5c0e5b111f1b917455cd42d3973/nb-2-big-Data.db";
        assert_eq!(one(path), "<path>/shop/visits-<id>/<n>-Data.db");
        assert_eq!(one(&path.replace("nb-2-big", "da-7-bti")), "<path>/shop/visits-<id>/<n>-Data.db");
        assert_eq!(one("nb-2-big-Data.db rack1 99% 50 %"), "nb-2-big-Data.db rack1 <n>% <n> %");
    }

    #[test]
    fn fixed_columns_keep_their_width() {
        let (short, long) = (
            "50%                   258.00             42.00",
            "50%                 95258.00          14942.00",
        );
        assert_eq!(normal(short, Pad::Before), normal(long, Pad::Before));
        assert_ne!(normal(short, Pad::Before), normal(&long[..long.len() - 1], Pad::Before));
        assert_eq!(normal("10.1 KiB      ?", Pad::After).len(), "10.1 KiB      ?".len());
    }

    #[test]
    fn names_of_their_own_stand_for_each_other() {
        const HEADS: [&[&str]; 2] = [&["Pool", "N"], &["Message", "N"]];
        let theirs = "Pool      N\nReadStage 1\nOther     2\n\nDropped:\nMessage N\nREAD    0\n";
        let ours = "Pool  N\nquery 7\n\nDropped:\nMessage N\nREAD    0\n";
        assert_eq!(lines(theirs, Layout::Names(HEADS)), lines(ours, Layout::Names(HEADS)));
        assert_eq!(padded("a 1 \nb 22\n"), ["[padded: true]", "a <n>", "b <n>"]);
    }

    #[test]
    fn a_table_is_its_cells_and_its_padding() {
        const HEADS: &[&str] = &["User", "Connections"];
        let shape = lines("Total: 2\n\nUser      Connections\nanonymous 2          \n", Layout::Table(HEADS));
        assert_eq!(shape, ["Total: <n>", "", "[User|Connections] between: 1", "row anonymous|<n>"]);
        let shape = lines("User  Connections\nann   2\n", Layout::Table(HEADS));
        assert_eq!(shape, ["[User|Connections] between: 2", "row ann|<n> (not padded)"]);
    }
}
