//! Znode paths: which are legal, and how they hang together.

/// Whether ZooKeeper accepts `path` as the name of a znode: absolute, no empty, `.` or `..` element, no
/// trailing slash, and none of the characters it reserves.
pub fn is_valid(path: &str) -> bool {
    let Some(elements) = path.strip_prefix('/') else { return false };
    if elements.is_empty() {
        return true;
    }
    elements.split('/').all(|element| !matches!(element, "" | "." | "..")) && elements.chars().all(is_allowed)
}

/// Java judges UTF-16 units, so a character beyond the basic plane (two surrogates there) is never allowed.
fn is_allowed(c: char) -> bool {
    !matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}'
        | '\u{10000}'..)
}

/// The parent of `path` and the last element, or `None` when there is no slash. The parent of `/a` is `/`.
pub fn split(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    Some((if parent.is_empty() { "/" } else { parent }, name))
}

/// The ancestors of `path`, nearest first, ending with `/`; nothing for `/` itself.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(path), |path| parent(path))
}

fn parent(path: &str) -> Option<&str> {
    if path == "/" { None } else { split(path).map(|(parent, _)| parent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zookeeper_decides_which_paths_are_valid() {
        for path in ["/", "/a", "/a/b", "/a.b", "/...", "/.a", "/a b", "/日本", "/a/..b"] {
            assert!(is_valid(path), "{path:?}");
        }
        for path in [
            "",
            "a",
            "a/b",
            "/a/",
            "//",
            "/a//b",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/a\0",
            "/\u{1f}",
            "/\u{7f}",
            "/\u{e000}",
            "/\u{fff0}",
            "/\u{1f600}",
        ] {
            assert!(!is_valid(path), "{path:?}");
        }
    }

    #[test]
    fn ancestors_run_up_to_the_root() {
        assert_eq!(ancestors("/a/b/c").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(ancestors("/").count(), 0);
    }
}
