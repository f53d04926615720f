//! A cluster in this process: an embedded ZooKeeper and brokers on free ports, gone with the test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ottla_broker::RunningBroker;
use ottla_broker::config::Config;
use ottla_model::{TopicName, Uuid};
use ottla_protocol::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use ottla_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use ottla_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use ottla_protocol::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use ottla_protocol::records::{BatchBuilder, Batches};
use ottla_protocol::{ErrorCode, Str};
use ottla_zookeeper::{ClientStore, ConnectSettings, KafkaZkClient, ZkStore};
use ottla_zookeeper_server::{Config as ZooKeeperConfig, Server};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::wire::Wire;

/// Brokers 0, 1, .. and their ZooKeeper.
#[derive(Debug)]
pub struct Cluster {
    zookeeper: SocketAddr,
    brokers: Vec<Option<RunningBroker>>,
    settings: Vec<(String, String)>,
    dir: TempDir,
    stop_zookeeper: Option<oneshot::Sender<()>>,
}

impl Cluster {
    /// One broker.
    pub async fn start(settings: &[(&str, &str)]) -> Cluster {
        Cluster::of(1, settings).await
    }

    /// All brokers know of each other when this returns.
    pub async fn of(brokers: usize, settings: &[(&str, &str)]) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let mut config = ZooKeeperConfig::new(dir.path().join("zookeeper"));
        config.client_address = SocketAddr::from(([127, 0, 0, 1], 0));
        config.connections_per_address_max = 0;
        let server = Server::bind(config).await.unwrap();
        let zookeeper = server.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.run(async move {
            let _ = stopped.await;
        }));
        let settings = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let mut cluster = Cluster {
            zookeeper,
            brokers: (0..brokers).map(|_| None).collect(),
            settings,
            dir,
            stop_zookeeper: Some(stop),
        };
        for id in 0..brokers {
            cluster.start_broker(id).await;
        }
        for id in 0..brokers {
            // Each question waits for its answer, so this does not spin faster than the broker.
            let mut wire = cluster.connect_to(id).await;
            let no_topics = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
            while wire.ask(9, &no_topics).await.brokers.len() < brokers {}
        }
        cluster
    }

    pub async fn start_broker(&mut self, id: usize) {
        let (broker_id, connect) = (id.to_string(), self.zookeeper.to_string());
        let logs = self.log_dir(id);
        let own = [
            ("broker.id", broker_id.as_str()),
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("zookeeper.connect", connect.as_str()),
            ("log.dirs", logs.to_str().unwrap()),
            // A test is over when it is over.
            ("controlled.shutdown.enable", "false"),
        ];
        let settings = self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let config = Config::from_pairs(own.into_iter().chain(settings)).unwrap();
        self.brokers[id] = Some(RunningBroker::start(config).await.unwrap());
    }

    pub async fn stop_broker(&mut self, id: usize) {
        self.brokers[id].take().expect("the broker runs").shutdown().await;
    }

    /// It answers nobody any more.
    pub fn stop_zookeeper(&mut self) {
        self.stop_zookeeper.take().expect("ZooKeeper runs").send(()).unwrap();
    }

    pub async fn restart_broker(&mut self, id: usize) {
        self.stop_broker(id).await;
        self.start_broker(id).await;
    }

    pub fn address(&self, id: usize) -> SocketAddr {
        self.brokers[id].as_ref().expect("the broker runs").local_addrs()[0].1
    }

    /// A connection to broker 0, which controls every cluster that it started in.
    pub async fn connect(&self) -> Wire {
        self.connect_to(0).await
    }

    pub async fn connect_to(&self, id: usize) -> Wire {
        Wire::connect(self.address(id)).await
    }

    /// Where a broker keeps its logs.
    pub fn log_dir(&self, id: usize) -> PathBuf {
        self.dir.path().join(format!("logs-{id}"))
    }

    /// The cluster's ZooKeeper, for looking at what brokers leave there.
    pub async fn zookeeper(&self) -> (Arc<dyn ZkStore>, KafkaZkClient) {
        let store: Arc<dyn ZkStore> = Arc::new(
            ClientStore::connect(ConnectSettings {
                connect: self.zookeeper.to_string(),
                session_timeout: Duration::from_secs(18),
                connection_timeout: Duration::from_secs(18),
            })
            .await
            .unwrap(),
        );
        (store.clone(), KafkaZkClient::new(store, 10))
    }
}

/// What almost every test begins with.
impl Wire {
    /// Makes a topic; it has leaders when this returns.
    pub async fn create_topic(&mut self, name: &str, partitions: i32, factor: i16, configs: &[(&str, &str)]) {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: Str::from(*name),
            value: Some(Str::from(*value)),
            ..Default::default()
        });
        let topic = CreatableTopic {
            name: Str::from(name),
            num_partitions: partitions,
            replication_factor: factor,
            configs: configs.collect(),
            ..Default::default()
        };
        let answer = self.create_topics(5, vec![topic]).await;
        assert_eq!(answer.topics[0].error_code, 0, "{:?}", answer.topics[0].error_message);
    }

    pub async fn create_topics(&mut self, version: i16, topics: Vec<CreatableTopic>) -> CreateTopicsResponse {
        self.ask(version, &CreateTopicsRequest { topics, timeout_ms: 60_000, ..Default::default() }).await
    }

    /// What one partition holds, from an offset on.
    pub async fn values(&mut self, topic: &str, partition: i32, offset: i64) -> Vec<String> {
        let answer = self.ask(4, &fetch_request(topic, &[(partition, offset)])).await;
        let answer = &answer.responses[0].partitions[0];
        assert_eq!(answer.error_code, 0);
        values(&answer.records)
    }

    pub async fn topic_id(&mut self, name: &str) -> Uuid {
        let topic = MetadataRequestTopic { name: Some(Str::from(name)), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer = self.ask(10, &request).await;
        assert_eq!(answer.topics[0].error_code, 0);
        answer.topics[0].topic_id
    }

    /// Appends records to one partition in the oldest version for batches of magic 2.
    pub async fn produce(&mut self, topic: &str, partition: i32, records: Bytes) -> PartitionProduceResponse {
        self.produce_with(8, -1, topic, partition, records).await
    }

    pub async fn produce_with(
        &mut self,
        version: i16,
        acks: i16,
        topic: &str,
        partition: i32,
        records: Bytes,
    ) -> PartitionProduceResponse {
        let request = produce_request(acks, topic, partition, records);
        let mut answer = self.ask(version, &request).await;
        answer.responses.remove(0).partition_responses.remove(0)
    }
}

pub fn produce_request(acks: i16, topic: &str, partition: i32, records: Bytes) -> ProduceRequest {
    let data = PartitionProduceData { index: partition, records: Some(records), ..Default::default() };
    let topic = TopicProduceData { name: Str::from(topic), partition_data: vec![data], ..Default::default() };
    ProduceRequest { acks, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() }
}

/// A batch of magic 2 with these values, written at 1000, 1001, ..
pub fn batch(values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new();
    for (at, value) in (1000..).zip(values) {
        builder.append(ottla_model::Timestamp(at), None, Some(value.as_bytes()), &[]);
    }
    builder.finish()
}

/// A fetch that waits for nothing, to be changed where a test wants another.
pub fn fetch_request(topic: &str, partitions: &[(i32, i64)]) -> FetchRequest {
    let partitions = partitions.iter().map(|(partition, offset)| FetchPartition {
        partition: *partition,
        fetch_offset: *offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    });
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![FetchTopic {
            topic: Str::from(topic),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// The values of all records, whatever their format.
pub fn values(records: &Option<Bytes>) -> Vec<String> {
    let mut values = Vec::new();
    for batch in Batches::new(records.as_deref().unwrap_or_default()).map_while(Result::ok) {
        batch.check_crc().unwrap();
        let records = batch.records(usize::MAX).unwrap();
        for record in records.iter().unwrap() {
            let value = record.unwrap().value.unwrap_or_default().to_vec();
            values.push(String::from_utf8(value).unwrap());
        }
    }
    values
}

pub fn topic_name(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

pub fn error(code: i16) -> ErrorCode {
    ErrorCode::from_i16(code).expect("a code that Kafka knows")
}
