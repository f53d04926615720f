//! The configuration, held against Apache Kafka's own classes (`config/Golden.java`) and against what goes wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ottla_broker::config::{
    BROKER_KEYS, CleanupPolicy, CompressionType, Config, ConfigError, Definition, Kind, ListenerName, Origin,
    Reach, Source, TOPIC_KEYS, TimestampType, TopicConfig, TopicOverrides, Update, Warning,
    canonical_host_name, describe_broker, describe_topic, effective, from_environment, keys, markdown,
};

fn rows(file: &str) -> impl Iterator<Item = Vec<&str>> {
    file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(" | ").collect())
}

/// The configuration of a golden row's second cell.
fn config(cell: &str) -> Result<Config, ConfigError> {
    let pairs: Vec<(String, String)> = cell
        .split(' ')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.replace('~', " ")))
        .collect();
    let pairs = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Config::from_pairs([("zookeeper.connect", "localhost:2181")].into_iter().chain(pairs))
}

fn load(name: &str, text: &[u8], overrides: &[&str]) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("a writable directory");
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Config::load(&path, &overrides)
}

fn properties(text: &str) -> Config {
    load("server.properties", format!("zookeeper.connect=z:2181\n{text}").as_bytes(), &[])
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_key_is_declared_as_kafka_declares_it() {
    let golden: Vec<Vec<&str>> = rows(include_str!("config/keys.txt")).collect();
    for (scope, table) in [("broker", BROKER_KEYS), ("topic", TOPIC_KEYS)] {
        let mut ours: BTreeMap<&str, &Definition> = table.iter().map(|key| (key.name, *key)).collect();
        assert_eq!(ours.len(), table.len(), "no {scope} key is declared twice");
        for row in golden.iter().filter(|row| row[0] == scope) {
            let name = row[1];
            let key = ours.remove(name).unwrap_or_else(|| panic!("{scope} key {name} is missing"));
            assert_eq!(key.kind.to_string(), row[2], "type of {name}");
            let default = key.default_value().map(|value| format!("'{value}'"));
            if name == "listener.security.protocol.map" {
                // A map, which Kafka shows in the order of its hashes.
                let pairs = |text: &str| {
                    let mut pairs: Vec<String> =
                        text.trim_matches('\'').split(',').map(str::to_owned).collect();
                    pairs.sort();
                    pairs
                };
                assert_eq!(pairs(&default.unwrap_or_default()), pairs(row[3]));
            } else {
                assert_eq!(default.as_deref().unwrap_or("null"), row[3], "default of {name}");
            }
            assert_eq!(format!("{:?}", key.importance).to_uppercase(), row[4], "importance of {name}");
            if scope == "broker" {
                let update = match key.update {
                    Update::ReadOnly => "read-only",
                    Update::PerBroker => "per-broker",
                    Update::ClusterWide => "cluster-wide",
                };
                assert_eq!(update, row[5], "update mode of {name}");
                assert_eq!(key.reach == Reach::Internal, row[6] == "internal", "whether {name} is hidden");
            } else {
                assert_eq!(key.synonyms.first().map_or("-", |(name, _)| name), row[5], "synonym of {name}");
            }
            assert!(key.doc.trim().len() > 10, "{name} has documentation");
        }
        assert!(ours.is_empty(), "{scope} keys that Kafka does not have: {:?}", ours.keys());
    }
}

#[test]
fn values_are_typed_and_checked_as_kafka_does() {
    for row in rows(include_str!("config/values.txt")) {
        let (case, cell, kafka) = (row[0], row[1], row[2]);
        let key = cell.split('=').next().expect("a key");
        let ours = config(cell).map(|config| {
            let described = describe_broker(&config.settings).expect("what was loaded");
            let entry = described.into_iter().find(|entry| entry.name == key).expect("a known key");
            entry.value.unwrap_or_else(|| "[hidden]".to_owned())
        });
        // Where Kafka would run on nonsense, we do not start.
        if case == "double that is none" {
            assert!(ours.is_err(), "{case}");
            continue;
        }
        match (kafka.split_once(' ').expect("a verdict"), ours) {
            (("value", value), Ok(ours)) => assert_eq!(ours, value, "{case}"),
            (("error", text), Err(error)) => {
                let shown = error.to_string();
                assert!(shown.contains(key), "{case}: {shown:?} names the key");
                if let ConfigError::Value(bad) = error {
                    let reason = bad.reason.to_string();
                    let (_, kafka_reason) = text.split_once(&format!("{key}: ")).expect("Kafka's reason");
                    assert!(reason.starts_with(kafka_reason), "{case}: {reason} for {kafka_reason}");
                }
            }
            (_, ours) => panic!("{case}: Kafka says {kafka:?}, we say {ours:?}"),
        }
    }
}

#[test]
fn listeners_are_read_as_kafka_reads_them() {
    for row in rows(include_str!("config/listeners.txt")) {
        let (case, cell, kafka) = (row[0], row[1], row[2]);
        let ours = config(cell).map(|config| {
            let list = |endpoints: &[ottla_broker::config::Endpoint]| {
                let show = |e: &ottla_broker::config::Endpoint| {
                    format!("{}/{}/{}/{}", e.name, e.protocol, e.host, e.port)
                };
                endpoints.iter().map(show).collect::<Vec<_>>().join(" ")
            };
            let listeners = config.listeners;
            format!(
                "{} ; {} ; {}",
                list(&listeners.bound),
                list(&listeners.advertised),
                listeners.inter_broker
            )
        });
        // Ports that do not exist: Kafka fails only when it binds them.
        if matches!(case, "negative port" | "port too large") {
            assert!(ours.is_err_and(|error| error.to_string().contains("between 0 and 65535")), "{case}");
            continue;
        }
        match (kafka.strip_prefix("error "), ours) {
            (None, Ok(ours)) => assert_eq!(ours, kafka, "{case}"),
            (Some(text), Err(error)) => {
                let shown = error.to_string();
                for words in [
                    "nonroutable meta-address 0.0.0.0. Use a routable IP address.",
                    "Each listener must have a different name",
                    "No security protocol defined for listener",
                    "must be equal to or a subset of the ones defined in listeners",
                    "must be a listener name defined in advertised.listeners",
                    "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
                ] {
                    assert_eq!(text.contains(words), shown.contains(words), "{case}: {shown}");
                }
            }
            (_, ours) => panic!("{case}: Kafka says {kafka:?}, we say {ours:?}"),
        }
    }
}

#[test]
fn an_error_names_the_key_the_value_the_line_and_what_is_allowed() {
    let file = b"zookeeper.connect=z:2181\n\n# size\nlog.segment.bytes=\\\n  tiny\n";
    let error = load("server.properties", file, &[]).expect_err("not a number").to_string();
    assert!(
        error.ends_with(
            "server.properties line 4: Invalid value tiny for configuration log.segment.bytes: \
             Not a number of type INT (allowed: INT [14,...])"
        ),
        "{error}"
    );
    let error = load("x.properties", b"zookeeper.connect=z\n", &["num.io.threads=0"]).expect_err("too few");
    assert_eq!(
        error.to_string(),
        "--override: Invalid value 0 for configuration num.io.threads: Value must be at least 1 (allowed: INT [1,...])"
    );
}

#[test]
fn a_bad_secret_is_not_shown() {
    // No password is ever invalid, so the hiding is seen where values are shown.
    let config =
        properties("ssl.key.password=hunter2\nssl.keystore.password=hunter2\nmy.plugin.secret=hunter2\n");
    assert!(!format!("{:?}", effective(&config.settings)).contains("hunter2"));
    let described = describe_broker(&config.settings).expect("what was loaded");
    assert!(!format!("{described:?}").contains("hunter2"));
    let entry = described.iter().find(|entry| entry.name == "ssl.key.password").expect("a known key");
    assert!(entry.sensitive && entry.value.is_none() && entry.kind == Some(Kind::Password));
}

#[test]
fn files_that_cannot_be_read_are_refused_with_their_place() {
    let missing = Config::load(Path::new("/nowhere/server.properties"), &[]).expect_err("no such file");
    assert!(missing.to_string().starts_with("cannot read /nowhere/server.properties:"), "{missing}");
    for (name, text, place) in [
        ("a.properties", &b"zookeeper.connect=z\n\nbroker.rack=\\u12\n"[..], "a.properties line 3: "),
        ("a.toml", b"broker.id = 0\nbroker.rack = \n", "a.toml line 2: "),
        ("b.toml", b"broker.id = 0\nbroker.rack = [[1]]\n", "b.toml line 2: broker.rack"),
        ("c.toml", b"broker.id = 0\nbroker.rack = \"\xff\"\n", "c.toml line 2: not UTF-8"),
        ("d.toml", b"broker.id = 0\nbroker.id = 1\n", "d.toml line 2: "),
    ] {
        let error = load(name, text, &[]).expect_err(name).to_string();
        assert!(error.contains(place), "{error}");
    }
    let error = load("server.properties", b"", &["broker.id"]).expect_err("no equals sign");
    assert_eq!(error.to_string(), "--override \"broker.id\" has no \"=\"; write --override key=value");
    let error = load("server.properties", b"broker.id=1\n", &[]).expect_err("no ZooKeeper");
    assert_eq!(
        error.to_string(),
        "Missing required configuration \"zookeeper.connect\" which has no default value."
    );
}

#[test]
fn overrides_beat_the_file_and_later_ones_earlier_ones() {
    let file = b"zookeeper.connect=z:2181\nbroker.id=1\nbroker.id=2\n";
    let config = load("server.properties", file, &["broker.id=3", "broker.id=4", "broker.rack=a=b"])
        .expect("well-formed");
    assert_eq!(config.broker_id.map(|id| id.0), Some(4));
    assert_eq!(config.rack.as_deref(), Some("a=b"), "only the first = separates");
}

#[test]
fn toml_says_the_same_as_properties() {
    let toml = br#"
zookeeper.connect = "z:2181/kafka"
broker.id = 7
delete.topic.enable = false
"log.dir.failure.timeout.ms" = 1_000

[log]
dirs = ["/a", "/b"]
retention.hours = 0x18
cleaner.min.cleanable.ratio = 0.25
"#;
    let config = load("server.toml", toml, &["broker.id=8"]).expect("well-formed");
    assert_eq!(config.broker_id.map(|id| id.0), Some(8));
    assert_eq!(config.zookeeper.connect, "z:2181/kafka");
    assert!(!config.topics.delete_enable);
    assert_eq!(config.log.dirs, [PathBuf::from("/a"), PathBuf::from("/b")]);
    assert_eq!(config.topic_defaults.retention_ms, Some(24 * 3_600_000));
    assert_eq!(config.topic_defaults.min_cleanable_dirty_ratio, 0.25);
    assert_eq!(config.warnings, [], "and every key was understood");
}

#[test]
fn node_id_is_another_name_of_broker_id() {
    for (text, id) in [("node.id=7", 7), ("broker.id=7", 7), ("broker.id=7\nnode.id=8", 7)] {
        let config = properties(text);
        assert_eq!(config.broker_id.map(|id| id.0), Some(id), "{text}");
        assert_eq!(config.warnings, [], "{text}");
    }
}

#[test]
fn log_directories_are_listed_without_blanks_or_empty_names() {
    for (text, dirs) in [
        ("log.dirs=/a, /b,", vec!["/a", "/b"]),
        ("log.dir=/c", vec!["/c"]),
        ("log.dir=/c\nlog.dirs=/d", vec!["/d"]),
        ("log.dirs=C:\\dir", vec!["C:dir"]),
        ("", vec!["/tmp/kafka-logs"]),
    ] {
        let dirs: Vec<PathBuf> = dirs.into_iter().map(PathBuf::from).collect();
        assert_eq!(properties(text).log.dirs, dirs, "{text}");
    }
}

#[test]
fn files_of_kafka_0_8_say_what_they_said_then() {
    let file = "broker.id=0\nport=9093\nhost.name=localhost\nadvertised.host.name=outside\nnum.network.threads=2\n\
        log.dirs=/tmp/kafka-logs\nlog.cleanup.interval.mins=1\nreplica.lag.max.messages=4000\n\
        log.retention.bytes.per.topic=a:1\nlog.flush.interval.messages=10000\n";
    let config = properties(file);
    assert_eq!(config.listeners.bound[0].to_string(), "PLAINTEXT://localhost:9093");
    assert_eq!(config.listeners.advertised[0].to_string(), "PLAINTEXT://outside:9093");
    assert_eq!(config.log.retention_check_interval.as_secs(), 60);
    assert_eq!(config.topic_defaults.flush_messages, 10_000);
    let warnings: Vec<String> = config.warnings.iter().map(Warning::to_string).collect();
    assert_eq!(
        warnings,
        [
            "configuration 'port' is read as listeners=PLAINTEXT://localhost:9093",
            "configuration 'advertised.host.name' is read as advertised.listeners=PLAINTEXT://outside:9093",
            "configuration 'log.cleanup.interval.mins' is read as log.retention.check.interval.ms=60000",
            "configuration 'replica.lag.max.messages' is not used: a follower leaves the ISR by time alone: replica.lag.time.max.ms",
            "configuration 'log.retention.bytes.per.topic' is not used: set retention.bytes on the topic with kafka-configs.sh",
            "configuration 'num.network.threads' has no effect here",
        ]
    );
}

#[test]
fn old_listener_keys_give_way_to_listeners() {
    for (text, bound, advertised) in [
        ("port=9093", "PLAINTEXT://:9093", "PLAINTEXT://:9093"),
        ("host.name=h", "PLAINTEXT://h:9092", "PLAINTEXT://h:9092"),
        ("host.name=::1", "PLAINTEXT://[::1]:9092", "PLAINTEXT://[::1]:9092"),
        ("advertised.port=1", "PLAINTEXT://:9092", "PLAINTEXT://:1"),
        ("port=9093\nlisteners=PLAINTEXT://h:9", "PLAINTEXT://h:9", "PLAINTEXT://h:9"),
        ("advertised.port=1\nadvertised.listeners=PLAINTEXT://h:9", "PLAINTEXT://:9092", "PLAINTEXT://h:9"),
    ] {
        let listeners = properties(text).listeners;
        assert_eq!(listeners.bound[0].to_string(), bound, "{text}");
        assert_eq!(listeners.advertised[0].to_string(), advertised, "{text}");
    }
}

#[test]
fn keys_that_nobody_knows_are_named() {
    let config = properties(
        "sesion.timeout=1\nlistener.name.internal.ssl.key.password=x\nlistener.name.sasl.plain.sasl.jaas.config=x\n\
         listener.name.internal.max.connections=5\nlistener.name.internal.nonsense=x\nsuper.users=User:a\n",
    );
    let unknown: Vec<(&str, usize)> = config
        .warnings
        .iter()
        .filter_map(|warning| match warning {
            Warning::Unknown { key, origin: Origin::File { line, .. } } => Some((key.as_str(), *line)),
            _ => None,
        })
        .collect();
    assert_eq!(unknown, [("listener.name.internal.nonsense", 6), ("sesion.timeout", 2)]);
}

#[test]
fn a_listener_can_have_values_of_its_own() {
    let config = properties("listener.name.internal.max.connections=5\nmax.connections=7\n");
    let of = |name: &str| {
        let listener = ListenerName::new(name);
        config.settings.get_for_listener(&listener, keys::MAX_CONNECTIONS).expect("a number")
    };
    assert_eq!((of("INTERNAL"), of("EXTERNAL")), (5, 7));
    let bad = load("a.properties", b"zookeeper.connect=z\nlistener.name.internal.max.connections=x\n", &[]);
    assert!(bad.expect_err("not a number").to_string().contains("a.properties line 2"));
    let described = describe_broker(&config.settings).expect("what was loaded");
    let entry = described.iter().find(|entry| entry.name == "listener.name.internal.max.connections");
    assert_eq!(entry.and_then(|entry| entry.value.as_deref()), Some("5"));
}

#[test]
fn what_this_broker_cannot_do_is_refused_before_anything_is_opened() {
    for (text, words) in [
        ("process.roles=broker", "process.roles=broker"),
        ("zookeeper.metadata.migration.enable=true", "Kafka's own brokers"),
        ("zookeeper.set.acl=true", "zookeeper.set.acl=true"),
        ("zookeeper.ssl.client.enable=true", "zookeeper.ssl.client.enable=true"),
        ("listeners=PLAINTEXT://h:1,SSL://h:2", "listeners=SSL://h:2"),
        ("authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "authorizer.class.name"),
        ("create.topic.policy.class.name=com.example.Policy", "com.example.Policy"),
        ("principal.builder.class=com.example.Builder", "com.example.Builder"),
        ("remote.log.storage.system.enable=true", "tiered storage"),
    ] {
        let error = properties(text).check_supported().expect_err(text).to_string();
        assert!(error.contains(words) && error.contains("cannot do"), "{error}");
    }
    properties("").check_supported().expect("the defaults");
}

#[test]
fn a_listener_without_a_host_is_advertised_by_the_name_of_the_machine() {
    let config = properties("listeners=PLAINTEXT://:0");
    let advertised = config.advertised(|name| (name.as_str() == "PLAINTEXT").then_some(4711));
    assert_eq!(advertised[0].host, canonical_host_name());
    assert_eq!(advertised[0].port, 4711);
    assert!(!advertised[0].host.is_empty());
}

#[test]
fn topics_follow_the_broker_until_they_have_values_of_their_own() {
    let config = properties(
        "log.retention.minutes=10\nlog.segment.bytes=1000\nlog.flush.scheduler.interval.ms=77\ncompression.type=lz4\n",
    );
    let defaults = &config.topic_defaults;
    assert_eq!(defaults.retention_ms, Some(600_000), "minutes beat hours");
    assert_eq!(defaults.segment_bytes, 1000);
    assert_eq!(defaults.segment_ms, 7 * 24 * 3_600_000);
    assert_eq!(defaults.flush_ms, 77);
    assert_eq!(defaults.compression_type, CompressionType::Lz4);
    assert_eq!(defaults.cleanup_policy, CleanupPolicy { delete: true, compact: false });

    let overrides: TopicOverrides = [
        ("cleanup.policy", "compact, delete"),
        ("retention.ms", "-1"),
        ("message.timestamp.type", "LogAppendTime"),
        ("message.timestamp.difference.max.ms", "5"),
        ("a.key.of.the.future", "x"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let topic = TopicConfig::resolve(&config.settings, &overrides).expect("well-formed");
    assert_eq!(topic.cleanup_policy, CleanupPolicy { delete: true, compact: true });
    assert_eq!(topic.retention_ms, None);
    assert_eq!(topic.message_timestamp_type, TimestampType::LogAppendTime);
    assert_eq!((topic.message_timestamp_before_max_ms, topic.message_timestamp_after_max_ms), (5, 5));
    assert_eq!(topic.segment_bytes, 1000, "what it does not say still comes from the broker");
}

#[test]
fn topic_values_are_refused_as_kafka_refuses_them() {
    let settings = properties("").settings;
    for (pairs, text) in [
        (&[("retention", "1")][..], "Unknown topic config name: retention"),
        (
            &[("retention.ms", "-2")],
            "ZooKeeper: Invalid value -2 for configuration retention.ms: Value must be at least -1 (allowed: LONG [-1,...])",
        ),
        (
            &[("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")],
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
        (
            &[("remote.storage.enable", "true")],
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
        (
            &[("leader.replication.throttled.replicas", "0:1,x")],
            "ZooKeeper: Invalid value 0:1,x for configuration leader.replication.throttled.replicas: expected \"*\" or pairs like 0:101,1:102 of partition and broker (allowed: LIST [partitionId]:[brokerId],[partitionId]:[brokerId],...)",
        ),
    ] {
        let overrides = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let error = TopicConfig::validate(&settings, &overrides).expect_err(text);
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn descriptions_tell_who_decided() {
    let config =
        properties("log.retention.hours=1\nlog.segment.bytes=1000\nlog.roll.ms=5\nlog.roll.hours=2\n");
    let broker = describe_broker(&config.settings).expect("what was loaded");
    let entry = |name: &str| broker.iter().find(|entry| entry.name == name).expect("a known key");
    assert_eq!(broker.len(), BROKER_KEYS.iter().filter(|key| key.reach != Reach::Internal).count());

    let unset = entry("log.retention.ms");
    assert_eq!((unset.value.as_deref(), unset.source), (None, Source::Default), "hours are not its source");
    assert!(unset.synonyms.is_empty());
    let hours = entry("log.retention.hours");
    assert_eq!((hours.value.as_deref(), hours.source), (Some("1"), Source::StaticBroker));
    assert!(hours.read_only);
    let roll: Vec<_> =
        entry("log.roll.ms").synonyms.iter().map(|s| (s.name, s.value.as_deref(), s.source)).collect();
    assert_eq!(
        roll,
        [
            ("log.roll.ms", Some("5"), Source::StaticBroker),
            ("log.roll.hours", Some("2"), Source::StaticBroker),
            ("log.roll.hours", Some("168"), Source::Default),
        ]
    );

    let overrides = [("segment.bytes".to_owned(), "2000".to_owned())].into();
    let topic = describe_topic(&config.settings, &overrides).expect("well-formed");
    assert_eq!(topic.len(), TOPIC_KEYS.len());
    let entry = |name: &str| topic.iter().find(|entry| entry.name == name).expect("a known key");
    let segment: Vec<_> =
        entry("segment.bytes").synonyms.iter().map(|s| (s.name, s.value.as_deref(), s.source)).collect();
    assert_eq!(
        segment,
        [
            ("segment.bytes", Some("2000"), Source::Topic),
            ("log.segment.bytes", Some("1000"), Source::StaticBroker),
            ("log.segment.bytes", Some("1073741824"), Source::Default),
        ]
    );
    assert_eq!(entry("retention.ms").value.as_deref(), Some("3600000"));
    assert_eq!(entry("cleanup.policy").source, Source::Default);
}

#[test]
fn a_broker_and_a_topic_are_described_as_kafka_describes_them() {
    let config =
        Config::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/describe.properties"), &[])
            .expect("a configuration that Kafka started with");
    let overrides: TopicOverrides = [("retention.ms".to_owned(), "1000".to_owned())].into();
    let broker = describe_broker(&config.settings).expect("what was loaded");
    let topic = describe_topic(&config.settings, &overrides).expect("well-formed");
    let mut seen = 0;
    for row in rows(include_str!("config/describe.txt")) {
        let described = if row[0] == "BROKER" { &broker } else { &topic };
        let entry = described.iter().find(|entry| entry.name == row[1]);
        let entry = entry.unwrap_or_else(|| panic!("{} {} is not described", row[0], row[1]));
        let source = match entry.source {
            Source::Topic => "DYNAMIC_TOPIC_CONFIG",
            Source::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            Source::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            Source::StaticBroker => "STATIC_BROKER_CONFIG",
            Source::Default => "DEFAULT_CONFIG",
        };
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
        let synonyms: Vec<String> = entry
            .synonyms
            .iter()
            .map(|synonym| {
                let source = match synonym.source {
                    Source::Topic => "DYNAMIC_TOPIC_CONFIG",
                    Source::StaticBroker => "STATIC_BROKER_CONFIG",
                    _ => "DEFAULT_CONFIG",
                };
                format!("{}={}/{source}", synonym.name, shown(&synonym.value))
            })
            .collect();
        let ours = [
            match shown(&entry.value).as_str() {
                "" => "''".to_owned(),
                value => value.to_owned(),
            },
            source.to_owned(),
            entry.read_only.to_string(),
            entry.sensitive.to_string(),
            entry.kind.map_or("UNKNOWN".to_owned(), |kind| kind.to_string()),
            format!("[{}]", synonyms.join(", ")),
        ];
        // A map, which Kafka shows in the order of its hashes.
        if row[1] != "listener.security.protocol.map" {
            assert_eq!(ours.join(" | "), row[2..].join(" | "), "{} {}", row[0], row[1]);
        }
        seen += 1;
    }
    assert_eq!(seen, broker.len() + topic.len(), "nothing more is described");
}

#[test]
fn what_is_set_while_running_beats_the_file() {
    let mut settings = properties("num.io.threads=4\n").settings;
    let given = |value: &str| ottla_broker::config::Given { value: value.into(), origin: Origin::ZooKeeper };
    settings.dynamic_default.insert("num.io.threads".into(), given("5"));
    assert_eq!(settings.get(keys::NUM_IO_THREADS).expect("a number"), 5);
    settings.dynamic_broker.insert("num.io.threads".into(), given("6"));
    assert_eq!(settings.get(keys::NUM_IO_THREADS).expect("a number"), 6);
    let described = describe_broker(&settings).expect("well-formed");
    let entry = described.iter().find(|entry| entry.name == "num.io.threads").expect("a known key");
    assert_eq!(entry.source, Source::DynamicBroker);
    assert_eq!(entry.synonyms.len(), 4, "broker, cluster, file, default");
}

#[test]
fn variables_are_read_as_images_write_them() {
    let variables = [
        ("KAFKA_LOG_DIRS", "/a"),
        ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://h:9092,SSL://h:9093"),
        ("KAFKA_LISTENER_NAME_A__B_MAX_CONNECTIONS", "5"),
        ("KAFKA_MY___PLUGIN_KEY", "a=$b, c"),
        ("KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET", "x"),
        ("KAFKA_BROKER_ID", "1"),
        ("KAFKA_CFG_BROKER_ID", "2"),
        ("KAFKA_HEAP_OPTS", "-Xmx1G"),
        ("KAFKA_VERSION", "3.9.1"),
        ("PATH", "/bin"),
    ];
    let layer = from_environment(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let read: Vec<(&str, &str)> =
        layer.iter().map(|(key, given)| (key.as_str(), given.value.as_str())).collect();
    assert_eq!(
        read,
        [
            ("advertised.listeners", "PLAINTEXT://h:9092,SSL://h:9093"),
            ("broker.id", "2"),
            ("listener.name.a_b.max.connections", "5"),
            ("log.dirs", "/a"),
            ("my-plugin.key", "a=$b, c"),
            ("zookeeper.clientCnxnSocket", "x"),
        ]
    );
}

#[test]
fn the_page_of_documentation_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("OTTLA_WRITE_DOCS").is_some() {
        std::fs::write(&path, markdown()).expect("a writable docs directory");
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == markdown(),
        "docs/configuration.md is stale: OTTLA_WRITE_DOCS=1 cargo test -p ottla-broker --test config"
    );
}
