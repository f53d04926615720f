//! Records against Kafka 3.9's own encoders (`golden/records.txt`, made by `golden/Golden.java`) and those of
//! older ones.

use std::collections::BTreeMap;

use ottla_model::{BrokerId, ControllerEpoch, LeaderEpoch, Offset, ProducerId, Timestamp};
use ottla_zookeeper::records::{
    BrokerEndpoint, BrokerRegistration, ClusterId, ConfigChangeRecord, ConfigEntity, ConsumerRegistration,
    ControllerRecord, EntityConfig, FeatureRecord, FeatureStatus, IsrChange, LogDirEvent, PartitionRef,
    PartitionState, PreferredElection, ProducerIdBlock, Reassignment, RegistrationVersion, TopicAssignment,
    decode_controller_epoch, decode_offset, encode_controller_epoch, encode_offset, sanitize,
};
use proptest::prelude::*;

const AT: Timestamp = Timestamp(1_700_000_000_000);

fn endpoint(listener: &str, protocol: &str, host: &str, port: i32) -> BrokerEndpoint {
    BrokerEndpoint {
        listener: listener.to_owned(),
        security_protocol: protocol.to_owned(),
        host: host.to_owned(),
        port,
    }
}

fn broker(rack: Option<&str>, endpoints: &[BrokerEndpoint]) -> BrokerRegistration {
    BrokerRegistration {
        endpoints: endpoints.to_vec(),
        rack: rack.map(str::to_owned),
        jmx_port: -1,
        features: BTreeMap::new(),
        timestamp: AT,
    }
}

fn ids(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn topic(id: Option<&str>, replicas: &[i32], adding: &[i32], removing: &[i32]) -> TopicAssignment {
    let moving = |replicas: &[i32]| {
        (!replicas.is_empty()).then(|| (0, ids(replicas))).into_iter().collect::<BTreeMap<_, _>>()
    };
    TopicAssignment {
        topic_id: id.map(|id| id.parse().expect("an id")),
        partitions: BTreeMap::from([(0, ids(replicas))]),
        adding: moving(adding),
        removing: moving(removing),
    }
}

fn state(leader: i32, isr: &[i32], recovering: bool) -> PartitionState {
    PartitionState {
        leader: BrokerId(leader),
        leader_epoch: LeaderEpoch(3),
        isr: ids(isr),
        controller_epoch: ControllerEpoch(5),
        recovering,
    }
}

fn config(values: &[(&str, &str)]) -> EntityConfig {
    EntityConfig(values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn t0() -> PartitionRef {
    PartitionRef { topic: "t".to_owned(), partition: 0 }
}

#[test]
fn records_are_written_byte_for_byte_as_kafka_writes_them() {
    let plain = endpoint("PLAINTEXT", "PLAINTEXT", "h1", 9092);
    let internal = endpoint("INT", "SSL", "h1", 9093);
    let id = Some("A1b2C3d4E5f6G7h8I9j0Kw");
    let ours: Vec<(&str, Vec<u8>)> = vec![
        ("broker v2", broker(None, std::slice::from_ref(&plain)).encode(RegistrationVersion::V2)),
        ("broker v4", broker(None, std::slice::from_ref(&plain)).encode(RegistrationVersion::V4)),
        ("broker v5", broker(None, std::slice::from_ref(&plain)).encode(RegistrationVersion::V5)),
        (
            "broker v5 with rack and two listeners",
            broker(Some("r1"), &[plain, internal.clone()]).encode(RegistrationVersion::V5),
        ),
        ("broker v5 without plaintext", broker(None, &[internal]).encode(RegistrationVersion::V5)),
        (
            "broker v5 on IPv6",
            broker(None, &[endpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092)]).encode(RegistrationVersion::V5),
        ),
        ("topic", topic(id, &[1, 2], &[], &[]).encode()),
        ("topic without id", topic(None, &[1, 2], &[], &[]).encode()),
        ("topic being reassigned", topic(id, &[3, 1, 2], &[3], &[1]).encode()),
        ("state", state(1, &[1, 2], false).encode()),
        ("state without leader", state(-1, &[2], false).encode()),
        ("state recovering", state(1, &[1], true).encode()),
        ("controller", ControllerRecord { broker: BrokerId(1), timestamp: AT, kraft_epoch: None }.encode()),
        ("cluster id", ClusterId("vPeOCWypqUOSepEvx0cbog".to_owned()).encode()),
        ("config empty", config(&[]).encode()),
        ("config", config(&[("retention.ms", "1000")]).encode()),
        (
            "config with strange text",
            config(&[("retention.ms", "\u{e9}\"\\/\n\t\u{1}\u{7f}\u{2028}")]).encode(),
        ),
        ("config change", ConfigChangeRecord(ConfigEntity::from_path("users/alice/clients/c1")).encode()),
        ("reassignment", Reassignment(vec![(t0(), ids(&[1, 2]))]).encode()),
        ("preferred election", PreferredElection(vec![t0()]).encode()),
        ("isr change", IsrChange(vec![t0()]).encode()),
        ("log dir event", LogDirEvent { broker: BrokerId(1) }.encode()),
        ("producer id block", ProducerIdBlock::after(None, BrokerId(1)).expect("the first").encode()),
        (
            "feature enabled",
            FeatureRecord { status: FeatureStatus::Enabled, features: BTreeMap::new() }.encode(true),
        ),
        (
            "feature disabled of old",
            FeatureRecord { status: FeatureStatus::Disabled, features: BTreeMap::new() }.encode(false),
        ),
    ];
    let golden: Vec<(&str, &str)> = include_str!("golden/records.txt")
        .split('\n')
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_once(" | ").expect("two cells"))
        .collect();
    assert_eq!(golden.len(), ours.len());
    for ((name, json), (our_name, bytes)) in golden.into_iter().zip(ours) {
        assert_eq!((name, json), (our_name, String::from_utf8(bytes).expect("JSON is UTF-8").as_str()));
    }
}

#[test]
fn brokers_of_every_version_are_understood() {
    let plain = endpoint("PLAINTEXT", "PLAINTEXT", "h1", 9092);
    let ssl = endpoint("SSL", "SSL", "h1", 9093);
    let v1 = r#"{"jmx_port":-1,"timestamp":"1700000000000","host":"h1","version":1,"port":9092}"#;
    for (why, json, endpoints) in [
        ("0.8", v1.to_owned(), vec![plain.clone()]),
        (
            "0.9: a listener's name is its protocol",
            v1.replace(
                "\"version\":1",
                "\"version\":2,\"endpoints\":[\"PLAINTEXT://h1:9092\",\"SSL://h1:9093\"]",
            ),
            vec![plain.clone(), ssl],
        ),
        (
            "5",
            v1.replace(
                "\"version\":1",
                "\"version\":5,\"features\":{\"f\":{\"min_version\":1,\"max_version\":2}},\
                 \"listener_security_protocol_map\":{\"INT\":\"SASL_SSL\"},\"endpoints\":[\"INT://[::1]:9\"]",
            ),
            vec![endpoint("INT", "SASL_SSL", "::1", 9)],
        ),
        ("of the future", v1.replace("\"version\":1", "\"version\":9,\"new\":[{}]"), vec![plain.clone()]),
        ("with a numeric timestamp", v1.replace("\"1700000000000\"", "1700000000000"), vec![plain.clone()]),
        ("without timestamp or JMX port", r#"{"host":"h1","version":1,"port":9092}"#.to_owned(), vec![plain]),
    ] {
        let read =
            BrokerRegistration::decode(json.as_bytes()).unwrap_or_else(|error| panic!("{why}: {error}"));
        assert_eq!(read.endpoints, endpoints, "{why}");
    }
    for (why, json) in [
        ("not JSON", "h1:9092"),
        ("empty", ""),
        ("version 0", r#"{"host":"h","port":1,"version":0}"#),
        ("without address", r#"{"version":1}"#),
        ("endpoint without port", r#"{"version":2,"endpoints":["PLAINTEXT://h"]}"#),
        (
            "listener without protocol",
            r#"{"version":5,"endpoints":["X://h:1"],"listener_security_protocol_map":{}}"#,
        ),
    ] {
        assert!(BrokerRegistration::decode(json.as_bytes()).is_err(), "{why}");
    }
}

#[test]
fn topics_of_every_version_are_understood() {
    let v1 =
        TopicAssignment::decode(br#"{"version":1,"partitions":{"1":[2,1],"0":[1,2],"10":[1]}}"#).expect("v1");
    assert_eq!(v1.topic_id, None);
    assert_eq!(v1.partitions, BTreeMap::from([(0, ids(&[1, 2])), (1, ids(&[2, 1])), (10, ids(&[1]))]));
    let v3 = topic(Some("A1b2C3d4E5f6G7h8I9j0Kw"), &[1, 2, 3], &[3], &[]);
    let json = br#"{"removing_replicas":{},"partitions":{"0":[1,2,3]},"topic_id":"A1b2C3d4E5f6G7h8I9j0Kw","adding_replicas":{"0":[3]},"version":3}"#;
    assert_eq!(TopicAssignment::decode(json), Ok(v3));
    for (why, json) in [
        ("no partitions", &br#"{"version":1}"#[..]),
        ("a partition that is no number", br#"{"version":1,"partitions":{"x":[1]}}"#),
        ("a negative partition", br#"{"version":1,"partitions":{"-1":[1]}}"#),
        ("an id that is none", br#"{"version":3,"partitions":{},"topic_id":"x"}"#),
        ("replicas that are no list", br#"{"version":1,"partitions":{"0":1}}"#),
    ] {
        assert!(TopicAssignment::decode(json).is_err(), "{why}");
    }
}

#[test]
fn controllers_of_every_version_are_understood() {
    for (json, broker, kraft_epoch) in [
        (r#"{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}"#, 1, None),
        (r#"{"version":1,"brokerid":2,"timestamp":"1700000000000"}"#, 2, None),
        (r#"{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":7}"#, 3000, Some(7)),
        ("4", 4, None),
    ] {
        let read = ControllerRecord::decode(json.as_bytes()).expect(json);
        assert_eq!((read.broker, read.kraft_epoch), (BrokerId(broker), kraft_epoch), "{json}");
    }
    assert_eq!(decode_controller_epoch(b"7"), Ok(ControllerEpoch(7)));
    assert_eq!(encode_controller_epoch(ControllerEpoch(0)), b"0");
    assert!(decode_controller_epoch(b"").is_err());
    assert!(decode_controller_epoch(b"\xff").is_err());
}

#[test]
fn notices_of_every_version_are_understood() {
    for (json, path) in [
        (r#"{"version":2,"entity_path":"users/alice/clients/c1"}"#, "users/alice/clients/c1"),
        (r#"{"version":1,"entity_type":"topics","entity_name":"t"}"#, "topics/t"),
        (r#""t""#, "topics/t"),
    ] {
        let read = ConfigChangeRecord::decode(json.as_bytes()).expect(json);
        assert_eq!(read.0.path(), path, "{json}");
    }
    assert!(ConfigChangeRecord::decode(br#"{"version":3}"#).is_err());
    assert!(ConfigChangeRecord::decode(b"").is_err());
}

#[test]
fn configs_without_values_are_empty() {
    for json in
        ["", r#"{"version":1}"#, r#"{"version":1,"config":{}}"#, r#"{"version":7,"config":null,"x":1}"#]
    {
        assert_eq!(EntityConfig::decode(json.as_bytes()), Ok(EntityConfig::default()), "{json}");
    }
    let strange = EntityConfig::decode("{\"config\":{\"a\":\"\\uD83D\\uDE00\"}}".as_bytes());
    assert_eq!(strange, Ok(config(&[("a", "\u{1f600}")])), "Kafka escapes what lies beyond the first plane");
}

#[test]
fn entities_have_kafkas_names() {
    for (entity, path) in [
        (Some(ConfigEntity::topic("t.1")), "topics/t.1"),
        (Some(ConfigEntity::broker(Some(BrokerId(7)))), "brokers/7"),
        (Some(ConfigEntity::broker(None)), "brokers/<default>"),
        (ConfigEntity::client(Some(Some("CN=a b,O=*")), None), "users/CN%3Da%20b%2CO%3D%2A"),
        (ConfigEntity::client(Some(None), Some(Some("c"))), "users/<default>/clients/c"),
        (ConfigEntity::client(None, Some(None)), "clients/<default>"),
        (Some(ConfigEntity::ip(Some("10.0.0.1"))), "ips/10.0.0.1"),
        (ConfigEntity::client(None, None), ""),
    ] {
        assert_eq!(entity.as_ref().map_or("", ConfigEntity::path), path);
    }
    assert_eq!(sanitize("\u{e4}~+"), "%C3%A4%7E%2B");
}

#[test]
fn offsets_and_members_of_kafka_0_8_are_understood() {
    assert_eq!(decode_offset(b"42"), Ok(Some(Offset(42))));
    assert_eq!(decode_offset(b""), Ok(None));
    assert!(decode_offset(b"many").is_err());
    assert_eq!(encode_offset(Offset(42)), b"42");
    let json = r#"{"pattern":"static","subscription":{"t":2},"timestamp":"1700000000000","version":1}"#;
    let member = ConsumerRegistration::decode(json.as_bytes()).expect("a member");
    assert_eq!(member.subscription, BTreeMap::from([("t".to_owned(), 2)]));
    assert_eq!(String::from_utf8(member.encode()).expect("JSON"), json);
}

#[test]
fn producer_ids_run_out_rather_than_start_over() {
    let block = |first, last| ProducerIdBlock {
        broker: BrokerId(1),
        first: ProducerId(first),
        last: ProducerId(last),
    };
    let next =
        |previous: &ProducerIdBlock| ProducerIdBlock::after(Some(previous), BrokerId(2)).map(|b| b.first.0);
    assert_eq!(next(&block(0, 999)), Some(1000));
    assert_eq!(next(&block(0, i64::MAX - 1000)), Some(i64::MAX - 999));
    assert_eq!(next(&block(0, i64::MAX - 999)), None, "a whole block does not fit any more");
    assert_eq!(next(&block(0, i64::MAX)), None);
    let numbers = br#"{"version":1,"broker":1,"block_start":0,"block_end":999}"#;
    assert_eq!(ProducerIdBlock::decode(numbers), Ok(block(0, 999)), "numbers are taken for their text");
}

fn replicas() -> impl Strategy<Value = BTreeMap<i32, Vec<BrokerId>>> {
    proptest::collection::btree_map(
        0..i32::MAX,
        proptest::collection::vec((0..i32::MAX).prop_map(BrokerId), 0..4),
        0..5,
    )
}

proptest! {
    #[test]
    fn assignments_survive_their_text(
        id: Option<[u8; 16]>, partitions in replicas(), adding in replicas(), removing in replicas(),
    ) {
        let assignment = TopicAssignment { topic_id: id.map(ottla_model::Uuid), partitions, adding, removing };
        prop_assert_eq!(TopicAssignment::decode(&assignment.encode()), Ok(assignment));
    }

    #[test]
    fn states_survive_their_text(
        leader: i32, leader_epoch: i32, controller_epoch: i32, recovering: bool, isr: Vec<i32>,
    ) {
        let state = PartitionState {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(leader_epoch),
            isr: ids(&isr),
            controller_epoch: ControllerEpoch(controller_epoch),
            recovering,
        };
        prop_assert_eq!(PartitionState::decode(&state.encode()), Ok(state));
    }

    #[test]
    fn configs_survive_their_text(values: BTreeMap<String, String>) {
        let config = EntityConfig(values);
        prop_assert_eq!(EntityConfig::decode(&config.encode()), Ok(config));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes: Vec<u8>) {
        let _ = BrokerRegistration::decode(&bytes);
        let _ = TopicAssignment::decode(&bytes);
        let _ = PartitionState::decode(&bytes);
        let _ = ControllerRecord::decode(&bytes);
        let _ = ConfigChangeRecord::decode(&bytes);
        let _ = Reassignment::decode(&bytes);
        let _ = ProducerIdBlock::decode(&bytes);
        let _ = decode_offset(&bytes);
    }
}
