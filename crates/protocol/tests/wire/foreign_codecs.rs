//! Our codec against independent ones, byte for byte, on random messages of every version that both know.
//!
//! A message is written by [`any_message`], which shares no code with either. Each codec must read it and write the same
//! bytes again; and when both move it to another version, defaults, ignorable fields and nulls included, they must agree.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use ottla_protocol::EncodeError;

use crate::all_messages::{Role, Row, TranscodeError, all_messages};
use crate::any_message::{Random, UnknownTags, any_message, schemas_by_message};

/// Random messages for each version; `PROTOCOL_ROUNDS` asks for more.
fn rounds() -> u64 {
    match std::env::var("PROTOCOL_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("PROTOCOL_ROUNDS is a number"),
        Err(_) => 25,
    }
}

/// Decodes in the first version and encodes in the second; `None` if the codec lacks the message or a version.
type Transcode = fn(&Row, &Bytes, i16, i16) -> Option<Result<BytesMut, String>>;

macro_rules! foreign {
    ($function:ident, $codec:ident) => {
        fn $function(row: &Row, bytes: &Bytes, from: i16, to: i16) -> Option<Result<BytesMut, String>> {
            use $codec::messages::{ApiKey, RequestHeader, RequestKind, ResponseHeader, ResponseKind};
            use $codec::messages::{
                ConsumerProtocolAssignment, ConsumerProtocolSubscription, DefaultPrincipalData,
            };
            use $codec::protocol::{Decodable, Encodable, Message};

            fn data<M: Message + Decodable + Encodable>(
                bytes: &Bytes,
                from: i16,
                to: i16,
            ) -> Option<Result<BytesMut, String>> {
                let known = |version| M::VERSIONS.min <= version && version <= M::VERSIONS.max;
                let whole = |message: &M, out: &mut BytesMut| message.encode(out, to);
                (known(from) && known(to)).then(|| through(bytes, |rest| M::decode(rest, from), whole))
            }

            let api = |key: ottla_protocol::ApiKey| {
                let key = ApiKey::try_from(key as i16).ok()?;
                let known = key.valid_versions();
                [from, to].iter().all(|version| known.min <= *version && *version <= known.max).then_some(key)
            };
            match (row.role, row.name) {
                (Role::Request(key), _) => {
                    let key = api(key)?;
                    let encode = |message: &RequestKind, out: &mut BytesMut| message.encode(out, to);
                    Some(through(bytes, |rest| RequestKind::decode(key, rest, from), encode))
                }
                (Role::Response(key), _) => {
                    let key = api(key)?;
                    let encode = |message: &ResponseKind, out: &mut BytesMut| message.encode(out, to);
                    Some(through(bytes, |rest| ResponseKind::decode(key, rest, from), encode))
                }
                (Role::Data, "RequestHeader") => data::<RequestHeader>(bytes, from, to),
                (Role::Data, "ResponseHeader") => data::<ResponseHeader>(bytes, from, to),
                (Role::Data, "ConsumerProtocolAssignment") => {
                    data::<ConsumerProtocolAssignment>(bytes, from, to)
                }
                (Role::Data, "ConsumerProtocolSubscription") => {
                    data::<ConsumerProtocolSubscription>(bytes, from, to)
                }
                (Role::Data, "DefaultPrincipalData") => data::<DefaultPrincipalData>(bytes, from, to),
                (Role::Data, _) => None,
            }
        }
    };
}

/// Decodes all of the bytes and encodes the message again, by another codec's functions.
fn through<M, E: std::fmt::Display>(
    bytes: &Bytes,
    decode: impl FnOnce(&mut Bytes) -> Result<M, E>,
    encode: impl FnOnce(&M, &mut BytesMut) -> Result<(), E>,
) -> Result<BytesMut, String> {
    let mut rest = bytes.clone();
    let message = decode(&mut rest).map_err(|error| format!("decode: {error}"))?;
    if !rest.is_empty() {
        return Err(format!("{} bytes left over", rest.len()));
    }
    let mut out = BytesMut::new();
    encode(&message, &mut out).map_err(|error| format!("encode: {error}"))?;
    Ok(out)
}

foreign!(transcode_0_15, kafka_protocol_0_15);
foreign!(transcode_0_18, kafka_protocol_0_18);

/// Versions that 0.18.0 announces, but does not read.
fn is_announced_only(row: &Row, version: i16) -> bool {
    let first = match row.name {
        "InitProducerIdRequest" => 6,
        "OffsetCommitRequest" | "OffsetFetchRequest" => 10,
        _ => return false,
    };
    version >= first
}

fn transcode_0_18_but_announced_only(
    row: &Row,
    bytes: &Bytes,
    from: i16,
    to: i16,
) -> Option<Result<BytesMut, String>> {
    if is_announced_only(row, from) || is_announced_only(row, to) {
        return None;
    }
    transcode_0_18(row, bytes, from, to)
}

/// Tagged fields that the foreign codecs drop without a word in versions that lack them. The schema does not call them
/// ignorable, so Kafka refuses to, and so do we.
const DROPPED_BY_OTHERS: [(&str, &str); 8] = [
    ("FetchRequest", "replica_state"),
    ("FetchResponse", "node_endpoints"),
    ("PartitionData", "current_leader"),
    ("PartitionData", "diverging_epoch"),
    ("PartitionData", "snapshot_id"),
    ("PartitionProduceResponse", "current_leader"),
    ("ProduceResponse", "node_endpoints"),
    ("UpdateMetadataRequest", "request_type"),
];

const CODECS: [(&str, Transcode); 2] =
    [("0.15.1", transcode_0_15), ("0.18.0", transcode_0_18_but_announced_only)];

/// Failures by message, version and what went wrong, with an example and how often.
#[derive(Default)]
struct Findings(BTreeMap<String, (String, usize)>);

impl Findings {
    fn add(&mut self, what: String, example: impl FnOnce() -> String) {
        self.0.entry(what).or_insert_with(|| (example(), 0)).1 += 1;
    }

    fn report(self) {
        let lines: Vec<String> = self
            .0
            .into_iter()
            .map(|(what, (example, times))| format!("{what} ({times} times)\n    {example}"))
            .collect();
        assert!(lines.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_message_comes_back_byte_for_byte() {
    let schemas = schemas_by_message();
    let mut findings = Findings::default();
    for row in all_messages() {
        let (schema, index) = &schemas[row.name];
        for version in row.versions.clone() {
            for round in 0..rounds() {
                let mut random = Random::of(row.name, version, round);
                let bytes = any_message(schema, *index, version, &mut random, UnknownTags::Between);
                match (row.transcode)(bytes.clone().into(), version, version) {
                    Ok(again) if again == bytes => {}
                    other => findings.add(format!("{} v{version}", row.name), || {
                        format!("{}\n    {other:02x?}", hex(&bytes))
                    }),
                }
            }
        }
    }
    findings.report();
}

#[test]
fn foreign_codecs_read_and_write_the_same_bytes() {
    let schemas = schemas_by_message();
    let mut findings = Findings::default();
    for row in all_messages() {
        let (schema, index) = &schemas[row.name];
        for version in row.versions.clone() {
            for round in 0..rounds() {
                let mut random = Random::of(row.name, version, round);
                let bytes =
                    Bytes::from(any_message(schema, *index, version, &mut random, UnknownTags::Above));
                for (codec, transcode) in CODECS {
                    match transcode(&row, &bytes, version, version) {
                        None => {}
                        Some(Ok(again)) if again == bytes => {}
                        Some(other) => findings.add(format!("{} v{version} in {codec}", row.name), || {
                            format!("{}\n    {:?}", hex(&bytes), other.map(|again| hex(&again)))
                        }),
                    }
                }
            }
        }
    }
    findings.report();
}

#[test]
fn foreign_codecs_agree_on_moving_a_message_to_another_version() {
    let schemas = schemas_by_message();
    let mut findings = Findings::default();
    for row in all_messages() {
        let (schema, index) = &schemas[row.name];
        for from in row.versions.clone() {
            for to in row.versions.clone().filter(|to| *to != from) {
                for round in 0..rounds().div_ceil(5) {
                    let mut random = Random::of(row.name, from, round);
                    let bytes =
                        Bytes::from(any_message(schema, *index, from, &mut random, UnknownTags::None));
                    let ours = (row.transcode)(bytes.clone(), from, to);
                    for (codec, transcode) in CODECS {
                        let Some(theirs) = transcode(&row, &bytes, from, to) else { continue };
                        let agree = match (&ours, &theirs) {
                            (Ok(ours), Ok(theirs)) => ours == theirs,
                            (Err(TranscodeError::Encode(_)), Err(_)) => true,
                            // The foreign codecs take nulls in every version, as Kafka does not.
                            (Err(TranscodeError::Encode(EncodeError::NullNotInVersion { .. })), Ok(_)) => {
                                true
                            }
                            (
                                Err(TranscodeError::Encode(EncodeError::FieldNotInVersion {
                                    structure,
                                    field,
                                    ..
                                })),
                                Ok(_),
                            ) => DROPPED_BY_OTHERS.contains(&(structure, field)),
                            _ => false,
                        };
                        if !agree {
                            findings.add(format!("{} v{from} as v{to} in {codec}", row.name), || {
                                format!("{}\n    {:?}\n    {theirs:?}", hex(&bytes), ours)
                            });
                        }
                    }
                }
            }
        }
    }
    findings.report();
}
