//! Leaving politely: the controller moves this broker's leaderships away before it stops serving.

use ottla_client::{Connection, ConnectionError, ConnectionOptions};
use ottla_protocol::messages::{ControlledShutdownRequest, ControlledShutdownResponse};

use crate::apis::controlled_shutdown;
use crate::server::Broker;

/// Asks until nothing that others could lead is led here any more, `controlled.shutdown.max.retries` times at most. A
/// broker that is not heard stops all the same: its partitions then have no leader until ZooKeeper ends its session.
pub async fn leave(broker: &Broker) {
    let config = &broker.config.controller;
    for attempt in 0..=config.controlled_shutdown_retries_max {
        if attempt > 0 {
            tokio::time::sleep(config.controlled_shutdown_retry_backoff).await;
        }
        match ask(broker).await {
            Ok(response) if response.error_code == 0 && response.remaining_partitions.is_empty() => return,
            Ok(response) => tracing::warn!(
                code = response.error_code,
                remaining = response.remaining_partitions.len(),
                "leaderships not moved away yet"
            ),
            Err(error) => tracing::warn!(%error, "the controller cannot be asked to move leaderships away"),
        }
    }
    tracing::warn!("stopping although leaderships remain");
}

async fn ask(broker: &Broker) -> Result<ControlledShutdownResponse, ConnectionError> {
    let request = ControlledShutdownRequest {
        broker_id: broker.id.0,
        broker_epoch: broker.epoch().0,
        ..Default::default()
    };
    let controller = broker.metadata.controller().filter(|controller| *controller != broker.id);
    let address = controller.and_then(|controller| broker.inter_broker_address(controller));
    let Some(address) = address else {
        return Ok(controlled_shutdown::apply(broker, &request).await);
    };
    let options = ConnectionOptions {
        client_id: broker.id.to_string(),
        request_timeout: broker.config.controller.socket_timeout,
        ..Default::default()
    };
    Connection::open(&address, &options).await?.request(&request).await
}
