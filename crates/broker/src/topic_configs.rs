//! What topics have configured for themselves, as ZooKeeper last told.

use std::collections::HashMap;
use std::sync::Arc;

use ottla_model::TopicName;
use parking_lot::RwLock;

use crate::config::{Config, TopicConfig, TopicOverrides};
use crate::dynamic_config::DynamicConfig;

/// The overrides of each topic, over the broker's defaults.
#[derive(Debug)]
pub struct TopicConfigs {
    config: Arc<Config>,
    dynamic: Arc<DynamicConfig>,
    overrides: RwLock<HashMap<TopicName, Arc<TopicOverrides>>>,
}

impl TopicConfigs {
    pub fn new(config: Arc<Config>, dynamic: Arc<DynamicConfig>) -> TopicConfigs {
        TopicConfigs { config, dynamic, overrides: RwLock::default() }
    }

    /// Takes in what a topic's config znode holds.
    pub fn set(&self, topic: &TopicName, overrides: TopicOverrides) {
        let mut all = self.overrides.write();
        if overrides.is_empty() {
            all.remove(topic);
        } else {
            all.insert(topic.clone(), Arc::new(overrides));
        }
    }

    /// What the topic has set for itself.
    pub fn overrides(&self, topic: &str) -> Arc<TopicOverrides> {
        self.overrides.read().get(topic).cloned().unwrap_or_default()
    }

    /// What rules the topic. Values that make no sense, which only a hand in ZooKeeper can have written, are said once and
    /// passed over.
    pub fn resolved(&self, topic: &str) -> TopicConfig {
        match TopicConfig::resolve(&self.dynamic.settings(), &self.overrides(topic)) {
            Ok(resolved) => resolved,
            Err(error) => {
                tracing::error!(topic, %error, "topic configuration not used, the broker's defaults apply");
                self.config.topic_defaults.clone()
            }
        }
    }
}
