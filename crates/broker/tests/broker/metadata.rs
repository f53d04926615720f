//! Metadata: what it lists, and the topics it makes.

use ottla_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use ottla_protocol::{ErrorCode, Str};

use crate::cluster::{Cluster, error};

/// `None` is null. Below v4 a client cannot say that it wants no topic made.
fn request(version: i16, names: Option<&[&str]>, may_create: bool) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic { name: Some(Str::from(*name)), ..Default::default() };
    MetadataRequest {
        topics: names.map(|names| names.iter().map(topic).collect()),
        allow_auto_topic_creation: may_create || version < 4,
        ..Default::default()
    }
}

fn listed(answer: &MetadataResponse) -> Vec<(&str, ErrorCode, usize)> {
    let row = |topic: &ottla_protocol::messages::metadata::MetadataResponseTopic| topic.partitions.len();
    answer
        .topics
        .iter()
        .map(|topic| (topic.name.as_deref().unwrap_or_default(), error(topic.error_code), row(topic)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_topics_and_no_topics_are_told_apart() {
    let cluster = Cluster::start(&[("auto.create.topics.enable", "false")]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("a", 2, 1, &[]).await;
    wire.create_topic("b", 1, 1, &[]).await;
    let (a, b) = (("a", ErrorCode::None, 2), ("b", ErrorCode::None, 1));
    for version in 0..=13 {
        let all = if version == 0 { Some(&[][..]) } else { None };
        let answer = wire.ask(version, &request(version, all, false)).await;
        assert_eq!(listed(&answer), [a, b], "v{version}");
        assert_eq!(answer.brokers.len(), 1, "v{version}");
        assert_eq!(answer.controller_id, if version >= 1 { 0 } else { -1 }, "v{version}");
        assert_eq!(answer.cluster_id.is_some(), version >= 2, "v{version}");
        if version >= 1 {
            let none = wire.ask(version, &request(version, Some(&[]), false)).await;
            assert_eq!((listed(&none), none.brokers.len()), (vec![], 1), "v{version}");
        }
        let names = ["b", "nope", "a b", "a", "b"];
        let some = wire.ask(version, &request(version, Some(&names), false)).await;
        let nope = ("nope", ErrorCode::UnknownTopicOrPartition, 0);
        let impossible = ("a b", ErrorCode::InvalidTopicException, 0);
        assert_eq!(listed(&some), [b, nope, impossible, a], "v{version}: each once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_topic_is_made_when_client_and_broker_both_want_it() {
    for (why, enabled, version, may_create, first) in [
        ("an old client", "true", 1, true, ErrorCode::LeaderNotAvailable),
        ("a client that wants it", "true", 9, true, ErrorCode::LeaderNotAvailable),
        ("a client that does not", "true", 9, false, ErrorCode::UnknownTopicOrPartition),
        ("a broker that does not", "false", 9, true, ErrorCode::UnknownTopicOrPartition),
    ] {
        let cluster =
            Cluster::start(&[("auto.create.topics.enable", enabled), ("num.partitions", "3")]).await;
        let mut wire = cluster.connect().await;
        let answer = wire.ask(version, &request(version, Some(&["t"]), may_create)).await;
        assert_eq!(listed(&answer), [("t", first, 0)], "{why}");
        if first == ErrorCode::LeaderNotAvailable {
            // It is the client's part to ask again; each question is answered.
            let ready = [("t", ErrorCode::None, 3)];
            while listed(&wire.ask(version, &request(version, Some(&["t"]), true)).await) != ready {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_looked_up_by_id_from_v12_on() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    let id = wire.topic_id("t").await;
    let by_id = |id| MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { topic_id: id, name: None, ..Default::default() }]),
        ..Default::default()
    };
    for version in 10..=13 {
        let known = wire.ask(version, &by_id(id)).await;
        let unknown = wire.ask(version, &by_id(ottla_model::Uuid([7; 16]))).await;
        let (known_code, unknown_code) = match version {
            10 | 11 => (ErrorCode::InvalidRequest, ErrorCode::InvalidRequest),
            _ => (ErrorCode::None, ErrorCode::UnknownTopicId),
        };
        assert_eq!(error(known.topics[0].error_code), known_code, "v{version}");
        assert_eq!(error(unknown.topics[0].error_code), unknown_code, "v{version}");
        if version >= 12 {
            assert_eq!(known.topics[0].name.as_deref(), Some("t"), "v{version}");
        }
    }
}
