//! Paths: `/alice/data/2018/file.root`. Absolute, without empty parts, `.` and `..`.

use crate::error::Error;
use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX};

/// The path of everything.
pub const ROOT: &str = "/";

/// The path, if it is one. The root is.
pub fn checked(path: &str) -> Result<&str, Error> {
    let wrong = |reason| Err(Error::Path { path: path.to_owned(), reason });
    if PATH_BYTES_MAX < path.len() {
        return wrong("it is longer than 4096 bytes");
    }
    let Some(parts) = path.strip_prefix('/') else { return wrong("it does not begin with /") };
    if parts.is_empty() {
        return Ok(path);
    }
    for part in parts.split('/') {
        if let Some(reason) = wrong_name(part) {
            return wrong(reason);
        }
    }
    Ok(path)
}

fn wrong_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("a part of it is empty"),
        "." | ".." => Some("a part of it is . or .."),
        name if NAME_BYTES_MAX < name.len() => Some("a part of it is longer than 255 bytes"),
        name if name.contains('\0') => Some("it contains a zero byte"),
        _ => None,
    }
}

/// The folder and the name in it; the root has none. The path is a checked one.
pub fn split(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.rsplit_once('/')?;
    if name.is_empty() {
        return None;
    }
    Some((if folder.is_empty() { ROOT } else { folder }, name))
}

/// The folder and the name of a checked path that must not be the root.
pub fn split_entry(path: &str) -> Result<(&str, &str), Error> {
    split(checked(path)?)
        .ok_or_else(|| Error::Path { path: path.to_owned(), reason: "the root is no entry of a folder" })
}

/// The path of a name in a folder.
pub fn join(folder: &str, name: &str) -> String {
    if folder == ROOT { format!("/{name}") } else { format!("{folder}/{name}") }
}

/// Whether a path is a folder's own or below it.
pub fn is_within(path: &str, folder: &str) -> bool {
    folder == ROOT || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_path_is_told_why() {
        for good in ["/", "/a", "/a/b c/.d", "/a/…"] {
            assert!(checked(good).is_ok(), "{good}");
        }
        let long = format!("/{}", "n".repeat(256));
        let longer = "/n".repeat(2049);
        for (bad, reason) in [
            ("", "begin with /"),
            ("a/b", "begin with /"),
            ("//a", "empty"),
            ("/a/", "empty"),
            ("/a/../b", ".."),
            ("/a/.", "."),
            ("/a\0", "zero byte"),
            (&long, "255 bytes"),
            (&longer, "4096 bytes"),
        ] {
            let text = checked(bad).expect_err(bad).to_string();
            assert!(text.contains(reason), "{text}");
        }
        assert!(split_entry("/").is_err());
    }

    #[test]
    fn paths_are_split_and_joined() {
        assert_eq!((split("/"), split("/a"), split("/a/b")), (None, Some(("/", "a")), Some(("/a", "b"))));
        assert_eq!((join("/", "a").as_str(), join("/a", "b").as_str()), ("/a", "/a/b"));
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/"));
        assert!(!is_within("/ab", "/a") && !is_within("/", "/a"));
    }
}
