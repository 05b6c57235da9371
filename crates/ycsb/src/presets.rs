//! The workloads that come with YCSB, for those who have the tool and not its folder.

/// What the six have in common.
const COMMON: &str =
    "recordcount=1000\noperationcount=1000\nworkload=site.ycsb.workloads.CoreWorkload\nreadallfields=true\n";

/// The content of a property file whose name ends in `workloada` to `workloadf`, whatever the folder.
pub fn preset(file: &str) -> Option<String> {
    let name = file.rsplit('/').next()?;
    let rest = match name.strip_prefix("workload")? {
        "a" => mix("0.5", "0.5", "0", "0", "zipfian"),
        "b" => mix("0.95", "0.05", "0", "0", "zipfian"),
        "c" => mix("1", "0", "0", "0", "zipfian"),
        "d" => mix("0.95", "0", "0", "0.05", "latest"),
        "e" => {
            let scans = "maxscanlength=100\nscanlengthdistribution=uniform\n";
            mix("0", "0", "0.95", "0.05", "zipfian") + scans
        }
        "f" => mix("0.5", "0", "0", "0", "zipfian") + "readmodifywriteproportion=0.5\n",
        _ => return None,
    };
    Some(format!("{COMMON}{rest}"))
}

fn mix(read: &str, update: &str, scan: &str, insert: &str, distribution: &str) -> String {
    format!(
        "readproportion={read}\nupdateproportion={update}\nscanproportion={scan}\ninsertproportion={insert}\n\
         requestdistribution={distribution}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::Properties;

    #[test]
    fn six_are_there_whatever_the_folder() {
        for letter in ["a", "b", "c", "d", "e", "f"] {
            let text = preset(&format!("some/folder/workload{letter}")).expect(letter);
            let properties = Properties::parse("preset", text.as_bytes()).expect(letter);
            let shares = ["read", "update", "insert", "scan", "readmodifywrite"];
            let sum: f64 = shares
                .iter()
                .map(|name| properties.number(&format!("{name}proportion"), 0.0).expect("a share"))
                .sum();
            assert!((sum - 1.0).abs() < 1e-9, "{letter}: {sum}");
        }
        assert_eq!((preset("workloadg"), preset("workload"), preset("my.properties")), (None, None, None));
    }
}
