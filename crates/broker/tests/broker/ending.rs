//! How a broker ends.

use std::time::Duration;

use crate::cluster::Cluster;

/// Long before the session would expire (18 s), which nobody is left to tell.
const SOON: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_ends_soon_although_zookeeper_went_first() {
    let mut cluster = Cluster::of(2, &[("controlled.shutdown.enable", "true")]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 4, 1, &[]).await;

    cluster.stop_zookeeper();
    for id in [0, 1] {
        tokio::time::timeout(SOON, cluster.stop_broker(id)).await.expect("the broker ends soon");
    }
}
