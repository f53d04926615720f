//! A request parked on several partitions at once.

use std::sync::Arc;

use crate::hosted_partition::HostedPartition;
use crate::purgatory::{Moves, Parked};

/// Leaves all the partitions again when dropped, whatever ended the wait.
#[derive(Debug)]
pub struct ParkedOnAll {
    request: Arc<Parked>,
    partitions: Vec<Arc<HostedPartition>>,
}

/// Parks a request until the partitions have gained `bytes` together.
pub fn park_on_all(
    moves: Moves,
    bytes: i64,
    partitions: impl IntoIterator<Item = Arc<HostedPartition>>,
) -> ParkedOnAll {
    let request = Parked::new(moves, bytes);
    let partitions: Vec<_> = partitions.into_iter().collect();
    for partition in &partitions {
        partition.purgatory().park(request.clone());
    }
    ParkedOnAll { request, partitions }
}

impl ParkedOnAll {
    pub async fn woken(&self) {
        self.request.woken().await;
    }
}

impl Drop for ParkedOnAll {
    fn drop(&mut self) {
        for partition in &self.partitions {
            partition.purgatory().leave(&self.request);
        }
    }
}
