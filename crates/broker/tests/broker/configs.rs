//! DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: what is set, by whom, and that it rules.

use ottla_protocol::messages::alter_configs::{AlterConfigsRequest, AlterConfigsResource, AlterableConfig};
use ottla_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
};
use ottla_protocol::messages::incremental_alter_configs::{
    self as incremental, IncrementalAlterConfigsRequest,
};
use ottla_protocol::{ErrorCode, Str};
use ottla_zookeeper::records::ConfigEntity;

use crate::cluster::{Cluster, batch, error};
use crate::wire::Wire;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Numbers of the sources.
const BY_TOPIC: i8 = 1;
const BY_BROKER: i8 = 2;
const BY_ALL_BROKERS: i8 = 3;
const BY_DEFAULT: i8 = 5;

async fn describe(
    wire: &mut Wire,
    version: i16,
    resource: (i8, &str),
    keys: &[&str],
) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource {
        resource_type: resource.0,
        resource_name: Str::from(resource.1),
        configuration_keys: (!keys.is_empty()).then(|| keys.iter().copied().map(Str::from).collect()),
        ..Default::default()
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: version >= 1,
        include_documentation: version >= 3,
        ..Default::default()
    };
    wire.ask(version, &request).await.results.remove(0)
}

/// The value of one key, and who set it.
async fn value(wire: &mut Wire, resource: (i8, &str), key: &str) -> (Option<String>, i8) {
    let config = describe(wire, 4, resource, &[key]).await.configs.remove(0);
    (config.value.map(|value| value.to_string()), config.config_source)
}

async fn replace(
    wire: &mut Wire,
    version: i16,
    resource: (i8, &str),
    configs: &[(&str, Option<&str>)],
) -> ErrorCode {
    let config = |(name, value): &(&str, Option<&str>)| AlterableConfig {
        name: Str::from(*name),
        value: value.map(Str::from),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: resource.0,
        resource_name: Str::from(resource.1),
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    };
    let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    error(wire.ask(version, &request).await.responses[0].error_code)
}

fn change(resource: (i8, &str), changes: &[(&str, i8, Option<&str>)]) -> IncrementalAlterConfigsRequest {
    let config = |(name, operation, value): &(&str, i8, Option<&str>)| incremental::AlterableConfig {
        name: Str::from(*name),
        config_operation: *operation,
        value: value.map(Str::from),
        ..Default::default()
    };
    let resource = incremental::AlterConfigsResource {
        resource_type: resource.0,
        resource_name: Str::from(resource.1),
        configs: changes.iter().map(config).collect(),
        ..Default::default()
    };
    IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() }
}

async fn alter(wire: &mut Wire, resource: (i8, &str), changes: &[(&str, i8, Option<&str>)]) -> ErrorCode {
    error(wire.ask(1, &change(resource, changes)).await.responses[0].error_code)
}

fn is_set(config: &&DescribeConfigsResourceResult) -> bool {
    config.config_source == BY_TOPIC
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_listed_with_its_source_type_and_documentation() {
    let cluster = Cluster::start(&[("log.retention.hours", "24"), ("ssl.keystore.password", "secret")]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[("cleanup.policy", "compact")]).await;
    for version in 0..=4 {
        let topic = describe(&mut wire, version, (TOPIC, "t"), &[]).await;
        assert_eq!(topic.configs.len(), 36, "v{version}: every topic key of 3.9");
        let broker = describe(&mut wire, version, (BROKER, "0"), &[]).await;
        assert!(broker.configs.len() > 250, "v{version}: {}", broker.configs.len());
        let password = broker.configs.iter().find(|config| config.name == "ssl.keystore.password").unwrap();
        assert!(password.is_sensitive && password.value.is_none(), "v{version}: secrets stay secret");
        let policy = topic.configs.iter().find(|config| config.name == "cleanup.policy").unwrap();
        assert_eq!(policy.value.as_deref(), Some("compact"), "v{version}");
        if version >= 1 {
            let set: Vec<&str> = topic.configs.iter().filter(is_set).map(|config| &*config.name).collect();
            assert_eq!(set, ["cleanup.policy"], "v{version}: what the topic did not set is not its own");
            let named: Vec<&str> = policy.synonyms.iter().map(|synonym| &*synonym.name).collect();
            assert_eq!(named, ["cleanup.policy", "log.cleanup.policy"], "v{version}");
        }
        assert_eq!(
            policy.documentation.as_ref().is_some_and(|text| !text.is_empty()),
            version >= 3,
            "v{version}"
        );
    }
    let two = describe(&mut wire, 4, (TOPIC, "t"), &["retention.ms", "nope", "cleanup.policy"]).await;
    assert_eq!(two.configs.len(), 2, "unknown keys are left out");
    assert_eq!(value(&mut wire, (TOPIC, "t"), "retention.ms").await.0.as_deref(), Some("86400000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_that_are_not_here_are_refused() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    for (resource, expected) in [
        ((BROKER, "9"), ErrorCode::InvalidRequest),
        ((BROKER, "x"), ErrorCode::InvalidRequest),
        ((TOPIC, "nope"), ErrorCode::UnknownTopicOrPartition),
        ((TOPIC, "a b"), ErrorCode::InvalidTopicException),
        ((77, "x"), ErrorCode::InvalidRequest),
    ] {
        for version in 0..=4 {
            let refused = describe(&mut wire, version, resource, &[]).await;
            assert_eq!(error(refused.error_code), expected, "{resource:?} v{version}");
            assert!(refused.configs.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_api_forgets_what_it_does_not_name_and_the_new_one_keeps_it() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    let set = [("retention.ms", "1000"), ("segment.ms", "2000"), ("cleanup.policy", "compact")];
    let t = (TOPIC, "t");
    wire.create_topic("t", 1, 1, &set).await;
    assert_eq!(alter(&mut wire, t, &[("retention.ms", SET, Some("5000"))]).await, ErrorCode::None);
    assert_eq!(value(&mut wire, t, "retention.ms").await, (Some("5000".to_owned()), BY_TOPIC));
    assert_eq!(value(&mut wire, t, "segment.ms").await.1, BY_TOPIC, "the others stay");
    for version in 0..=2 {
        assert_eq!(replace(&mut wire, version, t, &[("segment.ms", Some("7000"))]).await, ErrorCode::None);
        assert_eq!(value(&mut wire, t, "segment.ms").await, (Some("7000".to_owned()), BY_TOPIC));
        assert_eq!(value(&mut wire, t, "retention.ms").await.1, BY_DEFAULT, "v{version}: the others go");
    }
    assert_eq!(alter(&mut wire, t, &[("segment.ms", DELETE, None)]).await, ErrorCode::None);
    assert_eq!(value(&mut wire, t, "segment.ms").await.1, BY_DEFAULT);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_grow_and_shrink() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    let t = (TOPIC, "t");
    wire.create_topic("t", 1, 1, &[]).await;
    for (operation, item, list) in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
    ] {
        assert_eq!(alter(&mut wire, t, &[("cleanup.policy", operation, Some(item))]).await, ErrorCode::None);
        assert_eq!(value(&mut wire, t, "cleanup.policy").await.0.as_deref(), Some(list));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_make_no_sense_are_refused_and_change_nothing() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[("segment.ms", "9000")]).await;
    let t = (TOPIC, "t");
    use ErrorCode::*;
    for (why, resource, changes, expected) in [
        ("an impossible value", t, vec![("compression.type", SET, Some("foo"))], InvalidConfig),
        ("no number", t, vec![("segment.ms", SET, Some("x"))], InvalidConfig),
        ("an unknown key", t, vec![("nope", SET, Some("1"))], InvalidConfig),
        ("append to what is no list", t, vec![("segment.ms", APPEND, Some("1"))], InvalidConfig),
        ("subtract from what is no list", t, vec![("segment.ms", SUBTRACT, Some("1"))], InvalidConfig),
        ("set to null", t, vec![("segment.ms", SET, Option::None)], InvalidRequest),
        ("append null", t, vec![("cleanup.policy", APPEND, Option::None)], InvalidRequest),
        (
            "one key twice",
            t,
            vec![("segment.ms", SET, Some("1")), ("segment.ms", DELETE, Option::None)],
            InvalidRequest,
        ),
        ("an unknown operation", t, vec![("segment.ms", 9, Some("1"))], InvalidRequest),
        ("an unknown topic", (TOPIC, "u"), vec![("segment.ms", SET, Some("1"))], UnknownTopicOrPartition),
        ("no topic", (TOPIC, ""), vec![], InvalidRequest),
        ("another broker", (BROKER, "9"), vec![], InvalidRequest),
        ("no broker", (BROKER, "x"), vec![], InvalidRequest),
        ("a key for a restart", (BROKER, "0"), vec![("log.dirs", SET, Some("/x"))], InvalidRequest),
        (
            "a key of one broker for all",
            (BROKER, ""),
            vec![("listeners", SET, Some("PLAINTEXT://:1"))],
            InvalidRequest,
        ),
        ("no number for a broker", (BROKER, "0"), vec![("log.retention.ms", SET, Some("x"))], InvalidRequest),
        ("an unknown type", (77, "x"), vec![], InvalidRequest),
    ] {
        for validate_only in [true, false] {
            for version in 0..=1 {
                let request = IncrementalAlterConfigsRequest { validate_only, ..change(resource, &changes) };
                let answer = wire.ask(version, &request).await;
                let row = &answer.responses[0];
                assert_eq!(error(row.error_code), expected, "{why}: {:?}", row.error_message);
                assert!(row.error_message.is_some(), "{why}");
            }
        }
    }
    let mut twice = change(t, &[("segment.ms", SET, Some("1"))]);
    twice.resources.push(twice.resources[0].clone());
    let answer = wire.ask(1, &twice).await;
    let codes: Vec<ErrorCode> = answer.responses.iter().map(|row| error(row.error_code)).collect();
    assert_eq!(codes, [InvalidRequest; 2], "one resource twice");
    let only = IncrementalAlterConfigsRequest {
        validate_only: true,
        ..change(t, &[("segment.ms", SET, Some("1"))])
    };
    assert_eq!(wire.ask(1, &only).await.responses[0].error_code, 0);
    assert_eq!(value(&mut wire, t, "segment.ms").await.0.as_deref(), Some("9000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_topic_goes_by_its_new_values_at_once() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    let large = || batch(&[&"x".repeat(2000)]);
    assert_eq!(wire.produce("t", 0, large()).await.error_code, 0);
    assert_eq!(
        alter(&mut wire, (TOPIC, "t"), &[("max.message.bytes", SET, Some("1000"))]).await,
        ErrorCode::None
    );
    assert_eq!(error(wire.produce("t", 0, large()).await.error_code), ErrorCode::MessageTooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_values_rule_topics_without_their_own_and_survive_a_restart() {
    let mut cluster = Cluster::of(2, &[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("plain", 1, 1, &[]).await;
    wire.create_topic("own", 1, 1, &[("retention.ms", "111")]).await;
    let (all, zero) = ((BROKER, ""), (BROKER, "0"));
    let retention = "log.retention.ms";
    for (resource, changes, plain) in [
        (all, vec![(retention, SET, Some("222"))], ("222", BY_ALL_BROKERS)),
        (all, vec![(retention, SET, Some("333"))], ("333", BY_ALL_BROKERS)),
        (zero, vec![(retention, SET, Some("444"))], ("444", BY_BROKER)),
        (zero, vec![(retention, DELETE, None)], ("333", BY_ALL_BROKERS)),
    ] {
        assert_eq!(alter(&mut wire, resource, &changes).await, ErrorCode::None);
        let ruled = value(&mut wire, (TOPIC, "plain"), "retention.ms").await;
        assert_eq!(ruled, (Some(plain.0.to_owned()), plain.1), "{changes:?}");
        let own = value(&mut wire, (TOPIC, "own"), "retention.ms").await;
        assert_eq!(own, (Some("111".to_owned()), BY_TOPIC), "{changes:?}: overrides survive");
    }
    let (_store, zookeeper) = cluster.zookeeper().await;
    let stored = zookeeper.read_config(&ConfigEntity::broker(None)).await.unwrap().0;
    assert_eq!(stored.get(retention).map(String::as_str), Some("333"), "where Kafka would look for it");

    cluster.restart_broker(1).await;
    let mut other = cluster.connect_to(1).await;
    assert_eq!(value(&mut other, (BROKER, "1"), retention).await, (Some("333".to_owned()), BY_ALL_BROKERS));
    assert_eq!(replace(&mut wire, 2, all, &[]).await, ErrorCode::None);
    // The other broker hears of it by the notice; each question is answered.
    while value(&mut other, (BROKER, "1"), retention).await.1 == BY_ALL_BROKERS {}
}
