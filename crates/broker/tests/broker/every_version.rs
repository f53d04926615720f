//! Every API that is announced answers in every version that is announced, with a body that fills its frame.

use std::collections::BTreeMap;

use ottla_protocol::messages::api_versions::ApiVersionsRequest;
use ottla_protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use ottla_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use ottla_protocol::messages::describe_cluster::DescribeClusterRequest;
use ottla_protocol::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use ottla_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use ottla_protocol::messages::init_producer_id::InitProducerIdRequest;
use ottla_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use ottla_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use ottla_protocol::messages::{
    AlterConfigsRequest, AlterPartitionRequest, AlterReplicaLogDirsRequest, ControlledShutdownRequest,
    CreateAclsRequest, CreatePartitionsRequest, DeleteAclsRequest, DeleteGroupsRequest, DeleteRecordsRequest,
    DescribeAclsRequest, DescribeGroupsRequest, DescribeLogDirsRequest, DescribeProducersRequest,
    FindCoordinatorRequest, HeartbeatRequest, IncrementalAlterConfigsRequest, JoinGroupRequest,
    LeaderAndIsrRequest, LeaveGroupRequest, ListGroupsRequest, ListPartitionReassignmentsRequest,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest,
    StopReplicaRequest, SyncGroupRequest, UpdateMetadataRequest,
};
use ottla_protocol::records::{Magic, MessageSetBuilder};
use ottla_protocol::{ApiKey, Request, Str};

use crate::cluster::{Cluster, batch, fetch_request, produce_request};
use crate::wire::Wire;

/// What is announced, and what of it has been asked.
struct Announced {
    wire: Wire,
    left: BTreeMap<i16, (i16, i16)>,
}

impl Announced {
    async fn by(cluster: &Cluster) -> Announced {
        let mut wire = cluster.connect().await;
        let answer = wire.ask(0, &ApiVersionsRequest::default()).await;
        let rows = answer.api_keys.iter().map(|row| (row.api_key, (row.min_version, row.max_version)));
        Announced { wire, left: rows.collect() }
    }

    /// Asks in each version; `fit` makes the request fit into one.
    async fn ask<R: Request>(&mut self, fit: impl Fn(i16) -> R) {
        let (min, max) =
            self.left.remove(&(R::KEY as i16)).unwrap_or_else(|| panic!("{} is announced", R::NAME));
        for version in min..=max {
            self.wire.ask(version, &fit(version)).await;
        }
    }
}

fn name() -> Str {
    Str::from("t")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_api_answers_in_every_version() {
    let cluster = Cluster::start(&[]).await;
    let mut announced = Announced::by(&cluster).await;
    announced.wire.create_topic("t", 1, 1, &[]).await;
    let id = announced.wire.topic_id("t").await;

    announced
        .ask(|version| {
            let records = if version < 3 {
                let mut set = MessageSetBuilder::new(Magic::V0, ottla_protocol::compression::Codec::None);
                set.append(ottla_model::Offset(0), ottla_model::Timestamp(-1), None, Some(b"old"));
                set.finish()
            } else {
                batch(&["new"])
            };
            let mut request = produce_request(1, "t", 0, records);
            request.topic_data[0].topic_id = id;
            request
        })
        .await;
    announced
        .ask(|_| {
            let mut request = fetch_request("t", &[(0, 0), (9, 0)]);
            request.topics[0].topic_id = id;
            request
        })
        .await;
    announced
        .ask(|version| {
            let partition = |partition_index| ListOffsetsPartition {
                partition_index,
                timestamp: if version == 0 { -1 } else { 0 },
                ..Default::default()
            };
            let partitions = vec![partition(0), partition(9)];
            let topics = vec![ListOffsetsTopic { name: name(), partitions, ..Default::default() }];
            ListOffsetsRequest { replica_id: -1, topics, ..Default::default() }
        })
        .await;
    announced
        .ask(|version| {
            let topic =
                |name: &str| MetadataRequestTopic { name: Some(Str::from(name)), ..Default::default() };
            let mut request = MetadataRequest {
                topics: Some(vec![topic("t"), topic("unknown"), topic("not a name")]),
                include_cluster_authorized_operations: (8..=10).contains(&version),
                include_topic_authorized_operations: version >= 8,
                ..Default::default()
            };
            if version >= 4 {
                request.allow_auto_topic_creation = false;
            }
            request
        })
        .await;
    announced.ask(|_| LeaderAndIsrRequest { controller_epoch: -1, ..Default::default() }).await;
    announced.ask(|_| StopReplicaRequest { controller_epoch: -1, ..Default::default() }).await;
    announced.ask(|_| UpdateMetadataRequest { controller_epoch: -1, ..Default::default() }).await;
    announced.ask(|_| ControlledShutdownRequest { broker_id: 99, ..Default::default() }).await;
    announced
        .ask(|_| ApiVersionsRequest {
            client_software_name: Str::from("test"),
            client_software_version: Str::from("1"),
            ..Default::default()
        })
        .await;
    announced
        .ask(|version| {
            let topic = |name: String| CreatableTopic {
                name: Str::from(name),
                num_partitions: 1,
                replication_factor: 1,
                ..Default::default()
            };
            let topics = vec![topic(format!("created-{version}")), topic("not a name".to_owned())];
            CreateTopicsRequest { topics, timeout_ms: 60_000, ..Default::default() }
        })
        .await;
    announced
        .ask(|version| {
            let names = [format!("created-{version}"), "unknown".to_owned()].map(Str::from);
            let mut request = DeleteTopicsRequest { timeout_ms: 60_000, ..Default::default() };
            if version >= 6 {
                let state = |name| DeleteTopicState { name: Some(name), ..Default::default() };
                let unknown_id =
                    DeleteTopicState { topic_id: ottla_model::Uuid([1; 16]), ..Default::default() };
                request.topics = names.map(state).into_iter().chain([unknown_id]).collect();
            } else {
                request.topic_names = names.to_vec();
            }
            request
        })
        .await;
    announced.ask(|_| InitProducerIdRequest::default()).await;
    announced
        .ask(|version| {
            let resource = |resource_type, name: &str| DescribeConfigsResource {
                resource_type,
                resource_name: Str::from(name),
                ..Default::default()
            };
            DescribeConfigsRequest {
                resources: vec![resource(2, "t"), resource(4, "0"), resource(4, "7"), resource(2, "unknown")],
                include_synonyms: version >= 1,
                include_documentation: version >= 3,
                ..Default::default()
            }
        })
        .await;
    announced
        .ask(|version| {
            let named = vec![
                TopicPartitions { topic: name(), partitions: vec![0, 9], ..Default::default() },
                TopicPartitions { topic: Str::from("unknown"), partitions: vec![0], ..Default::default() },
            ];
            let election_type = i8::from(version == 2);
            ElectLeadersRequest { election_type, topic_partitions: Some(named), ..Default::default() }
        })
        .await;
    // Groups are asked in earnest elsewhere.
    announced.ask(|_| OffsetCommitRequest::default()).await;
    announced.ask(|_| OffsetFetchRequest::default()).await;
    announced.ask(|_| FindCoordinatorRequest::default()).await;
    announced.ask(|_| JoinGroupRequest::default()).await;
    announced.ask(|_| HeartbeatRequest::default()).await;
    announced.ask(|_| LeaveGroupRequest::default()).await;
    announced.ask(|_| SyncGroupRequest::default()).await;
    announced.ask(|_| DescribeGroupsRequest { groups: vec![name()], ..Default::default() }).await;
    announced.ask(|_| ListGroupsRequest::default()).await;
    announced.ask(|_| DeleteGroupsRequest { groups_names: vec![name()], ..Default::default() }).await;
    announced.ask(|_| OffsetDeleteRequest::default()).await;
    announced.ask(|_| AlterPartitionRequest::default()).await;
    // And these too.
    announced.ask(|_| DeleteRecordsRequest::default()).await;
    announced.ask(|_| OffsetForLeaderEpochRequest::default()).await;
    announced.ask(|_| DescribeAclsRequest::default()).await;
    announced.ask(|_| CreateAclsRequest { creations: vec![Default::default()], ..Default::default() }).await;
    announced.ask(|_| DeleteAclsRequest { filters: vec![Default::default()], ..Default::default() }).await;
    announced
        .ask(|_| AlterConfigsRequest { resources: vec![Default::default()], ..Default::default() })
        .await;
    announced.ask(|_| AlterReplicaLogDirsRequest::default()).await;
    announced.ask(|_| DescribeLogDirsRequest::default()).await;
    announced
        .ask(|_| CreatePartitionsRequest { topics: vec![Default::default()], ..Default::default() })
        .await;
    announced
        .ask(|_| IncrementalAlterConfigsRequest { resources: vec![Default::default()], ..Default::default() })
        .await;
    announced.ask(|_| ListPartitionReassignmentsRequest::default()).await;
    announced.ask(|_| DescribeProducersRequest::default()).await;
    announced.ask(|_| DescribeClusterRequest::default()).await;

    let left = announced.left.keys().map(|key| ApiKey::from_i16(*key).map(|key| key.name()));
    assert_eq!(left.collect::<Vec<_>>(), [], "announced and not asked here");
}
