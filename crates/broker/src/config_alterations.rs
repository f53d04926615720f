//! Changes of configurations that clients ask for: checked, and then written where every broker finds them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ottla_model::{BrokerId, TopicName};
use ottla_protocol::{ErrorCode, Str};
use ottla_zookeeper::records::{ConfigEntity, EntityConfig};
use ottla_zookeeper::{FencedError, ZkError};

use crate::config::{self, ConfigError, Kind, Settings, TOPIC_KEYS, TopicConfig, Update};
use crate::config_changes;
use crate::dynamic_config::Audience;
use crate::server::Broker;
use crate::topics::client_message;

/// Numbers of the resource types on the wire.
pub const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;
pub const BROKER_LOGGER: i8 = 8;

/// What is to become of one key. Text is checked for null before it gets here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Set,
    /// Back to what rules without a value of its own.
    Delete,
    /// To a list, what is not in it yet.
    Append,
    /// From a list.
    Subtract,
}

#[derive(Debug, Clone)]
pub struct Change {
    pub key: Str,
    pub operation: Operation,
    pub value: Option<Str>,
}

/// What is asked for one resource.
#[derive(Debug, Clone)]
pub struct Alteration {
    pub resource_type: i8,
    pub resource_name: Str,
    /// `None` where an operation is not known.
    pub changes: Option<Vec<Change>>,
    /// Everything that is not named goes (AlterConfigs); else it stays.
    pub replaces: bool,
}

/// Why a configuration is not changed. The texts are what Kafka tells its clients.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("Each resource must appear at most once.")]
    ResourceTwice,
    #[error("Error due to duplicate config keys")]
    KeyTwice,
    #[error("Null value not supported for : {0}")]
    Null(String),
    #[error("Unknown resource type {0}")]
    ResourceType(i8),
    #[error("Unknown operation on a configuration: 0 sets, 1 deletes, 2 appends, 3 subtracts")]
    Operation,
    #[error("Node id must be an integer, but it is: {0}")]
    NodeId(String),
    #[error("Unexpected broker id, expected {expected}, but received {got}")]
    OtherBroker { expected: BrokerId, got: BrokerId },
    #[error("Default topic resources are not allowed.")]
    DefaultTopic,
    #[error("The topic '{0}' does not exist.")]
    UnknownTopic(String),
    #[error("Config value {operation} is not allowed for config key: {key}")]
    NotAList { operation: &'static str, key: String },
    #[error("{}", client_message(.0))]
    UnknownTopicKey(ConfigError),
    #[error("Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): {}", client_message(.source))]
    Topic { topic: TopicName, source: ConfigError },
    #[error("Cannot update these configs dynamically: Set({0})")]
    Static(String),
    #[error("Cannot update these configs at default cluster level, broker id must be specified: Set({0})")]
    OneBrokerOnly(String),
    #[error("{}", client_message(.0))]
    Broker(ConfigError),
    #[error("Logger {0} does not exist!")]
    NoLogger(Str),
    #[error("there is no controller at the moment; try again")]
    NoController,
    #[error(transparent)]
    ZooKeeper(#[from] ZkError),
}

impl Refusal {
    pub fn code(&self) -> ErrorCode {
        match self {
            Refusal::ResourceTwice
            | Refusal::KeyTwice
            | Refusal::Null(_)
            | Refusal::ResourceType(_)
            | Refusal::Operation
            | Refusal::NodeId(_)
            | Refusal::OtherBroker { .. }
            | Refusal::DefaultTopic
            | Refusal::Static(_)
            | Refusal::OneBrokerOnly(_)
            | Refusal::Broker(_) => ErrorCode::InvalidRequest,
            Refusal::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
            Refusal::NotAList { .. }
            | Refusal::UnknownTopicKey(_)
            | Refusal::Topic { .. }
            | Refusal::NoLogger(_) => ErrorCode::InvalidConfig,
            Refusal::NoController => ErrorCode::NotController,
            Refusal::ZooKeeper(_) => ErrorCode::UnknownServerError,
        }
    }
}

impl From<FencedError> for Refusal {
    fn from(error: FencedError) -> Refusal {
        match error {
            FencedError::ControllerMoved => Refusal::NoController,
            FencedError::Zk(error) => Refusal::ZooKeeper(error),
        }
    }
}

/// Carries out what is asked, resource by resource, each for itself; `validate_only` checks and changes nothing.
///
/// Written values rule this broker when this returns, and the others as soon as they hear of it.
pub async fn alter(
    broker: &Arc<Broker>,
    alterations: &[Alteration],
    validate_only: bool,
) -> Vec<Result<(), Refusal>> {
    let mut seen = HashSet::new();
    let key = |alteration: &Alteration| (alteration.resource_type, alteration.resource_name.clone());
    let twice: HashSet<_> =
        alterations.iter().map(key).filter(|resource| !seen.insert(resource.clone())).collect();
    let mut outcomes = Vec::with_capacity(alterations.len());
    for alteration in alterations {
        outcomes.push(if twice.contains(&key(alteration)) {
            Err(Refusal::ResourceTwice)
        } else {
            alter_one(broker, alteration, validate_only).await
        });
    }
    outcomes
}

/// A resource whose configuration lies in ZooKeeper.
enum Resource {
    Topic(TopicName),
    Broker(Audience),
}

async fn alter_one(
    broker: &Arc<Broker>,
    alteration: &Alteration,
    validate_only: bool,
) -> Result<(), Refusal> {
    let changes = alteration.changes.as_deref().ok_or(Refusal::Operation)?;
    check_form(changes)?;
    let Some(resource) = resource(broker, alteration)? else {
        // Loggers: there are none of Java's here.
        return changes.first().map_or(Ok(()), |change| Err(Refusal::NoLogger(change.key.clone())));
    };
    let entity = match &resource {
        Resource::Topic(topic) => ConfigEntity::topic(topic),
        Resource::Broker(Audience::ThisBroker) => ConfigEntity::broker(Some(broker.id)),
        Resource::Broker(Audience::AllBrokers) => ConfigEntity::broker(None),
    };
    let _turn = broker.dynamic.changing.lock().await;
    let mut values = match alteration.replaces {
        true => BTreeMap::new(),
        false => broker.zookeeper.read_config(&entity).await?.0,
    };
    for change in changes {
        apply(change, &resource, &mut values)?;
    }
    match &resource {
        Resource::Topic(topic) => check_topic(&broker.dynamic.settings(), topic, &values)?,
        Resource::Broker(audience) => {
            check_keys(changes, *audience)?;
            check_values(&broker.dynamic.settings(), *audience, &values)?;
        }
    }
    if validate_only {
        return Ok(());
    }
    broker.zookeeper.write_config(&entity, &EntityConfig(values)).await?;
    if let Err(error) = config_changes::apply(broker, &entity).await {
        // It is written all the same, and its notice will be heard of.
        tracing::warn!(entity = entity.path(), %error, "changed configuration not read yet");
    }
    Ok(())
}

fn check_form(changes: &[Change]) -> Result<(), Refusal> {
    let mut keys = HashSet::new();
    if !changes.iter().all(|change| keys.insert(&*change.key)) {
        return Err(Refusal::KeyTwice);
    }
    let is_null = |change: &&Change| change.value.is_none() && change.operation != Operation::Delete;
    let null: Vec<&str> = changes.iter().filter(is_null).map(|change| &*change.key).collect();
    if null.is_empty() { Ok(()) } else { Err(Refusal::Null(null.join(","))) }
}

/// `None` stands for the loggers of this broker.
fn resource(broker: &Broker, alteration: &Alteration) -> Result<Option<Resource>, Refusal> {
    let name = &*alteration.resource_name;
    match alteration.resource_type {
        TOPIC if name.is_empty() => Err(Refusal::DefaultTopic),
        TOPIC => match broker.metadata.topic(name) {
            Some(topic) => Ok(Some(Resource::Topic(topic.name.clone()))),
            None => Err(Refusal::UnknownTopic(name.to_owned())),
        },
        BROKER if name.is_empty() => Ok(Some(Resource::Broker(Audience::AllBrokers))),
        BROKER => {
            check_node(broker, name)?;
            Ok(Some(Resource::Broker(Audience::ThisBroker)))
        }
        BROKER_LOGGER if !alteration.replaces => check_node(broker, name).map(|()| None),
        other => Err(Refusal::ResourceType(other)),
    }
}

/// A broker's own configuration is changed by that broker, which alone can tell whether it can live with it.
fn check_node(broker: &Broker, name: &str) -> Result<(), Refusal> {
    let got = name.parse().map(BrokerId).map_err(|_| Refusal::NodeId(name.to_owned()))?;
    if got == broker.id { Ok(()) } else { Err(Refusal::OtherBroker { expected: broker.id, got }) }
}

fn apply(change: &Change, resource: &Resource, values: &mut BTreeMap<String, String>) -> Result<(), Refusal> {
    let key = change.key.to_string();
    let value = change.value.as_deref().unwrap_or_default();
    let operation = match change.operation {
        Operation::Set => {
            values.insert(key, value.to_owned());
            return Ok(());
        }
        Operation::Delete => {
            values.remove(&key);
            return Ok(());
        }
        Operation::Append => "append",
        Operation::Subtract => "subtract",
    };
    let definition = match resource {
        Resource::Topic(_) => TOPIC_KEYS.iter().copied().find(|definition| definition.name == key),
        Resource::Broker(_) => config::find(&key),
    };
    let Some(definition) = definition.filter(|definition| definition.kind == Kind::List) else {
        return Err(Refusal::NotAList { operation, key });
    };
    let current = values.get(&key).map(String::as_str).or(definition.default).unwrap_or_default();
    let items = |text: &str| -> Vec<String> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    let (mut list, named) = (items(current), items(value));
    if change.operation == Operation::Append {
        for item in named {
            if !list.contains(&item) {
                list.push(item);
            }
        }
    } else {
        list.retain(|item| !named.contains(item));
    }
    values.insert(key, list.join(","));
    Ok(())
}

fn check_topic(
    settings: &Settings,
    topic: &TopicName,
    values: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    match TopicConfig::validate(settings, values) {
        Ok(_) => Ok(()),
        Err(error @ ConfigError::UnknownTopicKey(_)) => Err(Refusal::UnknownTopicKey(error)),
        Err(source) => Err(Refusal::Topic { topic: topic.clone(), source }),
    }
}

/// Which keys may be set at all. Listeners and their security could be in Kafka; here they are for a restart.
fn check_keys(changes: &[Change], audience: Audience) -> Result<(), Refusal> {
    let keys = |picks: fn(Update) -> bool| {
        let picked = |change: &&Change| config::find(&change.key).is_some_and(|key| picks(key.update));
        let keys: Vec<&str> = changes.iter().filter(picked).map(|change| &*change.key).collect();
        (!keys.is_empty()).then(|| keys.join(", "))
    };
    if let Some(keys) = keys(|update| update == Update::ReadOnly) {
        return Err(Refusal::Static(keys));
    }
    match (keys(|update| update == Update::PerBroker), audience) {
        (None, _) => Ok(()),
        (Some(keys), Audience::AllBrokers) => Err(Refusal::OneBrokerOnly(keys)),
        (Some(keys), Audience::ThisBroker) => Err(Refusal::Static(keys)),
    }
}

/// Whether the values make sense, each and together with those that they would rule over.
fn check_values(
    settings: &Settings,
    audience: Audience,
    values: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let mut changed = settings.clone();
    let layer = match audience {
        Audience::ThisBroker => &mut changed.dynamic_broker,
        Audience::AllBrokers => &mut changed.dynamic_default,
    };
    let given = |value: &String| config::Given { value: value.clone(), origin: config::Origin::ZooKeeper };
    *layer = values.iter().map(|(key, value)| (key.clone(), given(value))).collect();
    let mut named = values.keys().filter_map(|key| config::find(key));
    let parsed = named.try_for_each(|key| changed.value(key).map(drop));
    parsed.and_then(|()| TopicConfig::defaults(&changed).map(drop)).map_err(Refusal::Broker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_change_what_they_name() {
        let topic = Resource::Topic(TopicName::new("t").unwrap());
        let policy = "cleanup.policy";
        for (why, before, operation, value, after) in [
            ("set", None, Operation::Set, Some("compact"), Some("compact")),
            ("delete", Some("compact"), Operation::Delete, None, None),
            ("delete what is not set", None, Operation::Delete, None, None),
            ("append to the default", None, Operation::Append, Some("compact"), Some("delete,compact")),
            ("append what is there", Some("compact"), Operation::Append, Some("compact"), Some("compact")),
            ("append to an empty list", Some(""), Operation::Append, Some("compact"), Some("compact")),
            ("subtract", Some("delete,compact"), Operation::Subtract, Some("delete"), Some("compact")),
            (
                "subtract what is not there",
                Some("compact"),
                Operation::Subtract,
                Some("delete"),
                Some("compact"),
            ),
        ] {
            let mut values: BTreeMap<String, String> =
                before.into_iter().map(|value| (policy.to_owned(), value.to_owned())).collect();
            let change = Change { key: Str::from(policy), operation, value: value.map(Str::from) };
            apply(&change, &topic, &mut values).unwrap();
            assert_eq!(values.get(policy).map(String::as_str), after, "{why}");
        }
    }

    #[test]
    fn only_lists_are_appended_to() {
        let topic = Resource::Topic(TopicName::new("t").unwrap());
        for key in ["retention.ms", "nobody.knows"] {
            let change =
                Change { key: Str::from(key), operation: Operation::Append, value: Some(Str::from("1")) };
            let refusal = apply(&change, &topic, &mut BTreeMap::new()).unwrap_err();
            assert_eq!(refusal.code(), ErrorCode::InvalidConfig, "{key}");
        }
    }
}
