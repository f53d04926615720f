use super::*;

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

fn partition(name: &str, id: i32) -> TopicPartition {
    TopicPartition::new(topic(name), id)
}

fn ids(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn registered(brokers: &[(i32, i64)]) -> Event {
    Event::BrokersRead(brokers.iter().map(|(id, epoch)| (BrokerId(*id), BrokerEpoch(*epoch))).collect())
}

fn read(name: &str, replicas: &[&[i32]]) -> Event {
    let partitions = replicas.iter().enumerate().map(|(id, replicas)| (id as i32, ids(replicas))).collect();
    let assignment = Assignment { id: Some(Uuid([7; 16])), partitions };
    Event::TopicsRead(vec![(topic(name), assignment, BTreeMap::new())])
}

/// Feeds an event and confirms every state write it leads to, as ZooKeeper would; returns all effects.
fn settle(controller: &mut Controller, event: Event) -> Vec<Effect> {
    let mut effects = controller.handle(event);
    let mut at = 0;
    while at < effects.len() {
        if let Effect::WriteStates(writes) = effects[at].clone() {
            let outcomes = writes
                .into_iter()
                .map(|write| {
                    let version = match write.expected {
                        Expected::Absent => PartitionEpoch(0),
                        Expected::Version(version) => PartitionEpoch(version.0 + 1),
                    };
                    (write.partition, WriteOutcome::Written(version))
                })
                .collect();
            let more = controller.handle(Event::StatesWritten(outcomes));
            effects.extend(more);
        }
        at += 1;
    }
    effects
}

/// Three brokers, topic `t` with one partition on all of them, led by 1.
fn settled() -> Controller {
    let mut controller = Controller::new(ControllerEpoch(4), false);
    settle(&mut controller, registered(&[(1, 101), (2, 102), (3, 103)]));
    settle(&mut controller, read("t", &[&[1, 2, 3]]));
    controller
}

fn leader_orders(effects: &[Effect], broker: i32) -> Vec<&PartitionOrder> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::SendLeaderAndIsr { broker: to, partitions } if *to == BrokerId(broker) => {
                Some(partitions)
            }
            _ => None,
        })
        .flatten()
        .collect()
}

#[test]
fn a_new_topic_is_written_before_anyone_hears_of_it() {
    let mut controller = Controller::new(ControllerEpoch(4), false);
    controller.handle(registered(&[(1, 101), (2, 102)]));
    let listed = controller.handle(Event::TopicsListed([topic("t")].into()));
    assert_eq!(listed, [Effect::ReadTopics(vec![topic("t")])]);

    let effects = controller.handle(read("t", &[&[2, 1]]));
    let [Effect::WriteStates(writes)] = effects.as_slice() else { panic!("only the write: {effects:?}") };
    assert_eq!(writes[0].expected, Expected::Absent);
    assert_eq!(writes[0].state.leader, BrokerId(2));
    assert_eq!(writes[0].state.isr, ids(&[2, 1]));
    assert_eq!(writes[0].state.controller_epoch, ControllerEpoch(4));

    let outcome = vec![(partition("t", 0), WriteOutcome::Written(PartitionEpoch(0)))];
    let effects = controller.handle(Event::StatesWritten(outcome));
    assert!(leader_orders(&effects, 1)[0].is_new);
    assert!(leader_orders(&effects, 2)[0].is_new);
    assert!(
        matches!(effects.last(), Some(Effect::SendUpdateMetadata { brokers, .. }) if *brokers == ids(&[1, 2])),
        "replicas are told before clients can learn of them"
    );
}

#[test]
fn topics_of_old_tools_get_an_id_first() {
    let mut controller = settled();
    let nameless = Assignment { id: None, partitions: [(0, ids(&[1]))].into() };
    let effects = controller.handle(Event::TopicsRead(vec![(topic("old"), nameless, BTreeMap::new())]));
    assert_eq!(effects, [Effect::AssignTopicIds(vec![topic("old")])]);
}

#[test]
fn a_dead_leader_is_succeeded() {
    let mut controller = settled();
    let effects = settle(&mut controller, registered(&[(2, 102), (3, 103)]));
    let order = leader_orders(&effects, 2)[0];
    assert_eq!(order.state.leader, BrokerId(2));
    assert_eq!(order.state.leader_epoch, LeaderEpoch(1));
    assert_eq!(order.state.isr, ids(&[2, 3]));
    assert_eq!(order.offline_replicas, ids(&[1]));
    assert!(!order.is_new);
    assert!(leader_orders(&effects, 1).is_empty(), "nothing is sent to the dead");
}

#[test]
fn the_last_in_sync_replica_is_waited_for() {
    let mut controller = settled();
    settle(&mut controller, registered(&[(1, 101)]));
    let effects = settle(&mut controller, registered(&[]));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::WriteStates(writes)
        if writes[0].state.leader == BrokerId::NONE && writes[0].state.isr == ids(&[1]))));

    let effects = settle(&mut controller, registered(&[(2, 202)]));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::WriteStates(_))), "2 is not in sync");
    let effects = settle(&mut controller, registered(&[(1, 201), (2, 202)]));
    assert_eq!(leader_orders(&effects, 1).last().unwrap().state.leader, BrokerId(1));
}

#[test]
fn a_broker_that_bounced_is_told_everything_anew() {
    let mut controller = settled();
    let effects = settle(&mut controller, registered(&[(1, 101), (2, 102), (3, 999)]));
    assert!(!leader_orders(&effects, 3).is_empty());
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::WriteStates(writes)
        if writes[0].state.isr == ids(&[1, 2]))),
        "while away it was out of sync"
    );
}

#[test]
fn a_state_that_somebody_else_wrote_is_taken_as_it_is() {
    let mut controller = settled();
    controller.handle(registered(&[(2, 102), (3, 103)]));
    let found = PartitionState {
        leader: BrokerId(1),
        leader_epoch: LeaderEpoch(0),
        isr: ids(&[1, 3]),
        controller_epoch: ControllerEpoch(4),
        partition_epoch: PartitionEpoch(9),
        recovering: false,
    };
    let outcome = vec![(partition("t", 0), WriteOutcome::Conflict(found))];
    let effects = controller.handle(Event::StatesWritten(outcome));
    let Some(Effect::WriteStates(writes)) = effects.last() else { panic!("decided again: {effects:?}") };
    assert_eq!(writes[0].expected, Expected::Version(PartitionEpoch(9)));
    assert_eq!(writes[0].state.leader, BrokerId(3), "2 is not in the set that stands there");
}

#[test]
fn deletion_waits_for_every_replica() {
    let mut controller = settled();
    settle(&mut controller, registered(&[(1, 101), (2, 102)]));
    let effects = controller.handle(Event::DeletionsListed([topic("t")].into()));
    assert_eq!(effects, [], "broker 3 holds a replica and is away");

    let effects = settle(&mut controller, registered(&[(1, 101), (2, 102), (3, 103)]));
    let stops = effects.iter().filter(|effect| matches!(effect, Effect::StopReplicas { .. })).count();
    assert_eq!(stops, 3);

    for broker in [1, 2] {
        let stopped =
            Event::ReplicasStopped { broker: BrokerId(broker), partitions: vec![partition("t", 0)] };
        assert_eq!(controller.handle(stopped), []);
    }
    let stopped = Event::ReplicasStopped { broker: BrokerId(3), partitions: vec![partition("t", 0)] };
    assert_eq!(controller.handle(stopped), [Effect::DeleteTopic(topic("t"))]);
    controller.handle(Event::TopicDeleted(topic("t")));
    let listed = controller.handle(Event::TopicsListed([topic("t")].into()));
    assert_eq!(listed, [Effect::ReadTopics(vec![topic("t")])], "the name is free again");
}

#[test]
fn a_mark_for_a_topic_that_does_not_exist_is_removed() {
    let effects = settled().handle(Event::DeletionsListed([topic("nosuch")].into()));
    assert_eq!(effects, [Effect::RemoveDeletionMark(topic("nosuch"))]);
}
