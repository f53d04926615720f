//! Groups over the wire: in every version, in every state, and while their coordinator moves.

use bytes::Bytes;
use ottla_protocol::compression::Codec;
use ottla_protocol::messages::delete_groups::DeleteGroupsRequest;
use ottla_protocol::messages::delete_topics::DeleteTopicsRequest;
use ottla_protocol::messages::describe_groups::{DescribeGroupsRequest, DescribedGroup};
use ottla_protocol::messages::find_coordinator::FindCoordinatorRequest;
use ottla_protocol::messages::heartbeat::HeartbeatRequest;
use ottla_protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use ottla_protocol::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use ottla_protocol::messages::list_groups::ListGroupsRequest;
use ottla_protocol::messages::metadata::MetadataRequest;
use ottla_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use ottla_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};
use ottla_protocol::records::Batches;
use ottla_protocol::{ErrorCode, Str};

use crate::cluster::{Cluster, error, fetch_request};
use crate::wire::Wire;

const SETTINGS: &[(&str, &str)] = &[
    ("offsets.topic.replication.factor", "1"),
    ("offsets.topic.num.partitions", "3"),
    ("group.initial.rebalance.delay.ms", "0"),
];

/// One broker, a topic `t` of two partitions, and a connection to the coordinator of everything.
async fn one_broker() -> (Cluster, Wire) {
    let cluster = Cluster::start(SETTINGS).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 2, 1, &[]).await;
    wire.coordinator("any").await;
    (cluster, wire)
}

fn join_request(group: &str, member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: Str::from(group),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 30_000,
        member_id: Str::from(member_id),
        protocol_type: Str::from("consumer"),
        protocols: vec![JoinGroupRequestProtocol {
            name: Str::from("range"),
            // A subscription to `t`.
            metadata: Bytes::from_static(&[0, 1, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn static_join(group: &str, instance: &str) -> JoinGroupRequest {
    JoinGroupRequest { group_instance_id: Some(Str::from(instance)), ..join_request(group, "") }
}

fn sync_request(
    group: &str,
    joined: &JoinGroupResponse,
    given: &[(&Str, &'static [u8])],
) -> SyncGroupRequest {
    let assignments = given.iter().map(|(member, bytes)| SyncGroupRequestAssignment {
        member_id: (*member).clone(),
        assignment: Bytes::from_static(bytes),
        ..Default::default()
    });
    SyncGroupRequest {
        group_id: Str::from(group),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: assignments.collect(),
        ..Default::default()
    }
}

fn commit_request(group: &str, topic: &str, partition: i32, offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: Str::from(group),
        topics: vec![OffsetCommitRequestTopic {
            name: Str::from(topic),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: partition,
                committed_offset: offset,
                committed_metadata: Some(Str::from("note")),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

impl Wire {
    /// The coordinator, once there is one.
    pub async fn coordinator(&mut self, group: &str) -> i32 {
        let request = FindCoordinatorRequest { key: Str::from(group), ..Default::default() };
        loop {
            let answer = self.ask(2, &request).await;
            match error(answer.error_code) {
                ErrorCode::None => return answer.node_id,
                other => assert_eq!(other, ErrorCode::CoordinatorNotAvailable),
            }
        }
    }

    async fn commit(&mut self, version: i16, request: &OffsetCommitRequest) -> ErrorCode {
        let answer = self.ask(version, request).await;
        error(answer.topics[0].partitions[0].error_code)
    }

    /// The offset of a partition of `t`, its note, and the errors of the group and of the partition.
    async fn committed(
        &mut self,
        version: i16,
        group: &str,
        partition: i32,
    ) -> (i64, String, ErrorCode, ErrorCode) {
        let (group_id, name) = (Str::from(group), Str::from("t"));
        if version >= 8 {
            let topic =
                OffsetFetchRequestTopics { name, partition_indexes: vec![partition], ..Default::default() };
            let asked = OffsetFetchRequestGroup { group_id, topics: Some(vec![topic]), ..Default::default() };
            let request = OffsetFetchRequest { groups: vec![asked], ..Default::default() };
            let answer = self.ask(version, &request).await.groups.remove(0);
            let of_group = error(answer.error_code);
            let Some(topic) = answer.topics.first() else {
                return (-1, String::new(), of_group, ErrorCode::None);
            };
            let found = &topic.partitions[0];
            let note = found.metadata.as_deref().unwrap_or_default().to_owned();
            return (found.committed_offset, note, of_group, error(found.error_code));
        }
        let topic =
            OffsetFetchRequestTopic { name, partition_indexes: vec![partition], ..Default::default() };
        let request = OffsetFetchRequest { group_id, topics: Some(vec![topic]), ..Default::default() };
        let answer = self.ask(version, &request).await;
        let of_group = error(answer.error_code);
        let Some(topic) = answer.topics.first() else {
            return (-1, String::new(), of_group, ErrorCode::None);
        };
        let found = &topic.partitions[0];
        let note = found.metadata.as_deref().unwrap_or_default().to_owned();
        (found.committed_offset, note, of_group, error(found.error_code))
    }

    async fn describe(&mut self, group: &str) -> DescribedGroup {
        let request = DescribeGroupsRequest { groups: vec![Str::from(group)], ..Default::default() };
        self.ask(4, &request).await.groups.remove(0)
    }

    /// The only member of a group, which is stable then.
    async fn only_member(&mut self, group: &str) -> JoinGroupResponse {
        let joined = self.ask(3, &join_request(group, "")).await;
        assert_eq!(error(joined.error_code), ErrorCode::None);
        let synced = self.sync(3, group, &joined, &[(&joined.member_id, b"all")]).await;
        assert_eq!(synced.assignment, "all");
        joined
    }

    async fn sync(
        &mut self,
        version: i16,
        group: &str,
        joined: &JoinGroupResponse,
        given: &[(&Str, &'static [u8])],
    ) -> SyncGroupResponse {
        self.ask(version, &sync_request(group, joined, given)).await
    }

    async fn delete_group(&mut self, group: &str) -> ErrorCode {
        let request = DeleteGroupsRequest { groups_names: vec![Str::from(group)], ..Default::default() };
        error(self.ask(1, &request).await.results[0].error_code)
    }

    async fn heartbeat(&mut self, group: &str, joined: &JoinGroupResponse) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: Str::from(group),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            ..Default::default()
        };
        error(self.ask(0, &request).await.error_code)
    }

    /// Keys and values of all records of a partition of the offsets topic; no value is a tombstone.
    async fn records_of(&mut self, partition: i32) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut answer = self.ask(11, &fetch_request("__consumer_offsets", &[(partition, 0)])).await;
        let records = answer.responses.remove(0).partitions.remove(0).records.unwrap();
        let mut found = Vec::new();
        for batch in Batches::new(&records) {
            for record in batch.unwrap().records(usize::MAX).unwrap().iter().unwrap() {
                let record = record.unwrap();
                found.push((record.key.unwrap().to_vec(), record.value.map(<[u8]>::to_vec)));
            }
        }
        found
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_lives_its_life_in_every_version() {
    let (_cluster, mut wire) = one_broker().await;
    for version in 0..=9 {
        let group = format!("of-version-{version}");
        let mut request = join_request(&group, "");
        let mut joined = wire.ask(version, &request).await;
        if version >= 4 {
            assert_eq!(error(joined.error_code), ErrorCode::MemberIdRequired, "v{version}");
            request.member_id = joined.member_id.clone();
            joined = wire.ask(version, &request).await;
        }
        assert_eq!(error(joined.error_code), ErrorCode::None, "v{version}");
        assert_eq!((joined.generation_id, joined.protocol_name.as_deref()), (1, Some("range")), "v{version}");
        assert_eq!(joined.leader, joined.member_id, "v{version}");
        assert_eq!(joined.members[0].metadata, request.protocols[0].metadata, "v{version}");
        assert!(joined.member_id.starts_with("test-"), "{}", joined.member_id);
        let consumer = |from| (version >= from).then(|| Str::from("consumer"));
        assert_eq!(joined.protocol_type, consumer(7), "v{version}");

        let sync_version = version.min(5);
        let mut request = sync_request(&group, &joined, &[(&joined.member_id, b"everything")]);
        if sync_version >= 5 {
            (request.protocol_type, request.protocol_name) = (consumer(0), Some(Str::from("range")));
        }
        let synced = wire.ask(sync_version, &request).await;
        assert_eq!((error(synced.error_code), &synced.assignment[..]), (ErrorCode::None, &b"everything"[..]));
        assert_eq!(wire.heartbeat(&group, &joined).await, ErrorCode::None);

        let mut commit = commit_request(&group, "t", 1, 40 + i64::from(version));
        if version >= 1 {
            commit.generation_id_or_member_epoch = 1;
            commit.member_id = joined.member_id.clone();
        }
        assert_eq!(wire.commit(version, &commit).await, ErrorCode::None, "v{version}");
        let note = if version == 0 { "" } else { "note" };
        let expected = (40 + i64::from(version), note.to_owned(), ErrorCode::None, ErrorCode::None);
        assert_eq!(wire.committed(version, &group, 1).await, expected, "v{version}");

        let (group_id, member_id) = (Str::from(group.as_str()), joined.member_id.clone());
        let leaving = if version >= 3 {
            let members = vec![MemberIdentity { member_id, ..Default::default() }];
            LeaveGroupRequest { group_id, members, ..Default::default() }
        } else {
            LeaveGroupRequest { group_id, member_id, ..Default::default() }
        };
        let left = wire.ask(version.min(5), &leaving).await;
        assert_eq!(error(left.error_code), ErrorCode::None, "v{version}");
        assert!(left.members.iter().all(|member| member.error_code == 0), "v{version}");
        let again = wire.ask(version.min(5), &leaving).await;
        let of_member = again.members.first().map_or(again.error_code, |member| member.error_code);
        assert_eq!(error(of_member), ErrorCode::UnknownMemberId, "v{version}");
        assert_eq!(wire.describe(&group).await.group_state, "Empty", "v{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_to_look_for_a_coordinator_makes_the_topic_and_finds_it() {
    let cluster = Cluster::start(SETTINGS).await;
    let mut wire = cluster.connect().await;
    let port = i32::from(cluster.address(0).port());
    for version in 0..=6 {
        let mut request = FindCoordinatorRequest::default();
        if version >= 4 {
            request.coordinator_keys = ["g", "h"].map(Str::from).to_vec();
        } else {
            request.key = Str::from("g");
        }
        let answer = wire.ask(version, &request).await;
        let (code, found) = match answer.coordinators.first() {
            Some(one) => (one.error_code, (one.node_id, &*one.host, one.port)),
            None => (answer.error_code, (answer.node_id, &*answer.host, answer.port)),
        };
        assert_eq!((error(code), found), (ErrorCode::None, (0, "127.0.0.1", port)), "v{version}");
        assert_eq!(answer.coordinators.len(), if version >= 4 { 2 } else { 0 });
    }
    for (key_type, expected) in [
        (1, ErrorCode::CoordinatorNotAvailable),
        (2, ErrorCode::InvalidRequest),
        (9, ErrorCode::InvalidRequest),
    ] {
        let request = FindCoordinatorRequest { key: Str::from("k"), key_type, ..Default::default() };
        assert_eq!(error(wire.ask(2, &request).await.error_code), expected, "key type {key_type}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_needs_more_brokers_than_there_are_leaves_groups_without_a_coordinator() {
    let cluster = Cluster::start(&[("offsets.topic.replication.factor", "3")]).await;
    let mut wire = cluster.connect().await;
    let request = FindCoordinatorRequest { key: Str::from("g"), ..Default::default() };
    for _ in 0..3 {
        let answer = wire.ask(2, &request).await;
        assert_eq!(error(answer.error_code), ErrorCode::CoordinatorNotAvailable);
    }
    assert_eq!(wire.describe("g").await.error_code, ErrorCode::NotCoordinator as i16);
}

/// Old clients keep offsets under no name at all (KAFKA-6773); nobody can be a member of that.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_name_has_offsets_but_no_members() {
    let (_cluster, mut wire) = one_broker().await;
    for version in 1..=9 {
        let commit = commit_request("", "t", 0, 5);
        assert_eq!(wire.commit(version, &commit).await, ErrorCode::None, "v{version}");
        assert_eq!(wire.committed(version, "", 0).await.0, 5, "v{version}");
    }
    assert_eq!(wire.commit(0, &commit_request("", "t", 0, 5)).await, ErrorCode::InvalidGroupId);
    assert_eq!(wire.describe("").await.group_state, "Empty");
    let joined = wire.ask(5, &join_request("", "")).await;
    assert_eq!(error(joined.error_code), ErrorCode::InvalidGroupId);
    assert_eq!(wire.heartbeat("", &joined).await, ErrorCode::InvalidGroupId);
    let synced = wire.sync(3, "", &joined, &[]).await;
    assert_eq!(error(synced.error_code), ErrorCode::InvalidGroupId);
    assert_eq!(wire.delete_group("").await, ErrorCode::None);
    assert_eq!(wire.committed(5, "", 0).await.0, -1);
}

/// KAFKA-8653: without a rebalance timeout of its own, a member of version 0 is waited for as long as its session lasts.
#[tokio::test(flavor = "multi_thread")]
async fn members_of_version_0_are_waited_for_as_long_as_a_session() {
    let (cluster, mut wire) = one_broker().await;
    let first = wire.ask(0, &join_request("g", "")).await;
    wire.sync(0, "g", &first, &[(&first.member_id, b"all")]).await;
    let mut other = cluster.connect().await;
    other.send(0, &join_request("g", "")).await;
    while wire.heartbeat("g", &first).await != ErrorCode::RebalanceInProgress {}
    wire.send(0, &join_request("g", &first.member_id)).await;
    let (one, two) = (wire.receive::<JoinGroupRequest>(0).await, other.receive::<JoinGroupRequest>(0).await);
    assert_eq!((one.generation_id, two.generation_id), (2, 2), "one rebalance, and it settles");
    assert_eq!((one.members.len(), two.members.len()), (2, 0));
}

/// KAFKA-14201.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_assigns_itself_may_commit() {
    let (_cluster, mut wire) = one_broker().await;
    let mut request = commit_request("g", "t", 0, 5);
    request.group_instance_id = Some(Str::from("x"));
    assert_eq!(wire.commit(7, &request).await, ErrorCode::None);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_are_refused_for_the_right_reason() {
    let (_cluster, mut wire) = one_broker().await;
    let joined = wire.only_member("g").await;
    let member = joined.member_id.clone();
    let long = "x".repeat(4_097);
    for (why, group, topic, partition, note, generation, member_id, expected) in [
        ("in step", "g", "t", 0, "note", 1, member.clone(), ErrorCode::None),
        ("left behind", "g", "t", 0, "note", 0, member.clone(), ErrorCode::IllegalGeneration),
        ("a stranger", "g", "t", 0, "note", 1, Str::from("eve"), ErrorCode::UnknownMemberId),
        ("not as a member", "g", "t", 0, "note", -1, Str::default(), ErrorCode::UnknownMemberId),
        (
            "a topic that is not there",
            "g",
            "u",
            0,
            "note",
            1,
            member.clone(),
            ErrorCode::UnknownTopicOrPartition,
        ),
        ("no name of a topic", "g", "?", 0, "note", 1, member.clone(), ErrorCode::UnknownTopicOrPartition),
        (
            "a partition that is not there",
            "g",
            "t",
            2,
            "note",
            1,
            member.clone(),
            ErrorCode::UnknownTopicOrPartition,
        ),
        ("too long a note", "g", "t", 0, long.as_str(), 1, member.clone(), ErrorCode::OffsetMetadataTooLarge),
        ("a group that is not there", "h", "t", 0, "note", 1, member.clone(), ErrorCode::IllegalGeneration),
        ("nobody's group", "h", "t", 0, "note", -1, Str::default(), ErrorCode::None),
    ] {
        let mut request = commit_request(group, topic, partition, 5);
        request.topics[0].partitions[0].committed_metadata = Some(Str::from(note));
        request.generation_id_or_member_epoch = generation;
        request.member_id = member_id;
        assert_eq!(wire.commit(8, &request).await, expected, "{why}");
    }
}

/// What the leader brings is handed on untouched, whatever it is.
#[tokio::test(flavor = "multi_thread")]
async fn assignments_are_bytes() {
    static HUGE: [u8; 900_000] = [7; 900_000];
    let (cluster, mut wire) = one_broker().await;
    let first = wire.only_member("g").await;
    let mut others = [cluster.connect().await, cluster.connect().await];
    for other in &mut others {
        other.send(3, &join_request("g", "")).await;
    }
    while wire.describe("g").await.members.len() < 3 {}
    let joined = wire.ask(3, &join_request("g", &first.member_id)).await;
    assert_eq!(joined.members.len(), 3);
    let [mut huge, mut left_out] = others;
    let (one, two) =
        (huge.receive::<JoinGroupRequest>(3).await, left_out.receive::<JoinGroupRequest>(3).await);
    huge.send(3, &sync_request("g", &one, &[(&one.member_id, b"not the leader")])).await;
    let stranger = Str::from("stranger");
    let given: [(&Str, &'static [u8]); 3] =
        [(&first.member_id, b"mine"), (&one.member_id, &HUGE), (&stranger, b"?")];
    let leader = wire.sync(3, "g", &joined, &given).await;
    assert_eq!((error(leader.error_code), &leader.assignment[..]), (ErrorCode::None, &b"mine"[..]));
    assert_eq!(huge.receive::<SyncGroupRequest>(3).await.assignment, HUGE[..]);
    let late = left_out.sync(3, "g", &two, &[]).await;
    assert_eq!(
        (error(late.error_code), late.assignment.len()),
        (ErrorCode::None, 0),
        "left out, and after the leader"
    );
    let described = wire.describe("g").await;
    assert_eq!((&*described.group_state, &*described.protocol_data), ("Stable", "range"));
    assert!(described.members.iter().all(|member| member.client_host == "/127.0.0.1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assignment_that_the_log_does_not_take_is_refused_and_shared_anew() {
    let settings = [SETTINGS, &[("message.max.bytes", "5000")]].concat();
    let cluster = Cluster::start(&settings).await;
    let mut wire = cluster.connect().await;
    wire.coordinator("g").await;
    static HUGE: [u8; 6_000] = [7; 6_000];
    let joined = wire.ask(3, &join_request("g", "")).await;
    let refused = wire.sync(3, "g", &joined, &[(&joined.member_id, &HUGE)]).await;
    assert_eq!(error(refused.error_code), ErrorCode::UnknownServerError);
    assert_eq!(wire.heartbeat("g", &joined).await, ErrorCode::RebalanceInProgress);
}

#[tokio::test(flavor = "multi_thread")]
async fn static_members_are_known_by_their_instance() {
    let (cluster, mut wire) = one_broker().await;
    let joined = wire.ask(5, &static_join("g", "one")).await;
    assert!(joined.member_id.starts_with("one-"), "{}", joined.member_id);
    wire.sync(3, "g", &joined, &[(&joined.member_id, b"all")]).await;
    let mut again = cluster.connect().await;
    let back = again.ask(9, &static_join("g", "one")).await;
    assert_eq!(
        (error(back.error_code), back.generation_id, back.skip_assignment),
        (ErrorCode::None, 1, true)
    );
    assert_eq!(again.sync(3, "g", &back, &[]).await.assignment, "all");
    let heartbeat = HeartbeatRequest {
        group_id: Str::from("g"),
        generation_id: 1,
        member_id: joined.member_id.clone(),
        group_instance_id: Some(Str::from("one")),
        ..Default::default()
    };
    assert_eq!(error(wire.ask(3, &heartbeat).await.error_code), ErrorCode::FencedInstanceId);
    // An operator puts the instance out, whoever it is now.
    let members = ["one", "two"].map(|instance| MemberIdentity {
        group_instance_id: Some(Str::from(instance)),
        ..Default::default()
    });
    let request =
        LeaveGroupRequest { group_id: Str::from("g"), members: members.into(), ..Default::default() };
    let left: Vec<ErrorCode> =
        wire.ask(3, &request).await.members.iter().map(|member| error(member.error_code)).collect();
    assert_eq!(left, [ErrorCode::None, ErrorCode::UnknownMemberId]);
}

#[tokio::test(flavor = "multi_thread")]
async fn static_members_need_brokers_that_all_know_them() {
    let settings = [SETTINGS, &[("inter.broker.protocol.version", "2.2")]].concat();
    let cluster = Cluster::start(&settings).await;
    let mut wire = cluster.connect().await;
    wire.coordinator("g").await;
    let joined = wire.ask(5, &static_join("g", "one")).await;
    assert_eq!(error(joined.error_code), ErrorCode::UnsupportedVersion);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_listed_by_state_and_type() {
    let (_cluster, mut wire) = one_broker().await;
    wire.only_member("stable").await;
    wire.commit(5, &commit_request("simple", "t", 0, 1)).await;
    for (why, version, states, types, expected) in [
        ("all", 0, vec![], vec![], vec!["simple", "stable"]),
        ("by state", 4, vec!["Stable"], vec![], vec!["stable"]),
        ("whatever its case", 4, vec!["eMPTY", "dead"], vec![], vec!["simple"]),
        ("by type", 5, vec![], vec!["Classic"], vec!["simple", "stable"]),
        ("by a type that needs KRaft", 5, vec![], vec!["consumer"], vec![]),
    ] {
        let list = |texts: Vec<&str>| texts.into_iter().map(Str::from).collect();
        let request = ListGroupsRequest {
            states_filter: list(states),
            types_filter: list(types),
            ..Default::default()
        };
        let answer = wire.ask(version, &request).await;
        let names: Vec<&str> = answer.groups.iter().map(|group| &*group.group_id).collect();
        assert_eq!(names, expected, "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_groups_and_offsets_leave_tombstones() {
    let (mut cluster, mut wire) = one_broker().await;
    // "g" lives in partition 103 % 3.
    let joined = wire.only_member("g").await;
    let mut commit = commit_request("g", "t", 0, 5);
    commit.generation_id_or_member_epoch = 1;
    commit.member_id = joined.member_id.clone();
    wire.commit(5, &commit).await;
    commit.topics[0].partitions[0].partition_index = 1;
    wire.commit(5, &commit).await;
    let delete = |topic: &str, partition_index| OffsetDeleteRequest {
        group_id: Str::from("g"),
        topics: vec![OffsetDeleteRequestTopic {
            name: Str::from(topic),
            partitions: vec![OffsetDeleteRequestPartition { partition_index }],
        }],
    };
    let in_use = wire.ask(0, &delete("t", 0)).await;
    assert_eq!(error(in_use.topics[0].partitions[0].error_code), ErrorCode::GroupSubscribedToTopic);
    assert_eq!(wire.delete_group("g").await, ErrorCode::NonEmptyGroup);
    let (group_id, member_id) = (Str::from("g"), joined.member_id.clone());
    wire.ask(0, &LeaveGroupRequest { group_id, member_id, ..Default::default() }).await;

    let unknown = wire.ask(0, &delete("u", 0)).await;
    assert_eq!(error(unknown.topics[0].partitions[0].error_code), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(error(wire.ask(0, &delete("t", 0)).await.topics[0].partitions[0].error_code), ErrorCode::None);
    assert_eq!((wire.committed(5, "g", 0).await.0, wire.committed(5, "g", 1).await.0), (-1, 5));
    assert_eq!(wire.delete_group("g").await, ErrorCode::None);
    assert_eq!(wire.delete_group("g").await, ErrorCode::GroupIdNotFound);
    assert_eq!(wire.describe("g").await.group_state, "Dead");

    let tombstones: Vec<Vec<u8>> = wire
        .records_of(1)
        .await
        .into_iter()
        .filter(|(_, value)| value.is_none())
        .map(|(key, _)| key)
        .collect();
    let offset = |partition: u8| [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, partition].to_vec();
    assert_eq!(tombstones, [offset(0), offset(1), vec![0, 2, 0, 1, b'g']]);
    cluster.restart_broker(0).await;
    let mut wire = cluster.connect().await;
    wire.coordinator("g").await;
    while wire.describe("g").await.error_code != 0 {}
    assert_eq!(wire.describe("g").await.group_state, "Dead", "the log says so too");
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_expire_with_the_group_that_nobody_is_in() {
    let settings =
        [SETTINGS, &[("offsets.retention.check.interval.ms", "20"), ("offsets.retention.minutes", "1")]]
            .concat();
    let cluster = Cluster::start(&settings).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 2, 1, &[]).await;
    wire.coordinator("g").await;
    // v1 tells the time of the commit: one that is over, and one that is not.
    let mut old = commit_request("g", "t", 0, 5);
    old.topics[0].partitions[0].commit_timestamp = 1_000;
    assert_eq!(wire.commit(1, &old).await, ErrorCode::None);
    assert_eq!(wire.commit(1, &commit_request("g", "t", 1, 6)).await, ErrorCode::None);
    while wire.committed(5, "g", 0).await.0 != -1 {}
    assert_eq!(wire.committed(5, "g", 1).await.0, 6);
    // v2 tells how long: it is over at once, and the group is gone with its last offset.
    let mut brief = commit_request("h", "t", 0, 5);
    brief.retention_time_ms = 0;
    assert_eq!(wire.commit(2, &brief).await, ErrorCode::None);
    while wire.describe("h").await.group_state != "Dead" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_of_version_0_are_the_consumers_own_in_zookeeper() {
    let (cluster, mut wire) = one_broker().await;
    assert_eq!(wire.committed(0, "g", 1).await.3, ErrorCode::UnknownTopicOrPartition, "there is none yet");
    assert_eq!(wire.commit(0, &commit_request("g", "t", 1, 77)).await, ErrorCode::None);
    assert_eq!(wire.committed(0, "g", 1).await.0, 77);
    assert_eq!(wire.committed(1, "g", 1).await.0, -1, "the log knows nothing of it");
    let (store, _) = cluster.zookeeper().await;
    let (data, _) = store.get("/consumers/g/offsets/t/1").await.unwrap();
    assert_eq!(data, b"77");
    assert_eq!(wire.commit(0, &commit_request("g", "u", 0, 1)).await, ErrorCode::UnknownTopicOrPartition);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_restarts_knows_its_groups() {
    let (mut cluster, mut wire) = one_broker().await;
    let joined = wire.only_member("g").await;
    let mut commit = commit_request("g", "t", 0, 5);
    commit.generation_id_or_member_epoch = 1;
    commit.member_id = joined.member_id.clone();
    assert_eq!(wire.commit(5, &commit).await, ErrorCode::None);
    // Waits while the broker stops, and is told.
    let mut other = cluster.connect().await;
    other.send(3, &join_request("g", "")).await;
    while wire.describe("g").await.group_state != "PreparingRebalance" {}
    cluster.stop_broker(0).await;
    assert_eq!(error(other.receive::<JoinGroupRequest>(3).await.error_code), ErrorCode::NotCoordinator);
    cluster.start_broker(0).await;
    let mut wire = cluster.connect().await;
    wire.coordinator("g").await;
    while wire.describe("g").await.error_code != 0 {}
    assert_eq!(wire.heartbeat("g", &joined).await, ErrorCode::None, "it is a member still");
    assert_eq!(wire.committed(5, "g", 0).await.0, 5);
    assert_eq!(wire.sync(3, "g", &joined, &[]).await.assignment, "all");
}

const TWO: &[(&str, &str)] = &[
    ("offsets.topic.replication.factor", "2"),
    ("offsets.topic.num.partitions", "2"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("auto.leader.rebalance.enable", "false"),
];

/// Two brokers that know each other, a topic `t` of two replicas, and a connection to broker 0, the controller.
pub async fn two_brokers(settings: &[(&str, &str)]) -> (Cluster, Wire) {
    let cluster = Cluster::of(2, &[TWO, settings].concat()).await;
    let mut wire = cluster.connect_to(0).await;
    while wire.ask(9, &MetadataRequest::default()).await.brokers.len() < 2 {}
    wire.create_topic("t", 1, 2, &[]).await;
    (cluster, wire)
}

/// Whichever of two brokers coordinates the group, it can be the other one soon.
#[tokio::test(flavor = "multi_thread")]
async fn another_broker_takes_over_where_the_coordinator_left_off() {
    let (mut cluster, mut control) = two_brokers(&[]).await;
    // A group whose coordinator is not the controller, so that the cluster goes on without it.
    let mut group = "a".to_owned();
    while control.coordinator(&group).await != 1 {
        group.push('a');
    }
    let mut wire = cluster.connect_to(1).await;
    while wire.describe(&group).await.error_code != 0 {}
    let joined = wire.only_member(&group).await;
    let mut commit = commit_request(&group, "t", 0, 5);
    commit.generation_id_or_member_epoch = 1;
    commit.member_id = joined.member_id.clone();
    assert_eq!(wire.commit(5, &commit).await, ErrorCode::None, "on both brokers");
    assert_eq!(control.committed(5, &group, 0).await.2, ErrorCode::NotCoordinator, "not here");
    assert_eq!(control.commit(5, &commit).await, ErrorCode::NotCoordinator);
    assert_eq!(control.heartbeat(&group, &joined).await, ErrorCode::NotCoordinator);
    cluster.stop_broker(1).await;
    while control.coordinator(&group).await != 0 {}
    let loading = [ErrorCode::NotCoordinator, ErrorCode::CoordinatorLoadInProgress];
    let offset = loop {
        let (offset, _, of_group, _) = control.committed(5, &group, 0).await;
        if of_group == ErrorCode::None {
            break offset;
        }
        assert!(loading.contains(&of_group), "{of_group:?}");
    };
    assert_eq!(offset, 5);
    assert_eq!(control.heartbeat(&group, &joined).await, ErrorCode::None);
    assert_eq!(control.describe(&group).await.group_state, "Stable");
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_wait_for_enough_replicas_and_are_refused_without() {
    let settings = [("min.insync.replicas", "2"), ("offsets.commit.timeout.ms", "200")];
    let (mut cluster, mut wire) = two_brokers(&settings).await;
    let mut group = "a".to_owned();
    while wire.coordinator(&group).await != 0 {
        group.push('a');
    }
    while wire.describe(&group).await.error_code != 0 {}
    // The other broker follows a moment later than it is led.
    while wire.commit(5, &commit_request(&group, "t", 0, 5)).await != ErrorCode::None {}
    cluster.stop_broker(1).await;
    loop {
        match wire.commit(5, &commit_request(&group, "t", 0, 6)).await {
            // Appended, and nobody comes for it.
            ErrorCode::RequestTimedOut => {}
            refused => break assert_eq!(refused, ErrorCode::CoordinatorNotAvailable),
        }
    }
    assert_eq!(wire.committed(5, &group, 0).await.0, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_go_with_their_topic() {
    let (_cluster, mut wire) = one_broker().await;
    wire.create_topic("u", 1, 1, &[]).await;
    assert_eq!(wire.commit(5, &commit_request("g", "t", 0, 5)).await, ErrorCode::None);
    assert_eq!(wire.commit(5, &commit_request("g", "u", 0, 5)).await, ErrorCode::None);
    let request =
        DeleteTopicsRequest { topic_names: vec![Str::from("t")], timeout_ms: 60_000, ..Default::default() };
    wire.ask(1, &request).await;
    while wire.committed(5, "g", 0).await.0 != -1 {}
    let everything = OffsetFetchRequest { group_id: Str::from("g"), topics: None, ..Default::default() };
    let left = wire.ask(2, &everything).await;
    assert_eq!(left.topics.iter().map(|topic| &*topic.name).collect::<Vec<_>>(), ["u"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_groups_are_compressed_as_configured() {
    for (number, codec) in [("1", Codec::Gzip), ("2", Codec::Snappy), ("3", Codec::Lz4), ("4", Codec::Zstd)] {
        let settings = [SETTINGS, &[("offsets.topic.compression.codec", number)]].concat();
        let mut cluster = Cluster::start(&settings).await;
        let mut wire = cluster.connect().await;
        wire.create_topic("t", 1, 1, &[]).await;
        wire.coordinator("g").await;
        assert_eq!(wire.commit(5, &commit_request("g", "t", 0, 5)).await, ErrorCode::None);
        let mut answer = wire.ask(11, &fetch_request("__consumer_offsets", &[(1, 0)])).await;
        let records = answer.responses.remove(0).partitions.remove(0).records.unwrap();
        let batch = Batches::new(&records).next().unwrap().unwrap();
        assert_eq!(batch.header().codec().unwrap(), codec);
        cluster.restart_broker(0).await;
        let mut wire = cluster.connect().await;
        wire.coordinator("g").await;
        while wire.describe("g").await.error_code != 0 {}
        assert_eq!(wire.committed(5, "g", 0).await.0, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offsets_topic_that_was_deleted_begins_anew() {
    let (_cluster, mut wire) = one_broker().await;
    assert_eq!(wire.commit(5, &commit_request("g", "t", 0, 5)).await, ErrorCode::None);
    let request = DeleteTopicsRequest {
        topic_names: vec![Str::from("__consumer_offsets")],
        timeout_ms: 60_000,
        ..Default::default()
    };
    assert_eq!(wire.ask(1, &request).await.responses[0].error_code, 0);
    while wire.committed(5, "g", 0).await.2 != ErrorCode::NotCoordinator {}
    wire.coordinator("g").await;
    while wire.describe("g").await.error_code != 0 {}
    assert_eq!(wire.committed(5, "g", 0).await.0, -1);
    assert_eq!(wire.commit(5, &commit_request("g", "t", 0, 6)).await, ErrorCode::None);
}
