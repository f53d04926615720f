//! Records of `__consumer_offsets` and `__transaction_state`, as Kafka's tool shows them.

use base64::Engine;
use bytes::Bytes;
use ottla_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, GroupMetadataKey, GroupMetadataValue,
    OffsetCommitKey, OffsetCommitValue, TransactionLogKey, TransactionLogValue,
};
use ottla_protocol::records::Record;
use ottla_protocol::{DecodeError, Decoder, Message, Str};
use serde::Serialize;
use serde_json::value::RawValue;

/// The versions of keys that classic groups have.
const OFFSET_KEY_MAX: i16 = 1;
const GROUP_KEY: i16 = 2;

/// A record of `__consumer_offsets`: its key, and its value if it can be told.
pub fn offsets_record(record: &Record<'_>) -> (String, Option<String>) {
    let offset = record.offset;
    let Some(key) = record.key else {
        return (format!("Error at offset {offset}, skipping. The record has no key."), None);
    };
    let shown = match version(key) {
        Some(0..=OFFSET_KEY_MAX) => offset_commit(key, record.value),
        Some(GROUP_KEY) => group_metadata(key, record.value),
        Some(other) => return (format!("Unknown record type {other} at offset {offset}, skipping."), None),
        None => return (format!("Error at offset {offset}, skipping. The key has no version."), None),
    };
    match shown {
        Ok((key, value)) => (key, Some(value.unwrap_or_else(|| "<DELETE>".to_owned()))),
        Err(error) => (format!("Error at offset {offset}, skipping. {error}"), None),
    }
}

/// A record of `__transaction_state`.
pub fn transaction_record(record: &Record<'_>) -> (String, Option<String>) {
    let key = record.key.unwrap_or_default();
    let offset = record.offset;
    match version(key) {
        Some(0) => {}
        Some(other) => return (format!("unknown::version={other}"), None),
        None => return (format!("Error at offset {offset}, skipping. The key has no version."), None),
    }
    let id = match decoded::<TransactionLogKey>(key) {
        Ok((_, key)) => key.transactional_id,
        Err(error) => return (format!("Error at offset {offset}, skipping. {error}"), None),
    };
    let value = match record.value.map(decoded::<TransactionLogValue>) {
        None => "<DELETE>".to_owned(),
        Some(Ok((_, value))) => transaction(&value),
        Some(Err(error)) => format!("unreadable: {error}"),
    };
    (format!("transaction_metadata::transactionalId={id}"), Some(value))
}

fn transaction(value: &TransactionLogValue) -> String {
    const STATES: [&str; 8] = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ];
    let state =
        usize::try_from(value.transaction_status).ok().and_then(|at| STATES.get(at)).unwrap_or(&"Unknown");
    let topics = value.transaction_partitions.iter().flatten();
    let partitions: Vec<String> = topics
        .flat_map(|topic| topic.partition_ids.iter().map(move |number| format!("{}-{number}", topic.topic)))
        .collect();
    format!(
        "producerId:{},producerEpoch:{},state={state},partitions=[{}],txnLastUpdateTimestamp={},txnTimeoutMs={}",
        value.producer_id,
        value.producer_epoch,
        partitions.join(","),
        value.transaction_last_update_timestamp_ms,
        value.transaction_timeout_ms,
    )
}

/// Keys and values of coordinators have their version in front.
fn version(bytes: &[u8]) -> Option<i16> {
    bytes.first_chunk().map(|version| i16::from_be_bytes(*version))
}

fn decoded<M: Message>(bytes: &[u8]) -> Result<(i16, M), DecodeError> {
    let mut decoder = Decoder::new(Bytes::copy_from_slice(bytes));
    let version = decoder.int16()?;
    Ok((version, M::decode(&mut decoder, version)?))
}

type Shown = Result<(String, Option<String>), Box<dyn std::error::Error>>;

#[derive(Serialize)]
struct Typed<T> {
    #[serde(rename = "type")]
    kind: String,
    data: T,
}

#[derive(Serialize)]
struct Versioned<T> {
    version: String,
    data: T,
}

#[derive(Serialize)]
struct OffsetKey<'a> {
    group: &'a str,
    topic: &'a str,
    partition: i32,
}

/// Fields that a version does not have are left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommittedOffset<'a> {
    offset: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader_epoch: Option<i32>,
    metadata: &'a str,
    commit_timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_timestamp: Option<i64>,
}

fn offset_commit(key: &[u8], value: Option<&[u8]>) -> Shown {
    let (kind, key) = decoded::<OffsetCommitKey>(key)?;
    let data = OffsetKey { group: &key.group, topic: &key.topic, partition: key.partition };
    let key = serde_json::to_string(&Typed { kind: kind.to_string(), data })?;
    let Some(value) = value else { return Ok((key, None)) };
    let (version, value) = decoded::<OffsetCommitValue>(value)?;
    let data = CommittedOffset {
        offset: value.offset,
        leader_epoch: (version >= 3).then_some(value.leader_epoch),
        metadata: &value.metadata,
        commit_timestamp: value.commit_timestamp,
        expire_timestamp: (version == 1).then_some(value.expire_timestamp),
    };
    Ok((key, Some(serde_json::to_string(&Versioned { version: version.to_string(), data })?)))
}

#[derive(Serialize)]
struct GroupKey<'a> {
    group: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Group<'a> {
    protocol_type: &'a str,
    generation: i32,
    protocol: Option<&'a str>,
    leader: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_state_timestamp: Option<i64>,
    members: Vec<Member<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member<'a> {
    member_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_instance_id: Option<Option<&'a str>>,
    client_id: &'a str,
    client_host: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rebalance_timeout: Option<i32>,
    session_timeout: i32,
    subscription: Box<RawValue>,
    assignment: Box<RawValue>,
}

fn group_metadata(key: &[u8], value: Option<&[u8]>) -> Shown {
    let (kind, key) = decoded::<GroupMetadataKey>(key)?;
    let key = serde_json::to_string(&Typed { kind: kind.to_string(), data: GroupKey { group: &key.group } })?;
    let Some(value) = value else { return Ok((key, None)) };
    let (version, value) = decoded::<GroupMetadataValue>(value)?;
    let consumers = &*value.protocol_type == "consumer";
    let mut members = Vec::with_capacity(value.members.len());
    for member in &value.members {
        let (subscription, assignment) = if consumers {
            (subscription(&member.subscription)?, assignment(&member.assignment)?)
        } else {
            (encoded(&member.subscription)?, encoded(&member.assignment)?)
        };
        members.push(Member {
            member_id: &member.member_id,
            group_instance_id: (version >= 3).then_some(member.group_instance_id.as_deref()),
            client_id: &member.client_id,
            client_host: &member.client_host,
            rebalance_timeout: (version >= 1).then_some(member.rebalance_timeout),
            session_timeout: member.session_timeout,
            subscription,
            assignment,
        });
    }
    let data = Group {
        protocol_type: &value.protocol_type,
        generation: value.generation,
        protocol: value.protocol.as_deref(),
        leader: value.leader.as_deref(),
        current_state_timestamp: (version >= 2).then_some(value.current_state_timestamp),
        members,
    };
    Ok((key, Some(serde_json::to_string(&Versioned { version: version.to_string(), data })?)))
}

type Json = Result<Box<RawValue>, Box<dyn std::error::Error>>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Subscription<'a> {
    topics: Vec<&'a str>,
    user_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owned_partitions: Option<Vec<Partitions<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_id: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rack_id: Option<Option<&'a str>>,
}

#[derive(Serialize)]
struct Partitions<'a> {
    topic: &'a str,
    partitions: &'a [i32],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Assignment<'a> {
    assigned_partitions: Vec<Partitions<'a>>,
    user_data: Option<String>,
}

fn subscription(bytes: &[u8]) -> Json {
    let (version, subscription) = decoded::<ConsumerProtocolSubscription>(bytes)?;
    let owned = subscription
        .owned_partitions
        .iter()
        .map(|owned| Partitions { topic: &owned.topic, partitions: &owned.partitions });
    Ok(serde_json::value::to_raw_value(&Subscription {
        topics: subscription.topics.iter().map(Str::as_ref).collect(),
        user_data: subscription.user_data.as_deref().map(base64),
        owned_partitions: (version >= 1).then_some(owned.collect()),
        generation_id: (version >= 2).then_some(subscription.generation_id),
        rack_id: (version >= 3).then_some(subscription.rack_id.as_deref()),
    })?)
}

fn assignment(bytes: &[u8]) -> Json {
    // A member that has not been assigned anything has not even a version.
    if bytes.is_empty() {
        return encoded(bytes);
    }
    let (_, assignment) = decoded::<ConsumerProtocolAssignment>(bytes)?;
    let assigned = assignment
        .assigned_partitions
        .iter()
        .map(|assigned| Partitions { topic: &assigned.topic, partitions: &assigned.partitions });
    Ok(serde_json::value::to_raw_value(&Assignment {
        assigned_partitions: assigned.collect(),
        user_data: assignment.user_data.as_deref().map(base64),
    })?)
}

fn encoded(bytes: &[u8]) -> Json {
    Ok(serde_json::value::to_raw_value(&base64(bytes))?)
}

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
