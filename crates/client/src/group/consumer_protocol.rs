//! What members of a group tell each other through the coordinator, which does not look at it.

use bytes::{Bytes, BytesMut};
use ottla_model::{TopicName, TopicPartition};
use ottla_protocol::messages::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition as OnTheWire,
};
use ottla_protocol::{DecodeError, Decoder, Encoder, Message, Str};

/// `protocol_type` of all consumers.
pub const PROTOCOL_TYPE: &str = "consumer";

/// What this client has to say fits into the first version, which every leader can read.
const VERSION: i16 = 0;

pub fn encode_subscription(topics: &[TopicName]) -> Bytes {
    let topics = topics.iter().map(|topic| Str::from(topic.as_str())).collect();
    encode(&ConsumerProtocolSubscription { topics, ..Default::default() })
}

/// Topics that a member wants. Names that no topic can have are passed over: nobody can read them.
pub fn decode_subscription(bytes: Bytes) -> Result<Vec<TopicName>, DecodeError> {
    let subscription: ConsumerProtocolSubscription = decode(bytes)?;
    Ok(subscription.topics.iter().filter_map(|topic| TopicName::new(topic).ok()).collect())
}

pub fn encode_assignment(partitions: &[TopicPartition]) -> Bytes {
    let mut topics: Vec<OnTheWire> = Vec::new();
    for partition in partitions {
        match topics.last_mut().filter(|topic| *topic.topic == *partition.topic.as_str()) {
            Some(topic) => topic.partitions.push(partition.partition),
            None => topics.push(OnTheWire {
                topic: Str::from(partition.topic.as_str()),
                partitions: vec![partition.partition],
            }),
        }
    }
    encode(&ConsumerProtocolAssignment { assigned_partitions: topics, ..Default::default() })
}

/// No bytes are what a member gets whom the leader left out.
pub fn decode_assignment(bytes: Bytes) -> Result<Vec<TopicPartition>, DecodeError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let assignment: ConsumerProtocolAssignment = decode(bytes)?;
    let mut partitions = Vec::new();
    for topic in &assignment.assigned_partitions {
        let Ok(name) = TopicName::new(&topic.topic) else { continue };
        partitions.extend(topic.partitions.iter().map(|number| TopicPartition::new(name.clone(), *number)));
    }
    Ok(partitions)
}

fn encode<M: Message>(message: &M) -> Bytes {
    let mut out = BytesMut::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.int16(VERSION);
    message.encode(&mut encoder, VERSION).expect("names of topics fit, and nothing else is in it");
    out.freeze()
}

/// Later versions add fields at the end, so the newest that is known is read from those that are not.
fn decode<M: Message>(bytes: Bytes) -> Result<M, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let version = decoder.int16()?;
    M::decode(&mut decoder, version.min(*M::VERSIONS.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_member_says_the_other_understands() {
        let topics: Vec<TopicName> = ["a", "b"].map(|topic| TopicName::new(topic).unwrap()).into();
        assert_eq!(decode_subscription(encode_subscription(&topics)), Ok(topics.clone()));
        let partitions = [(0, 0), (0, 2), (1, 5)].map(|(t, p)| TopicPartition::new(topics[t].clone(), p));
        assert_eq!(decode_assignment(encode_assignment(&partitions)), Ok(partitions.into()));
        assert_eq!(decode_assignment(Bytes::new()), Ok(Vec::new()));
        let later =
            [&[0, 9][..], &encode_subscription(&topics)[2..], &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 7]];
        assert_eq!(decode_subscription(later.concat().into()), Ok(topics));
        assert!(decode_assignment(Bytes::from_static(&[0, 0, 0, 0])).is_err());
    }
}
