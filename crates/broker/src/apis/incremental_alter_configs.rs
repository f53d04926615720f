//! IncrementalAlterConfigs: single keys of topics and brokers.

use ottla_network::Reply;
use ottla_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::config_alterations::{Alteration, Change, Operation, alter};

/// IncrementalAlterConfigs: sets, deletes, appends to and subtracts from the keys it names, and no others (KIP-339).
///
/// Any broker answers for topics and for the defaults of all brokers; a broker's own configuration is for that
/// broker. Of a broker's loggers there are none: Kafka's are Java's.
pub const API: Api = Api { key: ApiKey::IncrementalAlterConfigs, versions: 0..=1, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: IncrementalAlterConfigsRequest = call.decode()?;
    Ok(Reply::later(async move {
        let alterations: Vec<Alteration> = request.resources.iter().map(alteration).collect();
        let outcomes = alter(&call.broker, &alterations, request.validate_only).await;
        let responses = request.resources.iter().zip(outcomes).map(|(resource, outcome)| {
            let refusal = outcome.err();
            AlterConfigsResourceResponse {
                error_code: refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code()) as i16,
                error_message: refusal.map(|refusal| Str::from(refusal.to_string())),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            }
        });
        call.answer(&IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() })
    }))
}

fn alteration(resource: &AlterConfigsResource) -> Alteration {
    Alteration {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        changes: resource.configs.iter().map(change).collect(),
        replaces: false,
    }
}

/// `None` for an operation that is not known.
fn change(config: &AlterableConfig) -> Option<Change> {
    let operation = match config.config_operation {
        0 => Operation::Set,
        1 => Operation::Delete,
        2 => Operation::Append,
        3 => Operation::Subtract,
        _ => return None,
    };
    Some(Change { key: config.name.clone(), operation, value: config.value.clone() })
}
