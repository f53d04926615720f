//! Records of `__consumer_offsets`, byte for byte as Kafka writes them, so that either can take over from the other.
//!
//! ```text
//! key    version int16, body     0, 1 a committed offset    2 a classic group    3 and up newer kinds of groups
//! value  version int16, body     null: it is deleted
//! ```

use bytes::{Bytes, BytesMut};
use ottla_model::{LeaderEpoch, Offset, Timestamp, TopicPartition};
use ottla_protocol::messages::consumer_offsets::{
    GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue,
};
use ottla_protocol::{DecodeError, Decoder, EncodeError, Encoder, Message, Str};

use crate::group::{StoredGroup, StoredMember};
use crate::offsets::CommittedOffset;

/// Version of the key of a committed offset.
const OFFSET_KEY: i16 = 1;
/// Version of the key of a classic group.
const GROUP_KEY: i16 = 2;
/// The version of an offset's value that can tell when it expires.
const OFFSET_VALUE_WITH_EXPIRY: i16 = 1;

/// Which versions of values are written, so that the oldest broker of the cluster can read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordVersions {
    /// Of a committed offset: 1 before IBP 2.1-IV0, 2 before 2.1-IV1, then 3.
    pub offset: i16,
    /// Of a group: 0 before IBP 0.10.1, 1 before 2.1-IV0, 2 before 2.3-IV0, then 3.
    pub group: i16,
}

/// What a record of the log says.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// `None`: the offset is deleted.
    Offset { group: Str, topic: Str, partition: i32, committed: Option<CommittedOffset> },
    /// `None`: the group is deleted.
    Group { group: Str, stored: Option<StoredGroup> },
    /// Written by a newer kind of coordinator, and not for this one.
    Other { key_version: i16 },
}

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    #[error("record without a key")]
    NoKey,
    #[error("key: {0}")]
    Key(DecodeError),
    #[error("value: {0}")]
    Value(DecodeError),
}

impl Record {
    pub fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Record, RecordFault> {
        let mut key = Decoder::new(Bytes::copy_from_slice(key.ok_or(RecordFault::NoKey)?));
        let key_version = key.int16().map_err(RecordFault::Key)?;
        match key_version {
            0 | OFFSET_KEY => {
                let key = OffsetCommitKey::decode(&mut key, key_version).map_err(RecordFault::Key)?;
                let committed = decode_value(value)?.map(committed_offset);
                let OffsetCommitKey { group, topic, partition } = key;
                Ok(Record::Offset { group, topic, partition, committed })
            }
            GROUP_KEY => {
                let key = GroupMetadataKey::decode(&mut key, key_version).map_err(RecordFault::Key)?;
                let stored = decode_value(value)?.map(stored_group);
                Ok(Record::Group { group: key.group, stored })
            }
            key_version => Ok(Record::Other { key_version }),
        }
    }
}

fn decode_value<M: Message>(value: Option<&[u8]>) -> Result<Option<M>, RecordFault> {
    let Some(value) = value else { return Ok(None) };
    let mut value = Decoder::new(Bytes::copy_from_slice(value));
    let read = |value: &mut Decoder| -> Result<M, DecodeError> {
        let version = value.int16()?;
        M::decode(value, version)
    };
    read(&mut value).map(Some).map_err(RecordFault::Value)
}

fn committed_offset(value: OffsetCommitValue) -> CommittedOffset {
    CommittedOffset {
        offset: Offset(value.offset),
        leader_epoch: (value.leader_epoch >= 0).then_some(LeaderEpoch(value.leader_epoch)),
        metadata: value.metadata.to_string(),
        committed_at: Timestamp(value.commit_timestamp),
        expires_at: (value.expire_timestamp >= 0).then_some(Timestamp(value.expire_timestamp)),
    }
}

fn stored_group(value: GroupMetadataValue) -> StoredGroup {
    let member = |member: MemberMetadata| StoredMember {
        id: member.member_id.to_string(),
        instance_id: member.group_instance_id.map(|instance| instance.to_string()),
        client_id: member.client_id.to_string(),
        client_host: member.client_host.to_string(),
        session_timeout_ms: member.session_timeout,
        // Before it was written, the session timeout served as both.
        rebalance_timeout_ms: if member.rebalance_timeout < 0 {
            member.session_timeout
        } else {
            member.rebalance_timeout
        },
        subscription: member.subscription,
        assignment: member.assignment,
    };
    StoredGroup {
        protocol_type: value.protocol_type.to_string(),
        generation: value.generation,
        protocol: value.protocol.map(|protocol| protocol.to_string()),
        leader: value.leader.map(|leader| leader.to_string()),
        state_timestamp: Timestamp(value.current_state_timestamp),
        members: value.members.into_iter().map(member).collect(),
    }
}

/// Key of a committed offset.
pub fn offset_key(group: &str, partition: &TopicPartition) -> Result<Bytes, EncodeError> {
    let key = OffsetCommitKey {
        group: Str::from(group),
        topic: Str::from(partition.topic.as_str()),
        partition: partition.partition,
    };
    encode(&key, OFFSET_KEY)
}

/// Value of a committed offset. One that is to expire at a time of its own is written in the version that can tell.
pub fn offset_value(committed: &CommittedOffset, versions: RecordVersions) -> Result<Bytes, EncodeError> {
    let value = OffsetCommitValue {
        offset: committed.offset.0,
        leader_epoch: committed.leader_epoch.unwrap_or(LeaderEpoch::NONE).0,
        metadata: Str::from(committed.metadata.as_str()),
        commit_timestamp: committed.committed_at.0,
        expire_timestamp: committed.expires_at.unwrap_or(Timestamp::NONE).0,
        ..Default::default()
    };
    let version = if committed.expires_at.is_some() { OFFSET_VALUE_WITH_EXPIRY } else { versions.offset };
    encode(&value, version)
}

/// Key of a group.
pub fn group_key(group: &str) -> Result<Bytes, EncodeError> {
    encode(&GroupMetadataKey { group: Str::from(group) }, GROUP_KEY)
}

/// Value of a group.
pub fn group_value(stored: &StoredGroup, versions: RecordVersions) -> Result<Bytes, EncodeError> {
    let text = |text: &Option<String>| text.as_deref().map(Str::from);
    let member = |member: &StoredMember| MemberMetadata {
        member_id: Str::from(member.id.as_str()),
        group_instance_id: text(&member.instance_id),
        client_id: Str::from(member.client_id.as_str()),
        client_host: Str::from(member.client_host.as_str()),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member.subscription.clone(),
        assignment: member.assignment.clone(),
        ..Default::default()
    };
    let value = GroupMetadataValue {
        protocol_type: Str::from(stored.protocol_type.as_str()),
        generation: stored.generation,
        protocol: text(&stored.protocol),
        leader: text(&stored.leader),
        current_state_timestamp: stored.state_timestamp.0,
        members: stored.members.iter().map(member).collect(),
        ..Default::default()
    };
    encode(&value, versions.group)
}

fn encode<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let mut out = BytesMut::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.int16(version);
    message.encode(&mut encoder, version)?;
    Ok(out.freeze())
}

#[cfg(test)]
mod tests {
    use ottla_model::TopicName;

    use super::*;

    const LATEST: RecordVersions = RecordVersions { offset: 3, group: 3 };
    const T: Timestamp = Timestamp(1_700_000_000_000);

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn committed() -> CommittedOffset {
        CommittedOffset {
            offset: Offset(42),
            leader_epoch: None,
            metadata: String::new(),
            committed_at: T,
            expires_at: None,
        }
    }

    fn one_member() -> StoredGroup {
        StoredGroup {
            protocol_type: "consumer".to_owned(),
            generation: 1,
            protocol: Some("range".to_owned()),
            leader: Some("m".to_owned()),
            state_timestamp: T,
            members: vec![StoredMember {
                id: "m".to_owned(),
                instance_id: None,
                client_id: "c".to_owned(),
                client_host: "/127.0.0.1".to_owned(),
                session_timeout_ms: 45_000,
                rebalance_timeout_ms: 300_000,
                subscription: Bytes::from_static(&[1]),
                assignment: Bytes::new(),
            }],
        }
    }

    /// The bytes that Kafka 3.9's own classes make of the same values.
    #[test]
    fn records_are_kafkas_own_bytes() {
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 3);
        assert_eq!(hex(&offset_key("g", &partition).unwrap()), "000100016700017400000003");
        assert_eq!(
            hex(&offset_value(&committed(), LATEST).unwrap()),
            "0003000000000000002affffffff00000000018bcfe56800"
        );
        assert_eq!(hex(&group_key("g").unwrap()), "0002000167");
        let empty =
            StoredGroup { generation: 2, protocol: None, leader: None, members: Vec::new(), ..one_member() };
        assert_eq!(
            hex(&group_value(&empty, LATEST).unwrap()),
            "00030008636f6e73756d657200000002ffffffff0000018bcfe5680000000000"
        );
        assert_eq!(
            hex(&group_value(&one_member(), LATEST).unwrap()),
            "00030008636f6e73756d657200000001000572616e676500016d0000018bcfe568000000000100016dffff000163\
             000a2f3132372e302e302e31000493e00000afc8000000010100000000"
        );
    }

    #[test]
    fn values_come_back_as_far_as_their_version_can_tell() {
        let (key, group_key) = {
            let partition = TopicPartition::new(TopicName::new("t").unwrap(), 3);
            (offset_key("g", &partition).unwrap(), group_key("g").unwrap())
        };
        let precise = CommittedOffset {
            leader_epoch: Some(LeaderEpoch(7)),
            metadata: "note".to_owned(),
            ..committed()
        };
        let until = CommittedOffset { expires_at: Some(Timestamp(5)), ..precise.clone() };
        let vague = CommittedOffset { leader_epoch: None, ..precise.clone() };
        for (why, version, written, read) in [
            ("version 3 tells the epoch", 3, &precise, &precise),
            ("version 2 does not", 2, &precise, &vague),
            ("version 1 neither", 1, &precise, &vague),
            (
                "a time to expire takes version 1",
                3,
                &until,
                &CommittedOffset { leader_epoch: None, ..until.clone() },
            ),
        ] {
            let value = offset_value(written, RecordVersions { offset: version, group: 3 }).unwrap();
            let Ok(Record::Offset { committed, .. }) = Record::decode(Some(&key), Some(&value)) else {
                panic!("{why}")
            };
            assert_eq!(committed.as_ref(), Some(read), "{why}");
        }
        let mut member = one_member();
        member.members[0].instance_id = Some("i".to_owned());
        for version in 0..=3 {
            let value = group_value(&member, RecordVersions { offset: 3, group: version }).unwrap();
            let Ok(Record::Group { stored: Some(stored), .. }) =
                Record::decode(Some(&group_key), Some(&value))
            else {
                panic!("version {version}")
            };
            let [read] = &stored.members[..] else { panic!("version {version}") };
            assert_eq!(read.instance_id.is_some(), version >= 3, "version {version}");
            assert_eq!(read.rebalance_timeout_ms, if version == 0 { 45_000 } else { 300_000 });
            assert_eq!(stored.state_timestamp, if version >= 2 { T } else { Timestamp::NONE });
        }
    }

    #[test]
    fn what_is_no_record_of_ours_is_told_apart_and_never_fatal() {
        let key = |bytes: &'static [u8]| Record::decode(Some(bytes), Some(&[0]));
        assert_eq!(Record::decode(None, None), Err(RecordFault::NoKey));
        assert!(matches!(key(&[]), Err(RecordFault::Key(_))));
        assert!(matches!(key(&[0, 1, 0, 9]), Err(RecordFault::Key(_))));
        assert!(matches!(key(&[0, 2, 0, 1, b'g']), Err(RecordFault::Value(_))), "a value of one byte");
        assert_eq!(key(&[0, 3, 0, 1, b'g']), Ok(Record::Other { key_version: 3 }));
        let tombstone = Record::decode(Some(&[0, 2, 0, 1, b'g']), None);
        assert_eq!(tombstone, Ok(Record::Group { group: Str::from("g"), stored: None }));
    }
}
