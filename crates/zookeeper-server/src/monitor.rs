//! The answers to the four-letter words, in ZooKeeper's own format, so that what parses them there does here.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::four_letter_word::{Asked, FourLetterWord};
use crate::server::Settings;
use crate::service::{Connection, Service};

/// The ZooKeeper release whose protocol and behaviour this server has; clients read features from it.
const VERSION: &str =
    concat!("3.9.4-ottla-", env!("CARGO_PKG_VERSION"), ", a single-node server for development");

pub fn answer(asked: Asked, service: &Service, settings: &Settings) -> String {
    match asked {
        Asked::Word(word) if settings.config.four_letter_words.allows(word) => text(word, service, settings),
        Asked::Word(word) => not_allowed(word.name()),
        Asked::Unserved(name) => not_allowed(&String::from_utf8_lossy(&name)),
    }
}

fn not_allowed(name: &str) -> String {
    format!("{name} is not executed because it is not in the whitelist.\n")
}

fn text(word: FourLetterWord, service: &Service, settings: &Settings) -> String {
    match word {
        FourLetterWord::Ruok => "imok".to_owned(),
        FourLetterWord::Isro => "rw".to_owned(),
        FourLetterWord::Srvr => format!("Zookeeper version: {VERSION}\n{}", brief(service)),
        FourLetterWord::Stat => {
            let mut out = format!("Zookeeper version: {VERSION}\nClients:\n");
            for_each_connection(service, |connection, _| {
                push(&mut out, format_args!("{})\n", connection_brief(connection)));
            });
            push(&mut out, format_args!("\n{}", brief(service)));
            out
        }
        FourLetterWord::Cons => {
            let mut out = String::new();
            for_each_connection(service, |connection, session| {
                let line = connection_brief(connection);
                push(&mut out, format_args!("{line},{session},est={})\n", connection.established_ms));
            });
            out.push('\n');
            out
        }
        FourLetterWord::Mntr => monitoring(service),
        FourLetterWord::Conf => configuration(settings),
        FourLetterWord::Envi => environment(),
        FourLetterWord::Wchs => {
            let state = service.state();
            format!(
                "{} connections attached\nTotal watches:{}\n",
                state.attached.len(),
                state.tree.watch_count()
            )
        }
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes whatever is written");
}

fn connection_brief(connection: &Connection) -> String {
    format!(
        " /{}[1](queued={},recved={},sent={}",
        connection.peer,
        connection.outbox.queued(),
        connection.received.load(Ordering::Relaxed),
        connection.sent.load(Ordering::Relaxed),
    )
}

fn for_each_connection(service: &Service, mut each: impl FnMut(&Connection, &str)) {
    let state = service.state();
    for (id, timeout_ms, _) in state.tree.sessions() {
        if let Some(connection) = state.attached.get(&id) {
            each(connection, &format!("sid={id},to={timeout_ms}"));
        }
    }
}

struct Latency {
    average_ms: f64,
    max_ms: u64,
}

fn latency(service: &Service) -> Latency {
    let counters = &service.counters;
    let sent = counters.sent.load(Ordering::Relaxed).max(1);
    Latency {
        average_ms: counters.latency_sum_ms.load(Ordering::Relaxed) as f64 / sent as f64,
        max_ms: counters.latency_max_ms.load(Ordering::Relaxed),
    }
}

fn outstanding(service: &Service) -> u32 {
    service.state().attached.values().map(|connection| connection.outbox.queued()).sum()
}

fn brief(service: &Service) -> String {
    let Latency { average_ms, max_ms } = latency(service);
    let outstanding = outstanding(service);
    let state = service.state();
    format!(
        "Latency min/avg/max: 0/{average_ms:.1}/{max_ms}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: {outstanding}\nZxid: {}\nMode: standalone\nNode count: {}\n",
        service.counters.received.load(Ordering::Relaxed),
        service.counters.sent.load(Ordering::Relaxed),
        state.attached.len(),
        state.tree.zxid(),
        state.tree.znodes().count(),
    )
}

fn monitoring(service: &Service) -> String {
    let Latency { average_ms, max_ms } = latency(service);
    let outstanding = outstanding(service);
    let counters = &service.counters;
    let state = service.state();
    let mut out =
        format!("zk_version\t{VERSION}\nzk_server_state\tstandalone\nzk_avg_latency\t{average_ms:.4}\n");
    for (key, value) in [
        ("min_latency", 0),
        ("max_latency", max_ms),
        ("packets_received", counters.received.load(Ordering::Relaxed)),
        ("packets_sent", counters.sent.load(Ordering::Relaxed)),
        ("num_alive_connections", state.attached.len() as u64),
        ("outstanding_requests", outstanding.into()),
        ("znode_count", state.tree.znodes().count() as u64),
        ("watch_count", state.tree.watch_count() as u64),
        ("ephemerals_count", state.tree.ephemeral_count() as u64),
        ("approximate_data_size", state.tree.znodes().data_size() as u64),
        ("global_sessions", state.tree.sessions().len() as u64),
        ("fsync_count", counters.syncs.load(Ordering::Relaxed)),
        ("uptime", service.elapsed_ms()),
    ] {
        push(&mut out, format_args!("zk_{key}\t{value}\n"));
    }
    out
}

fn configuration(settings: &Settings) -> String {
    let config = &settings.config;
    let (snapshot_bytes, log_bytes) = settings.storage_sizes();
    format!(
        "clientPort={}\ndataDir={}\ndataDirSize={snapshot_bytes}\ndataLogDir={}\ndataLogSize={log_bytes}\n\
         tickTime={}\nmaxClientCnxns={}\nminSessionTimeout={}\nmaxSessionTimeout={}\nserverId=0\n",
        settings.local_addr.port(),
        config.data_dir.display(),
        config.data_log_dir.display(),
        config.tick_time_ms,
        config.connections_per_address_max,
        config.session_timeouts.min_ms,
        config.session_timeouts.max_ms,
    )
}

fn environment() -> String {
    format!(
        "Environment:\nzookeeper.version={VERSION}\nos.name={}\nos.arch={}\nuser.dir={}\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        std::env::current_dir().unwrap_or_default().display(),
    )
}
