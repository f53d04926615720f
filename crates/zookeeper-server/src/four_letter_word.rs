//! The four-letter words: what an operator, or a health check, can ask over a bare TCP connection.

use std::str::FromStr;

/// What can be asked. None of them changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FourLetterWord {
    /// Are you well? `imok`.
    Ruok,
    /// The server in brief.
    Srvr,
    /// The server and its connections in brief.
    Stat,
    /// The server as `key<TAB>value`, for monitoring.
    Mntr,
    /// The configuration.
    Conf,
    /// The connections in full.
    Cons,
    /// The environment the process runs in.
    Envi,
    /// Is it read-only? Never.
    Isro,
    /// Watches in brief.
    Wchs,
}

/// Words of ZooKeeper's that are not served: they would change something, or tell what is not kept here.
const OTHER_WORDS: [&[u8; 4]; 9] =
    [b"crst", b"srst", b"dump", b"dirs", b"wchc", b"wchp", b"gtmk", b"stmk", b"hash"];

impl FourLetterWord {
    pub const ALL: [FourLetterWord; 9] = [
        FourLetterWord::Ruok,
        FourLetterWord::Srvr,
        FourLetterWord::Stat,
        FourLetterWord::Mntr,
        FourLetterWord::Conf,
        FourLetterWord::Cons,
        FourLetterWord::Envi,
        FourLetterWord::Isro,
        FourLetterWord::Wchs,
    ];

    pub fn name(self) -> &'static str {
        match self {
            FourLetterWord::Ruok => "ruok",
            FourLetterWord::Srvr => "srvr",
            FourLetterWord::Stat => "stat",
            FourLetterWord::Mntr => "mntr",
            FourLetterWord::Conf => "conf",
            FourLetterWord::Cons => "cons",
            FourLetterWord::Envi => "envi",
            FourLetterWord::Isro => "isro",
            FourLetterWord::Wchs => "wchs",
        }
    }
}

/// What the first four bytes of a connection are, if they are a word. As the length of a frame any of them would
/// be beyond 1 GiB, so no client can mean them so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Word(FourLetterWord),
    /// One of ZooKeeper's that this server does not serve.
    Unserved([u8; 4]),
}

impl Asked {
    pub fn from_bytes(bytes: [u8; 4]) -> Option<Asked> {
        let word = FourLetterWord::ALL.into_iter().find(|word| word.name().as_bytes() == bytes);
        word.map(Asked::Word).or_else(|| OTHER_WORDS.contains(&&bytes).then_some(Asked::Unserved(bytes)))
    }
}

/// Which words are answered (`4lw.commands.whitelist`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whitelist(u16);

/// A name on a whitelist that is no word of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(String);

impl Whitelist {
    pub const ALL: Whitelist = Whitelist(u16::MAX);

    /// `srvr` is answered always, as in ZooKeeper: its own scripts depend on it.
    pub fn allows(self, word: FourLetterWord) -> bool {
        word == FourLetterWord::Srvr || self.0 & (1 << word as u16) != 0
    }
}

impl FromStr for Whitelist {
    type Err = UnknownWord;

    fn from_str(list: &str) -> Result<Whitelist, UnknownWord> {
        let mut allowed = Whitelist(0);
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name == "*" {
                return Ok(Whitelist::ALL);
            }
            if let Some(word) = FourLetterWord::ALL.into_iter().find(|word| word.name() == name) {
                allowed.0 |= 1 << word as u16;
            } else if !OTHER_WORDS.iter().any(|other| other[..] == *name.as_bytes()) {
                return Err(UnknownWord(name.to_owned()));
            }
        }
        Ok(allowed)
    }
}
