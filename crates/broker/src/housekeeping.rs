//! What has to be done from time to time, request or no request.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval_at};

use crate::server::{Broker, stopping};

/// Writes checkpoints, flushes what `flush.ms` asks for, lets retention delete, and removes what was deleted, until the broker
/// stops.
pub async fn run(broker: Arc<Broker>, mut stopped: watch::Receiver<bool>) {
    let every = |period: std::time::Duration| {
        // Beyond a century a timer is no timer any more: that is how "never" is configured.
        let period =
            period.clamp(std::time::Duration::from_millis(1), std::time::Duration::from_secs(3_000_000_000));
        let mut interval = interval_at(tokio::time::Instant::now() + period, period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    };
    let mut high_watermarks = every(broker.config.replication.high_watermark_checkpoint_interval);
    let mut recovery_points = every(broker.config.log.recovery_point_checkpoint_interval);
    let mut flushes = every(broker.config.log.flush_scheduler_interval);
    let mut retention = every(broker.config.log.retention_check_interval);
    loop {
        let broker = broker.clone();
        let work: Box<dyn FnOnce() + Send> = tokio::select! {
            () = stopping(&mut stopped) => return,
            _ = high_watermarks.tick() => Box::new(move || {
                broker.replicas.checkpoint_high_watermarks();
                broker.replicas.remove_deleted(broker.now());
            }),
            _ = recovery_points.tick() => Box::new(move || broker.replicas.checkpoint_recovery_points()),
            _ = retention.tick() => Box::new(move || {
                broker.replicas.delete_old_segments(broker.now());
                broker.replicas.checkpoint_recovery_points();
            }),
            _ = flushes.tick() => Box::new(move || broker.replicas.flush_due(broker.now())),
        };
        if let Err(error) = tokio::task::spawn_blocking(work).await {
            tracing::error!(%error, "housekeeping failed");
        }
    }
}
