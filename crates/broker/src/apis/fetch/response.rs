//! Writes fetch responses around record bytes that never enter this process.
//!
//! The generated encoder wants the records in memory. Here they stay where they are: the response is a chain of
//! header bytes and file regions, in the order of the wire.

use bytes::{Bytes, BytesMut};
use ottla_model::{BrokerId, LeaderEpoch, Offset, ProducerId};
use ottla_network::{FileRegion, Response};
use ottla_protocol::messages::fetch::FetchResponse;
use ottla_protocol::{ApiKey, EncodeError, Encoder, ErrorCode, Message, frame};

use super::session::TopicKey;
use crate::hosted_partition::Watermarks;

/// The record bytes of one partition.
#[derive(Debug, Clone, Default)]
pub enum FetchedRecords {
    #[default]
    Nothing,
    /// Converted for an old client.
    Memory(Bytes),
    /// As they lie in the log.
    File(FileRegion),
}

impl FetchedRecords {
    pub fn len(&self) -> usize {
        match self {
            FetchedRecords::Nothing => 0,
            FetchedRecords::Memory(bytes) => bytes.len(),
            FetchedRecords::File(region) => region.len as usize,
        }
    }
}

/// The answer for one partition.
#[derive(Debug, Clone)]
pub struct FetchedPartition {
    pub partition: i32,
    pub error: ErrorCode,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// Where the fetcher's log and this one part (KIP-595): epoch and end offset.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// The true leader, beside an error that says the fetcher has it wrong (KIP-951).
    pub current_leader: Option<(BrokerId, LeaderEpoch)>,
    /// Aborted transactions in the records, for read_committed; `None` otherwise.
    pub aborted: Option<Vec<(ProducerId, Offset)>>,
    pub records: FetchedRecords,
}

impl FetchedPartition {
    /// A partition that was read; what of is yet to be filled in.
    pub fn found(partition: i32, watermarks: Watermarks) -> FetchedPartition {
        FetchedPartition {
            high_watermark: watermarks.high_watermark,
            last_stable_offset: watermarks.last_stable,
            log_start_offset: watermarks.log_start,
            ..FetchedPartition::failed(partition, ErrorCode::None)
        }
    }

    pub fn failed(partition: i32, error: ErrorCode) -> FetchedPartition {
        FetchedPartition {
            partition,
            error,
            high_watermark: Offset(-1),
            last_stable_offset: Offset(-1),
            log_start_offset: Offset(-1),
            diverging: None,
            current_leader: None,
            aborted: None,
            records: FetchedRecords::Nothing,
        }
    }
}

/// The answer for one topic, named as the request named it.
#[derive(Debug, Clone)]
pub struct FetchedTopic {
    pub topic: TopicKey,
    pub partitions: Vec<FetchedPartition>,
}

/// Where the answer goes.
#[derive(Debug, Clone, Copy)]
pub struct Envelope {
    pub version: i16,
    pub correlation_id: i32,
    pub error: ErrorCode,
    pub session_id: i32,
}

/// Where a leader is that some partition's answer names.
#[derive(Debug, Clone)]
pub struct LeaderEndpoint {
    pub id: BrokerId,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

/// Puts the response together; record bytes of files are named, not read.
///
/// `leaders` are told from v16 on.
pub fn write(
    envelope: Envelope,
    topics: &[FetchedTopic],
    leaders: &[LeaderEndpoint],
) -> Result<Response, EncodeError> {
    let Envelope { version, correlation_id, .. } = envelope;
    let mut writer = Writer {
        version,
        flexible: FetchResponse::is_flexible(version),
        out: BytesMut::new(),
        response: None,
    };
    frame::encode_response_header(&mut writer.encoder(), ApiKey::Fetch, version, correlation_id)?;
    writer.body(envelope, topics)?;
    writer.leaders(leaders)?;
    Ok(writer.finish())
}

struct Writer {
    version: i16,
    flexible: bool,
    /// What has been written since the last file region.
    out: BytesMut,
    response: Option<Response>,
}

impl Writer {
    fn encoder(&mut self) -> Encoder<'_> {
        Encoder::new(&mut self.out)
    }

    fn body(&mut self, envelope: Envelope, topics: &[FetchedTopic]) -> Result<(), EncodeError> {
        let (version, flexible) = (self.version, self.flexible);
        let mut out = self.encoder();
        if version >= 1 {
            out.int32(0); // throttle_time_ms
        }
        if version >= 7 {
            out.int16(envelope.error as i16);
            out.int32(envelope.session_id);
        }
        out.length(Some(topics.len()), flexible)?;
        for topic in topics {
            let mut out = self.encoder();
            match &topic.topic {
                TopicKey::Id(id) => out.uuid(*id),
                TopicKey::Name(name) => out.string(name, flexible)?,
            }
            out.length(Some(topic.partitions.len()), flexible)?;
            for partition in &topic.partitions {
                self.partition(partition)?;
            }
            self.no_tagged_fields();
        }
        Ok(())
    }

    /// Tag 0 of the whole: where the leaders are.
    fn leaders(&mut self, leaders: &[LeaderEndpoint]) -> Result<(), EncodeError> {
        if self.version < 16 || leaders.is_empty() {
            self.no_tagged_fields();
            return Ok(());
        }
        let mut out = self.encoder();
        out.unsigned_varint(1);
        let value = out.begin_tagged_field(0);
        out.length(Some(leaders.len()), true)?;
        for leader in leaders {
            out.int32(leader.id.0);
            out.string(&leader.host, true)?;
            out.int32(leader.port);
            out.nullable_string(leader.rack.as_deref(), true)?;
            out.unsigned_varint(0);
        }
        out.end_tagged_field(value)
    }

    fn partition(&mut self, partition: &FetchedPartition) -> Result<(), EncodeError> {
        let (version, flexible) = (self.version, self.flexible);
        let mut out = self.encoder();
        out.int32(partition.partition);
        out.int16(partition.error as i16);
        out.int64(partition.high_watermark.0);
        if version >= 4 {
            out.int64(partition.last_stable_offset.0);
            if version >= 5 {
                out.int64(partition.log_start_offset.0);
            }
            let aborted = partition.aborted.as_deref();
            out.length(aborted.map(<[_]>::len), flexible)?;
            for (producer, first) in aborted.unwrap_or_default() {
                out.int64(producer.0);
                out.int64(first.0);
                if flexible {
                    out.unsigned_varint(0);
                }
            }
        }
        if version >= 11 {
            out.int32(-1); // preferred_read_replica: read from here
        }
        out.length(Some(partition.records.len()), flexible)?;
        match &partition.records {
            FetchedRecords::Nothing => {}
            FetchedRecords::Memory(bytes) => self.part(|response| response.bytes(bytes.clone())),
            FetchedRecords::File(region) => self.part(|response| response.file(region.clone())),
        }
        self.partition_tags(partition)
    }

    /// Tags 0 and 1: where the logs part, and who leads.
    fn partition_tags(&mut self, partition: &FetchedPartition) -> Result<(), EncodeError> {
        if !self.flexible {
            return Ok(());
        }
        let mut out = self.encoder();
        let count = u32::from(partition.diverging.is_some()) + u32::from(partition.current_leader.is_some());
        out.unsigned_varint(count);
        if let Some((epoch, end_offset)) = partition.diverging {
            let value = out.begin_tagged_field(0);
            out.int32(epoch.0);
            out.int64(end_offset.0);
            out.unsigned_varint(0);
            out.end_tagged_field(value)?;
        }
        if let Some((leader, epoch)) = partition.current_leader {
            let value = out.begin_tagged_field(1);
            out.int32(leader.0);
            out.int32(epoch.0);
            out.unsigned_varint(0);
            out.end_tagged_field(value)?;
        }
        Ok(())
    }

    fn no_tagged_fields(&mut self) {
        if self.flexible {
            self.encoder().unsigned_varint(0);
        }
    }

    /// Closes the header bytes so far and puts a part behind them.
    fn part(&mut self, add: impl FnOnce(Response) -> Response) {
        let head = self.out.split().freeze();
        let response = match self.response.take() {
            None => Response::new(head),
            Some(response) => response.bytes(head),
        };
        self.response = Some(add(response));
    }

    fn finish(self) -> Response {
        let tail = self.out.freeze();
        match self.response {
            None => Response::new(tail),
            Some(response) if tail.is_empty() => response,
            Some(response) => response.bytes(tail),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use ottla_model::Uuid;
    use ottla_network::Part;
    use ottla_protocol::Str;
    use ottla_protocol::messages::fetch::{
        AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint,
        PartitionData,
    };

    use super::*;

    const RECORDS: &[u8] = b"..record bytes..";

    fn file() -> Arc<std::fs::File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(RECORDS).unwrap();
        Arc::new(file)
    }

    /// Every shape a partition's answer can take.
    fn topics(version: i16) -> Vec<FetchedTopic> {
        let region = FileRegion { file: file(), offset: 2, len: 6 };
        let good = FetchedPartition {
            partition: 0,
            error: ErrorCode::None,
            high_watermark: Offset(10),
            last_stable_offset: Offset(9),
            log_start_offset: Offset(3),
            diverging: None,
            current_leader: None,
            aborted: None,
            records: FetchedRecords::File(region.clone()),
        };
        let committed = FetchedPartition {
            partition: 1,
            aborted: Some(vec![(ProducerId(4000), Offset(7)), (ProducerId(4001), Offset(8))]),
            records: FetchedRecords::Memory(Bytes::from_static(b"converted")),
            ..good.clone()
        };
        let diverged = FetchedPartition {
            partition: 2,
            diverging: Some((LeaderEpoch(4), Offset(6))),
            records: FetchedRecords::Nothing,
            ..good.clone()
        };
        let moved = FetchedPartition {
            current_leader: Some((BrokerId(2), LeaderEpoch(5))),
            ..FetchedPartition::failed(3, ErrorCode::NotLeaderOrFollower)
        };
        let topic = |name: &str, partitions| {
            let id = Uuid([name.len() as u8; 16]);
            let topic = if version >= 13 { TopicKey::Id(id) } else { TopicKey::Name(Str::from(name)) };
            FetchedTopic { topic, partitions }
        };
        vec![
            topic("first", vec![good.clone(), committed, diverged, moved]),
            topic("second-and-last", vec![good]),
            topic("none", Vec::new()),
        ]
    }

    fn leaders() -> [LeaderEndpoint; 2] {
        let leader = |id, rack: Option<&str>| LeaderEndpoint {
            id: BrokerId(id),
            host: format!("broker-{id}"),
            port: 9092,
            rack: rack.map(str::to_owned),
        };
        [leader(2, None), leader(5, Some("north"))]
    }

    /// What the generated encoder makes of the same answer.
    fn expected(envelope: Envelope, topics: &[FetchedTopic]) -> Vec<u8> {
        let records = |records: &FetchedRecords| match records {
            FetchedRecords::Nothing => Bytes::new(),
            FetchedRecords::Memory(bytes) => bytes.clone(),
            FetchedRecords::File(region) => {
                let start = region.offset as usize;
                Bytes::from_static(&RECORDS[start..start + region.len as usize])
            }
        };
        let has_tags = envelope.version >= 12;
        let partition = |partition: &FetchedPartition| PartitionData {
            partition_index: partition.partition,
            error_code: partition.error as i16,
            high_watermark: partition.high_watermark.0,
            last_stable_offset: partition.last_stable_offset.0,
            log_start_offset: partition.log_start_offset.0,
            diverging_epoch: partition.diverging.filter(|_| has_tags).map_or_else(
                Default::default,
                |(epoch, end_offset)| EpochEndOffset {
                    epoch: epoch.0,
                    end_offset: end_offset.0,
                    ..Default::default()
                },
            ),
            current_leader: partition.current_leader.filter(|_| has_tags).map_or_else(
                Default::default,
                |(leader, epoch)| LeaderIdAndEpoch {
                    leader_id: leader.0,
                    leader_epoch: epoch.0,
                    ..Default::default()
                },
            ),
            aborted_transactions: partition.aborted.as_ref().map(|aborted| {
                let transaction = |(producer, first): &(ProducerId, Offset)| AbortedTransaction {
                    producer_id: producer.0,
                    first_offset: first.0,
                    ..Default::default()
                };
                aborted.iter().map(transaction).collect()
            }),
            records: Some(records(&partition.records)),
            ..Default::default()
        };
        let responses = topics.iter().map(|topic| {
            let (topic_id, name) = match &topic.topic {
                TopicKey::Id(id) => (*id, Str::default()),
                TopicKey::Name(name) => (Uuid::ZERO, name.clone()),
            };
            FetchableTopicResponse {
                topic: name,
                topic_id,
                partitions: topic.partitions.iter().map(partition).collect(),
                ..Default::default()
            }
        });
        let node = |leader: &LeaderEndpoint| NodeEndpoint {
            node_id: leader.id.0,
            host: Str::from(leader.host.as_str()),
            port: leader.port,
            rack: leader.rack.as_deref().map(Str::from),
            ..Default::default()
        };
        let leaders = leaders();
        let node_endpoints = leaders.iter().filter(|_| envelope.version >= 16).map(node).collect();
        let response = FetchResponse {
            node_endpoints,
            error_code: envelope.error as i16,
            session_id: envelope.session_id,
            responses: responses.collect(),
            ..Default::default()
        };
        let mut out = BytesMut::new();
        frame::encode_response(&mut out, ApiKey::Fetch, envelope.version, envelope.correlation_id, &response)
            .unwrap();
        out[frame::SIZE_BYTES..].to_vec()
    }

    #[test]
    fn the_chain_of_parts_is_the_response_in_every_version() {
        for version in FetchResponse::VERSIONS {
            let session_id = if version >= 7 { 9 } else { 0 };
            let envelope = Envelope { version, correlation_id: 77, error: ErrorCode::None, session_id };
            let topics = topics(version);
            let mut wire = Vec::new();
            for part in write(envelope, &topics, &leaders()).unwrap().into_parts() {
                match part {
                    Part::Bytes(bytes) => wire.extend_from_slice(&bytes),
                    Part::File(region) => {
                        let start = region.offset as usize;
                        wire.extend_from_slice(&RECORDS[start..start + region.len as usize]);
                    }
                }
            }
            assert_eq!(wire, expected(envelope, &topics), "v{version}");
        }
    }

    #[test]
    fn record_bytes_of_files_stay_in_their_files() {
        let envelope = Envelope { version: 12, correlation_id: 1, error: ErrorCode::None, session_id: 0 };
        let files = write(envelope, &topics(12), &[]).unwrap().into_parts();
        assert_eq!(files.filter(|part| matches!(part, Part::File(_))).count(), 2);
    }
}
