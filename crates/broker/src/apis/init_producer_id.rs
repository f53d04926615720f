//! InitProducerId: an id for an idempotent producer.

use ottla_network::Reply;
use ottla_protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call};

/// InitProducerId: a new producer id, for idempotence (KIP-98).
///
/// Without a transactional id any broker answers, from its block of ids. Transactional producers need a
/// transaction coordinator, which does not exist yet: they are told that it is not available.
pub const API: Api = Api { key: ApiKey::InitProducerId, versions: 0..=5, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: InitProducerIdRequest = call.decode()?;
    let refused = match request.transactional_id.as_deref() {
        Some("") => Some(ErrorCode::InvalidRequest),
        Some(_) => Some(ErrorCode::CoordinatorNotAvailable),
        // Id and epoch go together: one says which life of the other to continue (KIP-360).
        None if (request.producer_id == -1) != (request.producer_epoch == -1) => {
            Some(ErrorCode::InvalidRequest)
        }
        None => None,
    };
    if let Some(error) = refused {
        return Ok(call.reply(&failure(error)));
    }
    if let Some(id) = call.broker.producer_ids.take() {
        return Ok(call.reply(&InitProducerIdResponse { producer_id: id.0, ..Default::default() }));
    }
    Ok(Reply::later(async move {
        match call.broker.producer_ids.take_from_new_block(&call.broker.zookeeper, call.broker.id).await {
            Ok(id) => call.answer(&InitProducerIdResponse { producer_id: id.0, ..Default::default() }),
            Err(error) => {
                tracing::warn!(%error, "no block of producer ids");
                call.answer(&failure(ErrorCode::CoordinatorNotAvailable))
            }
        }
    }))
}

fn failure(error: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse { error_code: error as i16, producer_epoch: -1, ..Default::default() }
}
