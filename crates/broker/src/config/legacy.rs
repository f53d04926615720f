//! Keys of Kafka 0.8 that are gone from 3.9, put into today's words.
//!
//! Kafka 3.9 ignores them, so that an old file with `port=9093` opens 9092. Here the old file does what it
//! says.

use super::settings::{Given, Layer, Origin};
use super::{Warning, keys};

/// What the other old keys become, for the documentation; [`translate`] does it.
pub(super) const TRANSLATED: &[(&str, &str)] = &[
    ("port", "the port of `listeners`, where that is not set"),
    ("host.name", "the host of `listeners`, where that is not set"),
    ("advertised.host.name", "the host of `advertised.listeners`, where that is not set"),
    ("advertised.port", "the port of `advertised.listeners`, where that is not set"),
    ("log.cleanup.interval.mins", "`log.retention.check.interval.ms`, in minutes"),
];

/// Keys that have nothing to act on any more, and what to know instead.
pub(super) const GONE: &[(&str, &str)] = &[
    ("replica.lag.max.messages", "a follower leaves the ISR by time alone: replica.lag.time.max.ms"),
    ("controller.message.queue.size", "the controller's queues need no size"),
    ("zookeeper.sync.time.ms", "the broker does not wait for ZooKeeper's followers"),
    ("replica.lag.max.bytes", "a follower leaves the ISR by time alone: replica.lag.time.max.ms"),
    ("log.segment.bytes.per.topic", "set segment.bytes on the topic with kafka-configs.sh"),
    ("log.roll.hours.per.topic", "set segment.ms on the topic with kafka-configs.sh"),
    ("log.retention.hours.per.topic", "set retention.ms on the topic with kafka-configs.sh"),
    ("log.retention.bytes.per.topic", "set retention.bytes on the topic with kafka-configs.sh"),
    ("log.flush.interval.ms.per.topic", "set flush.ms on the topic with kafka-configs.sh"),
    ("log.cleaner.io.max.bytes", "use log.cleaner.io.max.bytes.per.second"),
    ("kafka.csv.metrics.dir", "metrics are not written to CSV files"),
    ("kafka.csv.metrics.reporter.enabled", "metrics are not written to CSV files"),
];

/// The port of a 0.8 broker that was given none (0.8.2).
const DEFAULT_PORT: &str = "9092";

/// Takes the old keys out of a layer and puts what they mean in, unless today's key is there too.
pub(super) fn translate(layer: &mut Layer, warnings: &mut Vec<Warning>) {
    let old = OldListener {
        host: layer.remove("host.name"),
        port: layer.remove("port"),
        advertised_host: layer.remove("advertised.host.name"),
        advertised_port: layer.remove("advertised.port"),
    };
    old.translate(layer, warnings);
    replace(
        layer,
        warnings,
        "log.cleanup.interval.mins",
        keys::LOG_RETENTION_CHECK_INTERVAL_MS.name(),
        |given| {
            // What is no number is left as it is, to be refused under its new name.
            match given.value.trim().parse::<i64>() {
                Ok(minutes) => minutes.saturating_mul(60_000).to_string(),
                Err(_) => given.value.clone(),
            }
        },
    );
    for (key, instead) in GONE {
        if layer.remove(*key).is_some() {
            warnings.push(Warning::Gone { key, instead });
        }
    }
}

/// Moves a value from an old key to a new one.
fn replace(
    layer: &mut Layer,
    warnings: &mut Vec<Warning>,
    old: &'static str,
    new: &'static str,
    convert: impl FnOnce(&Given) -> String,
) {
    let Some(given) = layer.remove(old) else { return };
    if layer.contains_key(new) {
        warnings.push(Warning::Overruled { key: old, by: new });
        return;
    }
    let value = convert(&given);
    warnings.push(Warning::Legacy { key: old, becomes: format!("{new}={value}") });
    layer.insert(new.to_owned(), Given { value, origin: Origin::Legacy(old) });
}

/// Before 0.9 a broker had one listener, in four keys.
struct OldListener {
    host: Option<Given>,
    port: Option<Given>,
    advertised_host: Option<Given>,
    advertised_port: Option<Given>,
}

impl OldListener {
    fn translate(self, layer: &mut Layer, warnings: &mut Vec<Warning>) {
        let text = |given: &Option<Given>| given.as_ref().map(|given| given.value.trim().to_owned());
        let host = text(&self.host).unwrap_or_default();
        let port = text(&self.port).unwrap_or_else(|| DEFAULT_PORT.to_owned());
        if let Some(key) = first_given([("port", &self.port), ("host.name", &self.host)]) {
            put(layer, warnings, key, keys::LISTENERS.name(), endpoint(&host, &port));
        }
        if let Some(key) = first_given([
            ("advertised.host.name", &self.advertised_host),
            ("advertised.port", &self.advertised_port),
        ]) {
            let host = text(&self.advertised_host).unwrap_or(host);
            let port = text(&self.advertised_port).unwrap_or(port);
            put(layer, warnings, key, keys::ADVERTISED_LISTENERS.name(), endpoint(&host, &port));
        }
    }
}

fn first_given(keys: [(&'static str, &Option<Given>); 2]) -> Option<&'static str> {
    keys.into_iter().find(|(_, given)| given.is_some()).map(|(key, _)| key)
}

fn endpoint(host: &str, port: &str) -> String {
    let bracketed = host.contains(':') && !host.starts_with('[');
    if bracketed { format!("PLAINTEXT://[{host}]:{port}") } else { format!("PLAINTEXT://{host}:{port}") }
}

fn put(layer: &mut Layer, warnings: &mut Vec<Warning>, old: &'static str, new: &'static str, value: String) {
    if layer.contains_key(new) {
        warnings.push(Warning::Overruled { key: old, by: new });
        return;
    }
    warnings.push(Warning::Legacy { key: old, becomes: format!("{new}={value}") });
    layer.insert(new.to_owned(), Given { value, origin: Origin::Legacy(old) });
}
