//! Dependencies that a crate declares and none of its Rust files names.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::source::Source;
use crate::tokens;

/// Packages whose library has another name: the package, the library.
const LIBRARIES: &[(&str, &str)] = &[("md-5", "md5")];

/// Refuses each dependency of these packages, as `cargo metadata` lists them, whose name is in no code of the package's `src`, `tests`,
/// `benches`, `examples` or `build.rs`. Comments and strings do not count. One that is there only so that another takes no other
/// version is listed in the package's `[package.metadata] pins`.
pub fn unused(packages: &[Value], sources: &[Source], breaches: &mut Vec<String>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for package in packages {
        let Some(user) = package["name"].as_str() else { continue };
        let pins = list(&package["metadata"]["pins"]);
        let mut missing: BTreeMap<String, String> = list(&package["dependencies"])
            .iter()
            .filter(|dependency| !pins.contains(&dependency["name"]))
            .map(|dependency| {
                (library(dependency), dependency["name"].as_str().unwrap_or_default().to_owned())
            })
            .collect();
        for source in sources.iter().filter(|source| source.is_rust() && source.crate_name() == Some(user)) {
            // Most files say nothing that is still looked for.
            if missing.keys().any(|library| source.text.contains(library.as_str())) {
                for token in tokens::tokens(&source.text) {
                    missing.remove(token.text);
                }
            }
        }
        breaches.extend(missing.iter().map(|(library, name)| {
            format!(
                "crates/{user}/Cargo.toml: depends on {name}, and no Rust file of the crate says {library}"
            )
        }));
    }
}

/// The name by which code uses a dependency.
fn library(dependency: &Value) -> String {
    let text = |key: &str| dependency[key].as_str();
    let name = text("rename").or(text("name")).unwrap_or_default();
    match LIBRARIES.iter().find(|(package, _)| *package == name) {
        Some((_, library)) => (*library).to_owned(),
        None => name.replace('-', "_"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(text: &str, dependencies: &[&str]) -> Vec<String> {
        let names: Vec<Value> = dependencies.iter().map(|name| json!({ "name": name })).collect();
        let sources = [Source { path: "crates/x/src/lib.rs".into(), text: text.to_owned() }];
        let mut breaches = Vec::new();
        let package = json!({ "name": "x", "dependencies": names, "metadata": { "pins": ["pinned"] } });
        unused(&[package], &sources, &mut breaches);
        breaches
    }

    #[test]
    fn a_dependency_that_no_code_names_is_refused() {
        let text = "// io_uring\nconst A: &str = \"bytes\";\nuse md5::Md5;\nfn f() { rand_core::g() }";
        assert!(found(text, &["md-5", "rand-core"]).is_empty());
        let breaches = found(text, &["io-uring", "md-5", "bytes", "pinned"]);
        assert_eq!(breaches.len(), 2);
        assert!(breaches[0].starts_with("crates/x/Cargo.toml: depends on bytes"));
        assert!(breaches[1].contains("depends on io-uring, and no Rust file of the crate says io_uring"));
    }

    #[test]
    fn a_renamed_dependency_goes_by_its_new_name() {
        assert_eq!(library(&json!({ "name": "md-5", "rename": "old-md5" })), "old_md5");
    }
}
