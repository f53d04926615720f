//! Offsets that nobody needs any more (KIP-211).

use std::time::Duration;

use crate::server::Broker;

/// Looks every `offsets.retention.check.interval.ms`; ends never.
pub async fn run(broker: &std::sync::Arc<Broker>) {
    let offsets = &broker.config.offsets;
    let retention_ms = i64::try_from(offsets.retention.as_millis()).unwrap_or(i64::MAX);
    loop {
        tokio::time::sleep(offsets.retention_check_interval).await;
        let broker = broker.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let begun = std::time::Instant::now();
            let coordinator = &broker.groups;
            let expired: usize =
                coordinator.all().0.iter().map(|group| group.expire_offsets(coordinator, retention_ms)).sum();
            (expired, begun.elapsed())
        });
        match looked.await {
            Ok((0, _)) => {}
            Ok((expired, took)) => log(expired, took),
            Err(error) => tracing::error!(%error, "offsets not looked through for expired ones"),
        }
    }
}

fn log(expired: usize, took: Duration) {
    tracing::info!("Removed {expired} expired offsets in {} milliseconds.", took.as_millis());
}
