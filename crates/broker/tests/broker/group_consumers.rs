//! Our own client's members of a group.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use ottla_client::{
    Address, Assignor, Client, ClientError, ClientOptions, ConsumerOptions, GroupConsumer, GroupOptions,
    OffsetReset,
};
use ottla_protocol::ErrorCode;

use crate::cluster::{Cluster, batch, topic_name};
use crate::groups::two_brokers;
use crate::wire::Wire;

const SETTINGS: &[(&str, &str)] = &[
    ("offsets.topic.replication.factor", "1"),
    ("offsets.topic.num.partitions", "3"),
    ("group.initial.rebalance.delay.ms", "0"),
];

const PARTITIONS: i32 = 4;

struct Group {
    cluster: Cluster,
    wire: Wire,
    options: GroupOptions,
}

impl Group {
    async fn new() -> Group {
        let cluster = Cluster::start(SETTINGS).await;
        let mut wire = cluster.connect().await;
        wire.create_topic("t", PARTITIONS, 1, &[]).await;
        let options = GroupOptions {
            session_timeout: Duration::from_secs(6),
            heartbeat_interval: Duration::from_millis(20),
            ..GroupOptions::new("g")
        };
        Group { cluster, wire, options }
    }

    async fn write(&mut self, values: &[&str]) {
        for (at, value) in (0..).zip(values) {
            let written = self.wire.produce("t", at % PARTITIONS, batch(&[value])).await;
            assert_eq!(written.error_code, 0);
        }
    }

    async fn member(&self) -> GroupConsumer {
        self.member_with(self.options.clone()).await
    }

    async fn member_with(&self, options: GroupOptions) -> GroupConsumer {
        subscribe(&[self.cluster.address(0)], options).await
    }
}

async fn subscribe(brokers: &[SocketAddr], options: GroupOptions) -> GroupConsumer {
    let bootstrap = brokers.iter().map(|at| Address::new(&at.ip().to_string(), at.port())).collect();
    let client = Client::connect(bootstrap, ClientOptions::default()).await.unwrap();
    let reading = ConsumerOptions { reset: OffsetReset::Earliest, ..ConsumerOptions::default() };
    GroupConsumer::subscribe(client, vec![topic_name("t")], reading, options)
}

fn owned(member: &GroupConsumer) -> BTreeSet<i32> {
    member.assignment().map(|partition| partition.partition).collect()
}

/// Polls all members in turn until they are as wanted; what they read goes into `read`.
async fn poll_until(
    members: &mut [&mut GroupConsumer],
    read: &mut Vec<String>,
    wanted: impl Fn(&[BTreeSet<i32>], &[String]) -> bool,
) {
    loop {
        for member in &mut *members {
            let Some(fetched) = member.poll(Duration::from_millis(20)).await.unwrap() else { continue };
            let _ = fetched
                .for_each(|record| {
                    read.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap());
                    ControlFlow::Continue(())
                })
                .unwrap();
        }
        let owned: Vec<BTreeSet<i32>> = members.iter().map(|member| owned(member)).collect();
        if wanted(&owned, read) {
            return;
        }
    }
}

fn shares(owned: &[BTreeSet<i32>]) -> bool {
    let mut all: Vec<i32> = owned.iter().flatten().copied().collect();
    all.sort_unstable();
    all == (0..PARTITIONS).collect::<Vec<_>>() && owned.iter().all(|own| own.len() == 4 / owned.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn members_share_the_partitions_and_read_every_record_once() {
    for assignor in [Assignor::Range, Assignor::RoundRobin] {
        let mut group = Group::new().await;
        group.options.assignors = vec![assignor];
        let mut read = Vec::new();
        group.write(&["a", "b", "c", "d"]).await;
        let mut ann = group.member().await;
        poll_until(&mut [&mut ann], &mut read, |owned, read| shares(owned) && read.len() == 4).await;
        let mut bob = group.member().await;
        poll_until(&mut [&mut ann, &mut bob], &mut read, |owned, _| shares(owned)).await;
        group.write(&["e", "f", "g", "h"]).await;
        poll_until(&mut [&mut ann, &mut bob], &mut read, |_, read| read.len() == 8).await;
        bob.close().await.unwrap();
        poll_until(&mut [&mut ann], &mut read, |owned, _| shares(owned)).await;
        ann.close().await.unwrap();
        group.write(&["i"]).await;
        let mut carl = group.member().await;
        poll_until(&mut [&mut carl], &mut read, |_, read| read.len() >= 9).await;
        read.sort_unstable();
        assert_eq!(read, ["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_committed_is_read_again() {
    let mut group = Group::new().await;
    group.options.auto_commit = None;
    group.write(&["a"]).await;
    let mut read = Vec::new();
    let mut ann = group.member().await;
    poll_until(&mut [&mut ann], &mut read, |_, read| read.len() == 1).await;
    ann.close().await.unwrap();
    let mut bob = group.member().await;
    poll_until(&mut [&mut bob], &mut read, |_, read| read.len() == 2).await;
    bob.commit().await.unwrap();
    bob.close().await.unwrap();
    group.write(&["b"]).await;
    let mut carl = group.member().await;
    poll_until(&mut [&mut carl], &mut read, |_, read| read.len() == 3).await;
    assert_eq!(read, ["a", "a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_follows_its_coordinator_to_another_broker() {
    let (mut cluster, mut wire) = two_brokers(&[]).await;
    let mut name = "g".to_owned();
    while wire.coordinator(&name).await != 1 {
        name.push('g');
    }
    let options = GroupOptions {
        session_timeout: Duration::from_secs(10),
        heartbeat_interval: Duration::from_millis(20),
        ..GroupOptions::new(name)
    };
    let mut member = subscribe(&[cluster.address(0), cluster.address(1)], options).await;
    let mut read = Vec::new();
    let mut other = cluster.connect_to(1).await;
    // Either may lead.
    while wire.produce("t", 0, batch(&["a"])).await.error_code != 0
        && other.produce("t", 0, batch(&["a"])).await.error_code != 0
    {}
    poll_until(&mut [&mut member], &mut read, |_, read| read.len() == 1).await;
    member.commit().await.unwrap();
    cluster.stop_broker(1).await;
    while wire.produce("t", 0, batch(&["b"])).await.error_code != 0 {}
    poll_until(&mut [&mut member], &mut read, |_, read| read.len() >= 2).await;
    member.commit().await.unwrap();
    assert_eq!(read, ["a", "b"]);
    member.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_not_polled_makes_room_and_comes_back() {
    let group = Group::new().await;
    let mut read = Vec::new();
    let slow = GroupOptions { max_poll_interval: Duration::from_millis(300), ..group.options.clone() };
    let mut ann = group.member_with(slow).await;
    poll_until(&mut [&mut ann], &mut read, |owned, _| shares(owned)).await;
    let mut bob = group.member().await;
    // Ann does something else meanwhile.
    poll_until(&mut [&mut bob], &mut read, |owned, _| shares(owned)).await;
    poll_until(&mut [&mut ann, &mut bob], &mut read, |owned, _| shares(owned)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_mended_is_told() {
    let group = Group::new().await;
    let brief = GroupOptions { session_timeout: Duration::from_millis(1), ..group.options.clone() };
    let mut member = group.member_with(brief).await;
    let error = member.poll(Duration::from_secs(60)).await.unwrap_err();
    let ottla_client::ConsumeError::Client(error) = error else { panic!("{error}") };
    assert!(matches!(*error, ClientError::Refused { code: ErrorCode::InvalidSessionTimeout, .. }), "{error}");
    member.close().await.unwrap();
}
