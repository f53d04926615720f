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

/// Parks a request until the partitions have gained `bytes` together. A partition's place is its number in their order.
pub fn park_on_all(
    moves: Moves,
    bytes: i64,
    partitions: impl IntoIterator<Item = Arc<HostedPartition>>,
) -> ParkedOnAll {
    let partitions: Vec<_> = partitions.into_iter().collect();
    let request = Parked::new(moves, bytes, partitions.len());
    for (place, partition) in partitions.iter().enumerate() {
        partition.purgatory().park(request.clone(), place);
    }
    ParkedOnAll { request, partitions }
}

impl ParkedOnAll {
    pub fn request(&self) -> &Parked {
        &self.request
    }

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
