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

fn proposal(leader_epoch: i32, partition_epoch: i32, isr: &[i32]) -> Event {
    Event::IsrProposed(IsrProposal {
        id: 77,
        partition: partition("t", 0),
        leader_epoch: LeaderEpoch(leader_epoch),
        partition_epoch: PartitionEpoch(partition_epoch),
        isr: ids(isr),
    })
}

fn isr_answer(effects: &[Effect]) -> Option<&IsrAnswer> {
    effects.iter().find_map(|effect| match effect {
        Effect::AnswerIsrProposal { id: 77, answer } => Some(answer),
        _ => None,
    })
}

#[test]
fn wishes_for_the_in_sync_set_are_judged_by_epochs_and_liveness() {
    // Topic `t` is led by 1 in epoch 1, after 3 has died and returned; the state has been written twice.
    let bounced = || {
        let mut controller = settled();
        settle(&mut controller, registered(&[(1, 101), (2, 102)]));
        settle(&mut controller, registered(&[(1, 101), (2, 102), (3, 203)]));
        controller
    };
    for (why, leader_epoch, partition_epoch, isr, refusal) in [
        ("a follower is back", 1, 1, vec![1, 2, 3], None),
        ("a follower lags", 1, 1, vec![1], None),
        ("asked before: granted again", 1, 0, vec![1, 2], None),
        ("led in an older epoch", 0, 1, vec![1], Some(IsrRefusal::Fenced)),
        ("leads in an epoch that we do not know", 2, 1, vec![1], Some(IsrRefusal::FromTheFuture)),
        ("builds on a state that we do not know", 1, 2, vec![1], Some(IsrRefusal::FromTheFuture)),
        ("builds on an old state", 1, 0, vec![1], Some(IsrRefusal::Outdated)),
        ("names a stranger", 1, 1, vec![1, 9], Some(IsrRefusal::Ineligible(BrokerId(9)))),
    ] {
        let mut controller = bounced();
        let effects = settle(&mut controller, proposal(leader_epoch, partition_epoch, &isr));
        let answer = isr_answer(&effects).unwrap_or_else(|| panic!("{why}: no answer in {effects:?}"));
        assert_eq!(answer.as_ref().err(), refusal.as_ref(), "{why}");
        if let Ok(state) = answer {
            assert_eq!(state.isr, ids(&isr), "{why}");
            assert_eq!(state.leader_epoch, LeaderEpoch(1), "{why}: nobody's leadership changes");
        }
    }
}

#[test]
fn a_granted_wish_is_news_but_no_order() {
    let mut controller = settled();
    let effects = settle(&mut controller, proposal(0, 0, &[1]));
    assert!(leader_orders(&effects, 1).is_empty(), "the leader has its answer");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::SendUpdateMetadata { partitions, .. }
        if partitions.len() == 1)));
}

#[test]
fn a_broker_that_leaves_hands_its_leaderships_over_first() {
    let mut controller = settled();
    settle(&mut controller, read("alone", &[&[1]]));
    let effects = settle(&mut controller, Event::ShutdownAnnounced(BrokerId(1)));
    let order = leader_orders(&effects, 2)[0];
    assert_eq!((order.state.leader, &order.state.isr), (BrokerId(2), &ids(&[2, 3])));
    assert_eq!(controller.led_by(BrokerId(1)), [], "the only replica of `alone` stays where it is");
    assert!(leader_orders(&effects, 1).iter().all(|order| order.partition.topic == topic("t")));

    let effects = settle(&mut controller, proposal(1, 1, &[2, 3, 1]));
    let refusal = Some(&IsrRefusal::Ineligible(BrokerId(1)));
    assert_eq!(
        isr_answer(&effects).and_then(|answer| answer.as_ref().err()),
        refusal,
        "it does not come back so"
    );

    settle(&mut controller, registered(&[(2, 102), (3, 103)]));
    settle(&mut controller, registered(&[(1, 301), (2, 102), (3, 103)]));
    let effects = settle(&mut controller, proposal(1, 1, &[2, 3, 1]));
    assert!(isr_answer(&effects).unwrap().is_ok(), "after its restart it does");
}

#[test]
fn preferred_leaders_get_their_partitions_back_when_they_can_lead() {
    let wanted = || Event::PreferredLeadersWanted(vec![partition("t", 0), partition("nosuch", 0)]);
    let mut controller = settled();
    settle(&mut controller, registered(&[(2, 102), (3, 103)]));
    assert_eq!(controller.preferred_leader(&partition("t", 0)), PreferredLeader::Unavailable, "1 is dead");
    assert_eq!(settle(&mut controller, wanted()), []);

    settle(&mut controller, registered(&[(1, 201), (2, 102), (3, 103)]));
    assert_eq!(settle(&mut controller, wanted()), [], "1 lives but is not in sync yet");

    settle(&mut controller, proposal(1, 1, &[2, 3, 1]));
    assert_eq!(controller.preferred_leader(&partition("t", 0)), PreferredLeader::CanLead);
    let effects = settle(&mut controller, wanted());
    let order = leader_orders(&effects, 1)[0];
    assert_eq!((order.state.leader, order.state.leader_epoch), (BrokerId(1), LeaderEpoch(2)));
    assert_eq!(order.state.isr, ids(&[2, 3, 1]), "the set stays as it is");
    assert_eq!(controller.preferred_leader(&partition("t", 0)), PreferredLeader::Leads);
}

#[test]
fn only_brokers_that_lead_far_too_few_are_balanced() {
    for (why, percent, balanced) in
        [("one of two missing is half", 49, true), ("exactly as many as allowed", 50, false)]
    {
        let mut controller = Controller::new(ControllerEpoch(4), false);
        settle(&mut controller, registered(&[(1, 101), (2, 102)]));
        settle(&mut controller, read("t", &[&[1, 2]]));
        settle(&mut controller, registered(&[(2, 102)]));
        settle(&mut controller, registered(&[(1, 201), (2, 102)]));
        settle(&mut controller, proposal(1, 1, &[2, 1]));
        settle(&mut controller, read("u", &[&[1, 2]]));
        let effects = settle(&mut controller, Event::BalanceDue { imbalance_percent_max: percent });
        assert_eq!(!leader_orders(&effects, 1).is_empty(), balanced, "{why}");
    }
}
