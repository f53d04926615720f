//! Fetch without sessions: formats, bounds, waiting.

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::api_versions::ApiVersionsRequest;
use ottla_protocol::messages::fetch::{FetchRequest, PartitionData};
use ottla_protocol::records::{Batches, Magic};

use crate::cluster::{Cluster, batch, error, fetch_request, values};
use crate::wire::Wire;

async fn fetch(wire: &mut Wire, version: i16, request: &FetchRequest) -> PartitionData {
    let mut answer = wire.ask(version, request).await;
    answer.responses.remove(0).partitions.remove(0)
}

async fn request_for(wire: &mut Wire, version: i16, topic: &str, offset: i64) -> FetchRequest {
    let mut request = fetch_request(topic, &[(0, offset)]);
    if version >= 13 {
        request.topics[0].topic_id = wire.topic_id(topic).await;
    }
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn each_version_gets_records_in_the_format_it_knows() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    wire.create_topic("new-only", 1, 1, &[("message.downconversion.enable", "false")]).await;
    for topic in ["t", "new-only"] {
        wire.produce(topic, 0, batch(&["a", "b"])).await;
    }
    for version in 0..=17 {
        let request = request_for(&mut wire, version, "t", 0).await;
        let answer = fetch(&mut wire, version, &request).await;
        assert_eq!((answer.error_code, answer.high_watermark), (0, 2), "v{version}");
        assert_eq!(values(&answer.records), ["a", "b"], "v{version}");
        let records = answer.records.unwrap();
        let magic = Batches::new(&records).next().unwrap().unwrap().header().magic;
        let known = [Magic::V0, Magic::V0, Magic::V1, Magic::V1];
        assert_eq!(magic, known.get(version as usize).copied().unwrap_or(Magic::V2), "v{version}");

        let request = request_for(&mut wire, version, "new-only", 0).await;
        let refused = error(fetch(&mut wire, version, &request).await.error_code);
        let expected = if version < 4 { ErrorCode::UnsupportedVersion } else { ErrorCode::None };
        assert_eq!(refused, expected, "v{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_outside_the_log_are_refused_and_its_end_is_empty() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    wire.produce("t", 0, batch(&["a", "b"])).await;
    for version in 0..=17 {
        for (why, offset, expected) in [
            ("before everything", -1, ErrorCode::OffsetOutOfRange),
            ("the end", 2, ErrorCode::None),
            ("after the end", 3, ErrorCode::OffsetOutOfRange),
            ("far out", i64::MAX, ErrorCode::OffsetOutOfRange),
        ] {
            let request = request_for(&mut wire, version, "t", offset).await;
            let answer = fetch(&mut wire, version, &request).await;
            assert_eq!(error(answer.error_code), expected, "v{version} {why}");
            assert!(answer.records.unwrap_or_default().is_empty(), "v{version} {why}");
            if version >= 5 {
                assert_eq!(answer.log_start_offset, 0, "v{version} {why}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_to_the_partition_are_told_so() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    let with = |change: fn(&mut FetchRequest)| {
        let mut request = fetch_request("t", &[(0, 0)]);
        change(&mut request);
        request
    };
    let epoch =
        |request: &mut FetchRequest, epoch| request.topics[0].partitions[0].current_leader_epoch = epoch;
    for (why, version, request, expected) in [
        ("unknown topic", 4, fetch_request("nope", &[(0, 0)]), ErrorCode::UnknownTopicOrPartition),
        ("unknown partition", 4, fetch_request("t", &[(7, 0)]), ErrorCode::UnknownTopicOrPartition),
        (
            "unknown id",
            13,
            with(|r| r.topics[0].topic_id = ottla_model::Uuid([9; 16])),
            ErrorCode::UnknownTopicId,
        ),
        ("no replica of it", 4, with(|r| r.replica_id = 7), ErrorCode::NotLeaderOrFollower),
        (
            "an epoch to come",
            9,
            {
                let mut r = with(|_| ());
                epoch(&mut r, 5);
                r
            },
            ErrorCode::UnknownLeaderEpoch,
        ),
        (
            "the epoch it is",
            9,
            {
                let mut r = with(|_| ());
                epoch(&mut r, 0);
                r
            },
            ErrorCode::None,
        ),
    ] {
        assert_eq!(error(fetch(&mut wire, version, &request).await.error_code), expected, "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_are_kept_to_but_for_the_first_batch() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 3, 1, &[]).await;
    let size = batch(&["0123456789"]).len();
    for partition in 0..3 {
        for _ in 0..4 {
            wire.produce("t", partition, batch(&["0123456789"])).await;
        }
    }
    for (why, version, partition_max, max, expected) in [
        ("room for everything", 12, 9 * size, 99 * size, [4, 4, 4]),
        ("two batches each", 12, 2 * size, 99 * size, [2, 2, 2]),
        ("five batches in all", 12, 9 * size, 5 * size, [4, 1, 0]),
        ("less than one: one, or nobody would get anywhere", 12, 1, 1, [1, 0, 0]),
        ("nothing asked, one given", 3, 0, 0, [1, 0, 0]),
    ] {
        let mut request = fetch_request("t", &[(0, 0), (1, 0), (2, 0)]);
        request.max_bytes = max as i32;
        request.topics[0].partitions.iter_mut().for_each(|p| p.partition_max_bytes = partition_max as i32);
        let answer = wire.ask(version, &request).await;
        let batches = |data: &PartitionData| {
            let records = data.records.clone().unwrap_or_default();
            Batches::new(&records).map_while(Result::ok).count()
        };
        let found: Vec<usize> = answer.responses[0].partitions.iter().map(batches).collect();
        assert_eq!(found, expected, "{why}");
    }
}

/// v0 to v2 have no such mercy: the client sees a message that is cut, and asks for more bytes.
#[tokio::test(flavor = "multi_thread")]
async fn old_fetches_get_a_cut_message_where_it_does_not_fit() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    wire.produce("t", 0, batch(&["0123456789"])).await;
    for version in 0..=2 {
        let mut request = fetch_request("t", &[(0, 0)]);
        request.topics[0].partitions[0].partition_max_bytes = 20;
        let answer = fetch(&mut wire, version, &request).await;
        assert_eq!(answer.error_code, 0, "v{version}");
        assert_eq!(answer.records.unwrap().len(), 20, "v{version}");
    }
}

/// The request behind it on the same connection is answered after it, and its own limit is weeks away: nothing but the
/// append can have ended the wait.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_ends_the_wait_and_answers_keep_their_order() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    for version in [0, 4, 11, 17] {
        let offset = wire.produce("t", 0, batch(&["before"])).await.base_offset + 1;
        let mut request = request_for(&mut wire, version, "t", offset).await;
        request.max_wait_ms = i32::MAX;
        wire.send(version, &request).await;
        wire.send(0, &ApiVersionsRequest::default()).await;
        cluster.connect().await.produce("t", 0, batch(&["woken"])).await;
        let answer = wire.receive::<FetchRequest>(version).await;
        assert_eq!(values(&answer.responses[0].partitions[0].records), ["woken"], "v{version}");
        wire.receive::<ApiVersionsRequest>(0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_its_topic_goes() {
    use ottla_protocol::messages::delete_topics::DeleteTopicsRequest;
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    let mut request = fetch_request("t", &[(0, 0)]);
    request.max_wait_ms = i32::MAX;
    wire.send(4, &request).await;
    let topic_names = vec!["t".into()];
    let deletion = DeleteTopicsRequest { topic_names, timeout_ms: 60_000, ..Default::default() };
    cluster.connect().await.ask(1, &deletion).await;
    let answer = wire.receive::<FetchRequest>(4).await;
    let code = error(answer.responses[0].partitions[0].error_code);
    assert!(matches!(code, ErrorCode::NotLeaderOrFollower | ErrorCode::UnknownTopicOrPartition), "{code:?}");
}
