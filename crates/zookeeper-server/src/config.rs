//! `zookeeper.properties`: the keys a single server understands.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use ottla_properties::{Entry, ParseError};

use crate::four_letter_word::{FourLetterWord, Whitelist};
use crate::tree::SessionTimeouts;

/// How one server is set up. [`Config::new`] has the defaults, [`Config::parse`] reads a properties file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `dataDir`: holds the snapshots, and the log too unless `data_log_dir` says otherwise.
    pub data_dir: PathBuf,
    /// `dataLogDir`.
    pub data_log_dir: PathBuf,
    /// `clientPortAddress` and `clientPort`; port 0 takes any free one.
    pub client_address: SocketAddr,
    /// `tickTime`, in milliseconds: the unit of the defaults below.
    pub tick_time_ms: u32,
    /// `minSessionTimeout` and `maxSessionTimeout`; 2 and 20 ticks by default.
    pub session_timeouts: SessionTimeouts,
    /// `maxClientCnxns`: connections from one address; 0 is no limit.
    pub connections_per_address_max: usize,
    /// `jute.maxbuffer`: the longest request, in bytes.
    pub frame_bytes_max: usize,
    /// `4lw.commands.whitelist`. All of ours are on it by default (ZooKeeper: `srvr` only), for none changes anything.
    pub four_letter_words: Whitelist,
    /// Sessions can be taken up again after a restart, as Apache's can. Not so where everybody who has one lives in the
    /// server's own process: then nobody should wait for them to expire.
    pub sessions_survive: bool,
}

/// Why a configuration was refused. Names the key, what it was, and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the properties cannot be read: {0}")]
    Syntax(#[from] ParseError),
    #[error("dataDir is missing: it names the directory that keeps the tree")]
    NoDataDir,
    #[error("line {line}: {key}={value} is not allowed: {allowed}")]
    Value { key: String, value: String, line: usize, allowed: String },
    #[error(
        "line {line}: {key} sets up an ensemble, and this is a single server for development; \
         run Apache ZooKeeper for an ensemble, or remove the key"
    )]
    Ensemble { key: String, line: usize },
    #[error("line {line}: {key} is not supported: {instead}")]
    Unsupported { key: String, line: usize, instead: &'static str },
}

const TICK_TIME_MS: u32 = 3000;
const CONNECTIONS_PER_ADDRESS_MAX: usize = 60;
const FRAME_BYTES_MAX: usize = 0xf_ffff;
const CLIENT_PORT: u16 = 2181;

/// Keys that only an ensemble has a use for; one that is set means that somebody expects one.
const ENSEMBLE_KEYS: [&str; 5] = ["server.", "group.", "weight.", "quorum", "dynamicConfigFile"];
/// Settings of an ensemble or of Apache's implementation that a single server can pass over without harm.
const IGNORED_KEYS: [&str; 16] = [
    "initLimit",
    "syncLimit",
    "connectToLearnerMasterLimit",
    "admin.enableServer",
    "admin.serverPort",
    "admin.serverAddress",
    "autopurge.snapRetainCount",
    "autopurge.purgeInterval",
    "standaloneEnabled",
    "reconfigEnabled",
    "snapCount",
    "preAllocSize",
    "globalOutstandingLimit",
    "maxCnxns",
    "metricsProvider.className",
    "forceSync",
];

impl Config {
    /// The defaults, for a server that keeps its tree in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Config {
        let data_dir = data_dir.into();
        Config {
            data_log_dir: data_dir.clone(),
            data_dir,
            client_address: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), CLIENT_PORT),
            tick_time_ms: TICK_TIME_MS,
            session_timeouts: ticks(TICK_TIME_MS),
            connections_per_address_max: CONNECTIONS_PER_ADDRESS_MAX,
            frame_bytes_max: FRAME_BYTES_MAX,
            four_letter_words: Whitelist::ALL,
            sessions_survive: true,
        }
    }

    /// Reads a properties file. Warns of keys that mean nothing here; refuses what would not be what it says.
    pub fn parse(bytes: &[u8]) -> Result<Config, ConfigError> {
        let properties = ottla_properties::parse(bytes)?;
        for Entry { key, line, .. } in properties.entries() {
            if ENSEMBLE_KEYS.iter().any(|prefix| key.starts_with(prefix)) {
                return Err(ConfigError::Ensemble { key: key.clone(), line: *line });
            }
            if key.starts_with("secureClientPort") || key.starts_with("ssl.") {
                let instead = "there is no TLS here; run Apache ZooKeeper for it";
                return Err(ConfigError::Unsupported { key: key.clone(), line: *line, instead });
            }
            if key.starts_with("authProvider") {
                let instead = "there is no SASL here, only digest and ip; run Apache ZooKeeper for it";
                return Err(ConfigError::Unsupported { key: key.clone(), line: *line, instead });
            }
            if !KEYS.contains(&key.as_str()) && !IGNORED_KEYS.contains(&key.as_str()) {
                tracing::warn!(key, line, "unknown key in the ZooKeeper properties");
            }
        }

        let data_dir = properties.get(DATA_DIR).map(str::trim).filter(|value| !value.is_empty());
        let mut config = Config::new(data_dir.ok_or(ConfigError::NoDataDir)?);
        if let Some(directory) = properties.get(DATA_LOG_DIR).map(str::trim).filter(|value| !value.is_empty())
        {
            config.data_log_dir = directory.into();
        }
        if let Some(entry) = properties.entry(CLIENT_PORT_ADDRESS) {
            config.client_address.set_ip(resolve(entry)?);
        }
        if let Some(port) = number(properties.entry(CLIENT_PORT_KEY), 0, u16::MAX)? {
            config.client_address.set_port(port);
        }
        if let Some(tick) = number(properties.entry(TICK_TIME), 1, 1_000_000)? {
            config.tick_time_ms = tick;
            config.session_timeouts = ticks(tick);
        }
        let longest = i32::MAX as u32;
        // ZooKeeper takes -1 for "not set".
        let set = |key| properties.entry(key).filter(|entry| entry.value.trim() != "-1");
        if let Some(min) = number(set(MIN_SESSION_TIMEOUT), 1, longest)? {
            config.session_timeouts.min_ms = min;
            config.session_timeouts.max_ms = config.session_timeouts.max_ms.max(min);
        }
        if let Some(max) = number(set(MAX_SESSION_TIMEOUT), config.session_timeouts.min_ms, longest)? {
            config.session_timeouts.max_ms = max;
        }
        if let Some(max) = number(properties.entry(MAX_CLIENT_CNXNS), 0, 1_000_000)? {
            config.connections_per_address_max = max;
        }
        if let Some(max) = number(properties.entry(JUTE_MAXBUFFER), 1024, 1 << 30)? {
            config.frame_bytes_max = max;
        }
        if let Some(entry) = properties.entry(WHITELIST) {
            config.four_letter_words = entry.value.parse().map_err(|unknown| {
                let known: Vec<_> = FourLetterWord::ALL.iter().map(|word| word.name()).collect();
                refuse(entry, format!("{unknown} is none of {}, *", known.join(", ")))
            })?;
        }
        Ok(config)
    }
}

const DATA_DIR: &str = "dataDir";
const DATA_LOG_DIR: &str = "dataLogDir";
const CLIENT_PORT_KEY: &str = "clientPort";
const CLIENT_PORT_ADDRESS: &str = "clientPortAddress";
const TICK_TIME: &str = "tickTime";
const MIN_SESSION_TIMEOUT: &str = "minSessionTimeout";
const MAX_SESSION_TIMEOUT: &str = "maxSessionTimeout";
const MAX_CLIENT_CNXNS: &str = "maxClientCnxns";
const JUTE_MAXBUFFER: &str = "jute.maxbuffer";
const WHITELIST: &str = "4lw.commands.whitelist";

const KEYS: [&str; 10] = [
    DATA_DIR,
    DATA_LOG_DIR,
    CLIENT_PORT_KEY,
    CLIENT_PORT_ADDRESS,
    TICK_TIME,
    MIN_SESSION_TIMEOUT,
    MAX_SESSION_TIMEOUT,
    MAX_CLIENT_CNXNS,
    JUTE_MAXBUFFER,
    WHITELIST,
];

fn ticks(tick_time_ms: u32) -> SessionTimeouts {
    SessionTimeouts { min_ms: tick_time_ms * 2, max_ms: tick_time_ms * 20 }
}

fn refuse(entry: &Entry, allowed: String) -> ConfigError {
    ConfigError::Value { key: entry.key.clone(), value: entry.value.clone(), line: entry.line, allowed }
}

/// A whole number between `min` and `max`, if the key is there.
fn number<N: FromStr + PartialOrd + fmt::Display>(
    entry: Option<&Entry>,
    min: N,
    max: N,
) -> Result<Option<N>, ConfigError> {
    let Some(entry) = entry else { return Ok(None) };
    match entry.value.trim().parse() {
        Ok(number) if number >= min && number <= max => Ok(Some(number)),
        _ => Err(refuse(entry, format!("a whole number from {min} to {max}"))),
    }
}

fn resolve(entry: &Entry) -> Result<IpAddr, ConfigError> {
    let found = (entry.value.trim(), 0).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found
        .map(|address| address.ip())
        .ok_or_else(|| refuse(entry, "an address or host name of this machine".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_single_server_are_read() {
        let text = b"dataDir=/var/zk\ndataLogDir=/log\nclientPort=2182\nclientPortAddress=127.0.0.1\ntickTime=100\n\
            maxClientCnxns=0\ninitLimit=5\nsyncLimit=2\nadmin.enableServer=false\n4lw.commands.whitelist=srvr, ruok\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.data_dir, PathBuf::from("/var/zk"));
        assert_eq!(config.data_log_dir, PathBuf::from("/log"));
        assert_eq!(config.client_address, "127.0.0.1:2182".parse().unwrap());
        assert_eq!(config.session_timeouts, SessionTimeouts { min_ms: 200, max_ms: 2000 });
        assert_eq!(config.connections_per_address_max, 0);
        assert!(config.four_letter_words.allows(FourLetterWord::Ruok));
        assert!(!config.four_letter_words.allows(FourLetterWord::Mntr));
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        for (why, text, message) in [
            (
                "an ensemble",
                "dataDir=/d\nserver.1=a:2888:3888",
                "line 2: server.1 sets up an ensemble, and this is a \
                single server for development; run Apache ZooKeeper for an ensemble, or remove the key",
            ),
            (
                "no directory",
                "clientPort=2181",
                "dataDir is missing: it names the directory that keeps the tree",
            ),
            (
                "a port that is none",
                "dataDir=/d\nclientPort=70000",
                "line 2: clientPort=70000 is not allowed: a whole \
                number from 0 to 65535",
            ),
            (
                "text for a number",
                "tickTime=soon\ndataDir=/d",
                "line 1: tickTime=soon is not allowed: a whole number \
                from 1 to 1000000",
            ),
            (
                "a longest timeout below the shortest",
                "dataDir=/d\nmaxSessionTimeout=100",
                "line 2: maxSessionTimeout=100 \
                is not allowed: a whole number from 6000 to 2147483647",
            ),
            (
                "a command that does not exist",
                "dataDir=/d\n4lw.commands.whitelist=kill",
                "line 2: \
                4lw.commands.whitelist=kill is not allowed: kill is none of ruok, srvr, stat, mntr, conf, cons, envi, \
                isro, wchs, *",
            ),
            (
                "TLS",
                "dataDir=/d\nsecureClientPort=2182",
                "line 2: secureClientPort is not supported: there is no TLS \
                here; run Apache ZooKeeper for it",
            ),
        ] {
            assert_eq!(Config::parse(text.as_bytes()).unwrap_err().to_string(), message, "{why}");
        }
    }
}
