//! One line of the ZooKeeper shell, understood.

use zookeeper_client::{Acl, AuthId, CreateMode, Permission};

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    List {
        path: String,
        stat: bool,
        watch: bool,
        recursive: bool,
    },
    Get {
        path: String,
        stat: bool,
        watch: bool,
    },
    Stat {
        path: String,
        watch: bool,
    },
    Set {
        path: String,
        data: String,
        stat: bool,
        version: Option<i32>,
    },
    Create {
        path: String,
        data: String,
        mode: CreateMode,
        acl: Vec<Acl>,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
    DeleteAll {
        path: String,
    },
    GetAcl {
        path: String,
        stat: bool,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        stat: bool,
        version: Option<i32>,
    },
    Sync {
        path: String,
    },
    AddAuth {
        scheme: String,
        auth: String,
    },
    CountBelow {
        path: String,
    },
    Ephemerals {
        path: String,
    },
    WhoAmI,
    /// `None` asks whether they are shown.
    PrintWatches(Option<bool>),
    Version,
    Help,
    Quit,
}

/// Why a line is no order.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misunderstood {
    #[error("Command not found: Command not found {0}")]
    Unknown(String),
    #[error("{0}")]
    Usage(&'static str),
    #[error("Unrecognized option: {0}")]
    Option(String),
    #[error("Path must start with / character")]
    Relative,
    #[error("Path must not end with / character")]
    TrailingSlash,
    #[error("{0} is not a version number")]
    Version(String),
    #[error("{0} does not have the form scheme:id:perm")]
    Acl(String),
    #[error("{0} holds a permission other than c, d, r, w and a")]
    Permissions(String),
}

/// How each command is written, in the order of the help. One letter in `flags` stands alone, one in `valued` has a value behind it.
struct Form {
    name: &'static str,
    usage: &'static str,
    flags: &'static str,
    valued: &'static str,
    read: fn(Words) -> Result<Order, Misunderstood>,
}

const FORMS: &[Form] = &[
    Form {
        name: "addauth",
        usage: "addauth scheme auth",
        flags: "",
        valued: "",
        read: |mut words| {
            Ok(Order::AddAuth { scheme: words.next()?, auth: words.rest.next().unwrap_or_default() })
        },
    },
    Form { name: "close", usage: "close", flags: "", valued: "", read: |_| Ok(Order::Quit) },
    Form {
        name: "create",
        usage: "create [-s] [-e] [-c] path [data] [acl]",
        flags: "sec",
        valued: "",
        read: |mut words| {
            let mode = match (words.has('s'), words.has('e'), words.has('c')) {
                (false, false, false) => CreateMode::Persistent,
                (true, false, false) => CreateMode::PersistentSequential,
                (false, true, false) => CreateMode::Ephemeral,
                (true, true, false) => CreateMode::EphemeralSequential,
                (false, false, true) => CreateMode::Container,
                (_, _, true) => {
                    return Err(Misunderstood::Usage(
                        "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.",
                    ));
                }
            };
            let path = words.path()?;
            let data = words.rest.next().unwrap_or_default();
            let anyone = Acl::new(Permission::ALL, AuthId::anyone());
            let acl = words.rest.next().map_or(Ok(vec![anyone]), |text| acl(&text))?;
            Ok(Order::Create { path, data, mode, acl })
        },
    },
    Form {
        name: "delete",
        usage: "delete [-v version] path",
        flags: "",
        valued: "v",
        read: |mut words| Ok(Order::Delete { version: words.version()?, path: words.path()? }),
    },
    Form {
        name: "deleteall",
        usage: "deleteall path",
        flags: "",
        valued: "b",
        read: |mut words| Ok(Order::DeleteAll { path: words.path()? }),
    },
    Form {
        name: "get",
        usage: "get [-s] [-w] path",
        flags: "sw",
        valued: "",
        read: |mut words| Ok(Order::Get { stat: words.has('s'), watch: words.has('w'), path: words.path()? }),
    },
    Form {
        name: "getAcl",
        usage: "getAcl [-s] path",
        flags: "s",
        valued: "",
        read: |mut words| Ok(Order::GetAcl { stat: words.has('s'), path: words.path()? }),
    },
    Form {
        name: "getAllChildrenNumber",
        usage: "getAllChildrenNumber path",
        flags: "",
        valued: "",
        read: |mut words| Ok(Order::CountBelow { path: words.path()? }),
    },
    Form {
        name: "getEphemerals",
        usage: "getEphemerals [path]",
        flags: "",
        valued: "",
        read: |mut words| {
            let path = if words.rest.len() == 0 { "/".to_owned() } else { words.path()? };
            Ok(Order::Ephemerals { path })
        },
    },
    Form { name: "help", usage: "help", flags: "", valued: "", read: |_| Ok(Order::Help) },
    Form {
        name: "ls",
        usage: "ls [-s] [-w] [-R] path",
        flags: "swR",
        valued: "",
        read: |mut words| {
            Ok(Order::List {
                stat: words.has('s'),
                watch: words.has('w'),
                recursive: words.has('R'),
                path: words.path()?,
            })
        },
    },
    Form {
        // Until ZooKeeper 3.4.
        name: "ls2",
        usage: "ls2 path",
        flags: "w",
        valued: "",
        read: |mut words| {
            Ok(Order::List { stat: true, watch: words.has('w'), recursive: false, path: words.path()? })
        },
    },
    Form {
        name: "printwatches",
        usage: "printwatches on|off",
        flags: "",
        valued: "",
        read: |mut words| match words.rest.next().as_deref() {
            None => Ok(Order::PrintWatches(None)),
            Some("on") => Ok(Order::PrintWatches(Some(true))),
            Some("off") => Ok(Order::PrintWatches(Some(false))),
            Some(_) => Err(Misunderstood::Usage(words.usage)),
        },
    },
    Form { name: "quit", usage: "quit", flags: "", valued: "", read: |_| Ok(Order::Quit) },
    Form {
        // Until ZooKeeper 3.4.
        name: "rmr",
        usage: "rmr path",
        flags: "",
        valued: "",
        read: |mut words| Ok(Order::DeleteAll { path: words.path()? }),
    },
    Form {
        name: "set",
        usage: "set [-s] [-v version] path data",
        flags: "s",
        valued: "v",
        read: |mut words| {
            Ok(Order::Set {
                stat: words.has('s'),
                version: words.version()?,
                path: words.path()?,
                data: words.next()?,
            })
        },
    },
    Form {
        name: "setAcl",
        usage: "setAcl [-s] [-v version] path acl",
        flags: "s",
        valued: "v",
        read: |mut words| {
            Ok(Order::SetAcl {
                stat: words.has('s'),
                version: words.version()?,
                path: words.path()?,
                acl: acl(&words.next()?)?,
            })
        },
    },
    Form {
        name: "stat",
        usage: "stat [-w] path",
        flags: "w",
        valued: "",
        read: |mut words| Ok(Order::Stat { watch: words.has('w'), path: words.path()? }),
    },
    Form {
        name: "sync",
        usage: "sync path",
        flags: "",
        valued: "",
        read: |mut words| Ok(Order::Sync { path: words.path()? }),
    },
    Form { name: "version", usage: "version", flags: "", valued: "", read: |_| Ok(Order::Version) },
    Form { name: "whoami", usage: "whoami", flags: "", valued: "", read: |_| Ok(Order::WhoAmI) },
];

/// Every command with its arguments, one a line.
pub fn usage() -> String {
    let lines = FORMS.iter().map(|form| format!("\t{}\n", form.usage));
    format!("ZooKeeper -server host:port cmd args\n{}", lines.collect::<String>())
}

impl Order {
    /// Reads the words of a line, the command first.
    pub fn parse(words: &[String]) -> Result<Order, Misunderstood> {
        let Some((name, arguments)) = words.split_first() else {
            return Err(Misunderstood::Unknown(String::new()));
        };
        let form = FORMS
            .iter()
            .find(|form| form.name == name)
            .ok_or_else(|| Misunderstood::Unknown(name.escape_debug().to_string()))?;
        let mut flags = Vec::new();
        let mut version = None;
        let mut rest = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut letters = argument.chars();
            let option = match (letters.next(), letters.next(), letters.next()) {
                (Some('-'), Some(letter), None) if letter.is_ascii_alphabetic() => letter,
                _ => {
                    rest.push(argument.clone());
                    continue;
                }
            };
            if form.flags.contains(option) {
                flags.push(option);
            } else if form.valued.contains(option) {
                let value = arguments.next().ok_or(Misunderstood::Usage(form.usage))?;
                // The other valued option is the size of a batch, which changes nothing here.
                if option == 'v' {
                    version = Some(value.clone());
                }
            } else {
                return Err(Misunderstood::Option(argument.escape_debug().to_string()));
            }
        }
        (form.read)(Words { usage: form.usage, flags, version, rest: rest.into_iter() })
    }
}

/// What stands behind a command.
struct Words {
    usage: &'static str,
    flags: Vec<char>,
    version: Option<String>,
    rest: std::vec::IntoIter<String>,
}

impl Words {
    fn has(&self, flag: char) -> bool {
        self.flags.contains(&flag)
    }

    fn next(&mut self) -> Result<String, Misunderstood> {
        self.rest.next().ok_or(Misunderstood::Usage(self.usage))
    }

    fn path(&mut self) -> Result<String, Misunderstood> {
        let path = self.next()?;
        if !path.starts_with('/') {
            Err(Misunderstood::Relative)
        } else if path.len() > 1 && path.ends_with('/') {
            Err(Misunderstood::TrailingSlash)
        } else {
            Ok(path)
        }
    }

    /// ZooKeeper's -1 is any version.
    fn version(&self) -> Result<Option<i32>, Misunderstood> {
        match self.version.as_deref().map(|text| (text, text.parse())) {
            None | Some((_, Ok(-1))) => Ok(None),
            Some((_, Ok(version))) => Ok(Some(version)),
            Some((text, Err(_))) => Err(Misunderstood::Version(text.escape_debug().to_string())),
        }
    }
}

/// Reads `world:anyone:cdrwa,digest:user:hash=:r`; the id may have colons of its own.
fn acl(text: &str) -> Result<Vec<Acl>, Misunderstood> {
    let entry = |entry: &str| {
        let malformed = || Misunderstood::Acl(entry.escape_debug().to_string());
        let (scheme, rest) = entry.split_once(':').ok_or_else(malformed)?;
        let (id, letters) = rest.rsplit_once(':').ok_or_else(malformed)?;
        let mut permission = Permission::NONE;
        for letter in letters.chars() {
            let found = PERMISSIONS.iter().find(|(_, known)| *known == letter);
            let (more, _) =
                found.ok_or_else(|| Misunderstood::Permissions(letters.escape_debug().to_string()))?;
            permission = permission | *more;
        }
        Ok(Acl::new(permission, AuthId::new(scheme, id)))
    };
    text.split(',').map(entry).collect()
}

/// In the order in which they are shown.
pub const PERMISSIONS: [(Permission, char); 5] = [
    (Permission::CREATE, 'c'),
    (Permission::DELETE, 'd'),
    (Permission::READ, 'r'),
    (Permission::WRITE, 'w'),
    (Permission::ADMIN, 'a'),
];

/// Cuts a line into words; quotes of either kind keep blanks in one.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Order, Misunderstood> {
        Order::parse(&words(line))
    }

    #[test]
    fn lines_are_understood_as_apaches_shell_understands_them() {
        let path = |path: &str| path.to_owned();
        let anyone = vec![Acl::new(Permission::ALL, AuthId::anyone())];
        for (line, order) in [
            ("ls /", Order::List { path: path("/"), stat: false, watch: false, recursive: false }),
            ("ls /a -R -s", Order::List { path: path("/a"), stat: true, watch: false, recursive: true }),
            ("ls2 /a", Order::List { path: path("/a"), stat: true, watch: false, recursive: false }),
            ("get -w /a", Order::Get { path: path("/a"), stat: false, watch: true }),
            (
                "set -v 3 /a 'two words'",
                Order::Set { path: path("/a"), data: path("two words"), stat: false, version: Some(3) },
            ),
            ("set /a -1", Order::Set { path: path("/a"), data: path("-1"), stat: false, version: None }),
            ("delete -v -1 /a", Order::Delete { path: path("/a"), version: None }),
            ("rmr /a", Order::DeleteAll { path: path("/a") }),
            (
                "create /a",
                Order::Create {
                    path: path("/a"),
                    data: String::new(),
                    mode: CreateMode::Persistent,
                    acl: anyone.clone(),
                },
            ),
            (
                "create -s -e /a {\"x\":1}",
                Order::Create {
                    path: path("/a"),
                    data: path("{x:1}"),
                    mode: CreateMode::EphemeralSequential,
                    acl: anyone,
                },
            ),
            ("printwatches off", Order::PrintWatches(Some(false))),
            ("quit", Order::Quit),
        ] {
            assert_eq!(parse(line), Ok(order), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, said) in [
            ("bogus", "Command not found: Command not found bogus"),
            ("ls", "ls [-s] [-w] [-R] path"),
            ("ls relative", "Path must start with / character"),
            ("ls /a/", "Path must not end with / character"),
            ("ls -x /", "Unrecognized option: -x"),
            ("set /a", "set [-s] [-v version] path data"),
            ("set -v x /a b", "x is not a version number"),
            ("setAcl /a bogus", "bogus does not have the form scheme:id:perm"),
            ("setAcl /a world:anyone:z", "z holds a permission other than c, d, r, w and a"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), said, "{line}");
        }
    }

    #[test]
    fn an_id_of_an_acl_may_have_colons() {
        let acl = acl("digest:user:hash=:rw,ip:::1:r").unwrap();
        assert_eq!(acl[0].id(), "user:hash=");
        assert_eq!(acl[0].permission(), Permission::READ | Permission::WRITE);
        assert_eq!((acl[1].scheme(), acl[1].id()), ("ip", "::1"));
    }
}
