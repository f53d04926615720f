//! What the requests of groups have in common: their first checks, and answers that have to wait.

use ottla_network::{Answer, Reply};
use ottla_protocol::{ErrorCode, Str};
use tokio::sync::oneshot;

use super::Call;
use crate::config::ProtocolVersion;

/// The id under which offsets are kept may be empty, for the oldest clients; the name of a group may not.
pub fn check_group_id(group: &str) -> Result<(), ErrorCode> {
    if group.is_empty() { Err(ErrorCode::InvalidGroupId) } else { Ok(()) }
}

/// Static members need all brokers to know them, or the next coordinator would forget who they are (KIP-345).
pub fn check_instance_id(call: &Call, instance_id: &Option<Str>) -> Result<(), ErrorCode> {
    if instance_id.is_some() && call.broker.config.inter_broker_protocol < ProtocolVersion::V2_3_IV0 {
        return Err(ErrorCode::UnsupportedVersion);
    }
    Ok(())
}

/// Answers at once if the answer is there already, as it mostly is.
pub fn reply_when<T: Send + 'static>(
    call: Call,
    mut answer: oneshot::Receiver<T>,
    finish: fn(&Call, Result<T, oneshot::error::RecvError>) -> Answer,
) -> Reply {
    match answer.try_recv() {
        Ok(there) => Reply::Now(finish(&call, Ok(there))),
        Err(_) => Reply::later(async move {
            let outcome = answer.await;
            finish(&call, outcome)
        }),
    }
}
