//! DescribeConfigs: what is configured, and by whom.

use ottla_model::{BrokerId, TopicName};
use ottla_network::Reply;
use ottla_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::config::{ConfigError, DescribedConfig, Settings, Source, describe_broker, describe_topic};
use crate::config_alterations::{BROKER, BROKER_LOGGER, TOPIC};
use crate::topics::invalid_name;

/// DescribeConfigs: the value of each key of a topic or broker, and where it comes from (KIP-133).
///
/// v1+ tells the source and every synonym that speaks for the key (KIP-226), v3+ type and documentation
/// (KIP-569). Any broker answers for topics; a broker's own configuration is asked of that broker.
pub const API: Api = Api { key: ApiKey::DescribeConfigs, versions: 0..=4, handle };

/// A resource that is not described, and why.
struct Refusal(ErrorCode, String);

type Row = DescribeConfigsResourceResult;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DescribeConfigsRequest = call.decode()?;
    let settings = call.broker.dynamic.settings();
    let mut describer = Describer { call: &call, request: &request, settings: &settings, plain: None };
    let results = request.resources.iter().map(|resource| match describer.describe(resource) {
        Ok(configs) => DescribeConfigsResult {
            // Empty, not null: so Kafka says that nothing is wrong.
            error_message: Some(Str::default()),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs,
            ..Default::default()
        },
        Err(Refusal(error, message)) => DescribeConfigsResult {
            error_code: error as i16,
            error_message: Some(Str::from(message)),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            ..Default::default()
        },
    });
    let results = results.collect();
    Ok(call.reply(&DescribeConfigsResponse { results, ..Default::default() }))
}

struct Describer<'a> {
    call: &'a Call,
    request: &'a DescribeConfigsRequest,
    settings: &'a Settings,
    /// Every key of a topic that has set nothing, made once: most topics of a long request are such, and their rows share
    /// their text.
    plain: Option<Vec<Row>>,
}

impl Describer<'_> {
    fn describe(&mut self, resource: &DescribeConfigsResource) -> Result<Vec<Row>, Refusal> {
        // No key at all is as good as null.
        let keys = resource.configuration_keys.as_deref().unwrap_or_default();
        let is_wanted = |row: &Row| keys.is_empty() || keys.contains(&row.name);
        if resource.resource_type != TOPIC {
            let mut rows = self.rows(describe_node(self.call, self.settings, resource)?);
            rows.retain(is_wanted);
            return Ok(rows);
        }
        let name = TopicName::new(&resource.resource_name)
            .map_err(|error| Refusal(ErrorCode::InvalidTopicException, invalid_name(&error)))?;
        if self.call.broker.metadata.topic(&name).is_none() {
            let error = ErrorCode::UnknownTopicOrPartition;
            return Err(Refusal(error, error.message().to_owned()));
        }
        let overrides = self.call.broker.topic_configs.overrides(&name);
        if !overrides.is_empty() {
            let mut rows = self.rows(describe_topic(self.settings, &overrides).map_err(invalid)?);
            rows.retain(is_wanted);
            return Ok(rows);
        }
        if self.plain.is_none() {
            self.plain = Some(self.rows(describe_topic(self.settings, &overrides).map_err(invalid)?));
        }
        Ok(self.plain.iter().flatten().filter(|row| is_wanted(row)).cloned().collect())
    }

    fn rows(&self, described: Vec<DescribedConfig>) -> Vec<Row> {
        described.into_iter().map(|config| row(self.call.version, self.request, config)).collect()
    }
}

fn invalid(error: ConfigError) -> Refusal {
    Refusal(ErrorCode::InvalidConfig, error.to_string())
}

/// A broker, the defaults of all brokers, or the loggers of a broker.
fn describe_node(
    call: &Call,
    settings: &Settings,
    resource: &DescribeConfigsResource,
) -> Result<Vec<DescribedConfig>, Refusal> {
    let broker = &call.broker;
    let described = match resource.resource_type {
        BROKER if *resource.resource_name == broker.id.to_string() => describe_broker(settings),
        BROKER if resource.resource_name.is_empty() => describe_broker(settings).map(|mut described| {
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
    described.map_err(invalid)
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
