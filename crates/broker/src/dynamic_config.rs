//! Values that are set while brokers run, in ZooKeeper, over those of this broker's file (KIP-226).

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::config::{Given, Layer, Origin, Settings, find};

/// Whom a dynamic value is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// `/config/brokers/<id>`: this broker.
    ThisBroker,
    /// `/config/brokers/<default>`: every broker that has no value of its own.
    AllBrokers,
}

/// The settings as they count now. What is read at start alone lies in [`crate::config::Config`] and does not change.
#[derive(Debug)]
pub struct DynamicConfig {
    settings: RwLock<Arc<Settings>>,
    /// Held by whoever reads a configuration in ZooKeeper to write it back changed, so that of two changes that this broker
    /// is asked for at once none is lost.
    pub changing: tokio::sync::Mutex<()>,
}

impl DynamicConfig {
    pub fn new(settings: Settings) -> DynamicConfig {
        DynamicConfig { settings: RwLock::new(Arc::new(settings)), changing: tokio::sync::Mutex::new(()) }
    }

    /// One consistent view; later changes do not show in it.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    /// Takes in what a config znode holds, all of it.
    ///
    /// A value that makes no sense, which only a hand in ZooKeeper can have written, is said and passed over.
    pub fn set(&self, audience: Audience, values: BTreeMap<String, String>) {
        let usable = |(name, value): &(String, String)| {
            let checked = find(name).map_or(Ok(()), |key| key.parse(value).map(drop));
            checked
                .inspect_err(|error| {
                    tracing::error!(key = name, ?audience, %error, "dynamic configuration not used");
                })
                .is_ok()
        };
        let given = |(name, value)| (name, Given { value, origin: Origin::ZooKeeper });
        let layer: Layer = values.into_iter().filter(usable).map(given).collect();
        let mut settings = self.settings.write();
        let changed = Arc::make_mut(&mut *settings);
        match audience {
            Audience::ThisBroker => changed.dynamic_broker = layer,
            Audience::AllBrokers => changed.dynamic_default = layer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn the_nearer_value_counts_and_a_bad_one_is_passed_over() {
        let key = keys::LOG_SEGMENT_BYTES;
        let config = DynamicConfig::new(Settings::default());
        let bytes = || config.settings().get(key).unwrap();
        let before = config.settings();
        config.set(Audience::AllBrokers, values(&[(key.name(), "1000"), ("unknown.to.us", "x")]));
        assert_eq!(bytes(), 1000);
        config.set(Audience::ThisBroker, values(&[(key.name(), "2000")]));
        assert_eq!(bytes(), 2000);
        config.set(Audience::ThisBroker, values(&[(key.name(), "many")]));
        assert_eq!(bytes(), 1000);
        assert_eq!(before.get(key).unwrap(), 1 << 30, "a view that was taken stays as it was");
    }
}
