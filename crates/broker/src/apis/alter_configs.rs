//! AlterConfigs: the whole configuration of topics and brokers.

use ottla_network::Reply;
use ottla_protocol::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::config_alterations::{Alteration, Change, Operation, alter};

/// AlterConfigs: replaces all that a topic, a broker or all brokers have set; what is not named falls back (KIP-133).
///
/// Superseded by IncrementalAlterConfigs, since whoever names one key loses the others. Any broker answers for topics
/// and for the defaults of all brokers; a broker's own configuration is for that broker.
pub const API: Api = Api { key: ApiKey::AlterConfigs, versions: 0..=2, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: AlterConfigsRequest = call.decode()?;
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
        call.answer(&AlterConfigsResponse { responses: responses.collect(), ..Default::default() })
    }))
}

fn alteration(resource: &AlterConfigsResource) -> Alteration {
    let changes = resource.configs.iter().map(|config| Change {
        key: config.name.clone(),
        operation: Operation::Set,
        value: config.value.clone(),
    });
    Alteration {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        changes: Some(changes.collect()),
        replaces: true,
    }
}
