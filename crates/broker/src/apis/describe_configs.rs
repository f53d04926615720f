//! DescribeConfigs: what is configured, and by whom.

use ottla_model::{BrokerId, TopicName};
use ottla_network::Reply;
use ottla_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::config::{DescribedConfig, Source, describe_broker, describe_topic};
use crate::config_alterations::{BROKER, BROKER_LOGGER, TOPIC};
use crate::topics::invalid_name;

/// DescribeConfigs: the value of each key of a topic or broker, and where it comes from (KIP-133).
///
/// v1+ tells the source and every synonym that speaks for the key (KIP-226), v3+ type and documentation
/// (KIP-569). Any broker answers for topics; a broker's own configuration is asked of that broker.
pub const API: Api = Api { key: ApiKey::DescribeConfigs, versions: 0..=4, handle };

/// A resource that is not described, and why.
struct Refusal(ErrorCode, String);

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DescribeConfigsRequest = call.decode()?;
    let results = request.resources.iter().map(|resource| {
        let described = match describe(&call, resource) {
            Ok(described) => described,
            Err(Refusal(error, message)) => {
                return DescribeConfigsResult {
                    error_code: error as i16,
                    error_message: Some(Str::from(message)),
                    resource_type: resource.resource_type,
                    resource_name: resource.resource_name.clone(),
                    ..Default::default()
                };
            }
        };
        let wanted = |config: &DescribedConfig| {
            // No key at all is as good as null.
            let keys = resource.configuration_keys.as_deref().unwrap_or_default();
            keys.is_empty() || keys.iter().any(|key| *key == *config.name)
        };
        let configs = described.into_iter().filter(wanted).map(|config| row(call.version, &request, config));
        DescribeConfigsResult {
            // Empty, not null: so Kafka says that nothing is wrong.
            error_message: Some(Str::default()),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs: configs.collect(),
            ..Default::default()
        }
    });
    let results = results.collect();
    Ok(call.reply(&DescribeConfigsResponse { results, ..Default::default() }))
}

fn describe(call: &Call, resource: &DescribeConfigsResource) -> Result<Vec<DescribedConfig>, Refusal> {
    let broker = &call.broker;
    let settings = broker.dynamic.settings();
    let described = match resource.resource_type {
        TOPIC => {
            let name = TopicName::new(&resource.resource_name)
                .map_err(|error| Refusal(ErrorCode::InvalidTopicException, invalid_name(&error)))?;
            if broker.metadata.topic(&name).is_none() {
                let error = ErrorCode::UnknownTopicOrPartition;
                return Err(Refusal(error, error.message().to_owned()));
            }
            describe_topic(&settings, &broker.topic_configs.overrides(&name))
        }
        BROKER if *resource.resource_name == broker.id.to_string() => describe_broker(&settings),
        BROKER if resource.resource_name.is_empty() => describe_broker(&settings).map(|mut described| {
            described.retain(|config| config.source == Source::DynamicDefaultBroker);
            described
        }),
        BROKER => {
            let got = node_id(&resource.resource_name)?;
            let expected = broker.id;
            return refuse(format!(
                "Unexpected broker id, expected {expected} or empty string, but received {got}"
            ));
        }
        BROKER_LOGGER if resource.resource_name.is_empty() => {
            return refuse("Broker id must not be empty".to_owned());
        }
        // Kafka's loggers are Java's; here are none that could be set.
        BROKER_LOGGER => match node_id(&resource.resource_name)? {
            got if got == broker.id => return Ok(Vec::new()),
            got => {
                let expected = broker.id;
                return refuse(format!("Unexpected broker id, expected {expected} but received {got}"));
            }
        },
        other => return refuse(format!("Unsupported resource type: {other}")),
    };
    described.map_err(|error| Refusal(ErrorCode::InvalidConfig, error.to_string()))
}

fn refuse<T>(message: String) -> Result<T, Refusal> {
    Err(Refusal(ErrorCode::InvalidRequest, message))
}

fn node_id(name: &str) -> Result<BrokerId, Refusal> {
    match name.parse() {
        Ok(id) => Ok(BrokerId(id)),
        Err(_) => refuse(format!("Broker id must be an integer, but it is: {name}")),
    }
}

fn row(
    version: i16,
    request: &DescribeConfigsRequest,
    config: DescribedConfig,
) -> DescribeConfigsResourceResult {
    let synonyms = config.synonyms.iter().filter(|_| request.include_synonyms);
    DescribeConfigsResourceResult {
        name: Str::from(config.name),
        value: config.value.map(Str::from),
        read_only: config.read_only,
        // Only v0 has it; later the source says more.
        is_default: version == 0 && config.source == Source::Default,
        config_source: config.source as i8,
        is_sensitive: config.sensitive,
        synonyms: synonyms
            .map(|synonym| DescribeConfigsSynonym {
                name: Str::from(synonym.name),
                value: synonym.value.as_deref().map(Str::from),
                source: synonym.source as i8,
                ..Default::default()
            })
            .collect(),
        config_type: config.kind.map_or(0, |kind| kind as i8),
        documentation: config.documentation.filter(|_| request.include_documentation).map(Str::from),
        ..Default::default()
    }
}
