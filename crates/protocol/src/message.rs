//! What every generated message can do.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::{ApiKey, DecodeError, Decoder, EncodeError, Encoder};

/// A message of the protocol, or of an internal topic, in every version that its schema names.
///
/// Fields hold bare wire values. A field that a version lacks decodes to the schema's default.
pub trait Message: Sized + Default + Clone + Debug + PartialEq {
    /// As Kafka calls it, such as `MetadataRequest`.
    const NAME: &'static str;

    /// The versions that can be decoded and encoded; which of them to announce is the broker's business.
    const VERSIONS: RangeInclusive<i16>;

    /// Whether the version has compact lengths and tagged fields (KIP-482).
    fn is_flexible(version: i16) -> bool;

    /// Reads one message and leaves the decoder behind it. Bytes that follow are no error, as for Kafka; see
    /// [`Decoder::finish`].
    fn decode(d: &mut Decoder, version: i16) -> Result<Self, DecodeError>;

    /// Appends the message. After an error the buffer holds a part of it, and the caller cuts that off or drops it.
    ///
    /// Fields that the version lacks are left out where the schema calls them ignorable, else they must have their default.
    fn encode(&self, out: &mut Encoder<'_>, version: i16) -> Result<(), EncodeError>;
}

/// The request of an API; [`ApiKey`] tells which header goes in front of it.
pub trait Request: Message {
    const KEY: ApiKey;

    type Response: Message;
}

/// Refuses a version that the schema does not know, before a byte is read by the wrong rules.
pub(crate) fn check_decode_version<M: Message>(version: i16) -> Result<(), DecodeError> {
    if M::VERSIONS.contains(&version) {
        return Ok(());
    }
    Err(DecodeError::UnsupportedVersion { message: M::NAME, version, supported: M::VERSIONS })
}

pub(crate) fn check_encode_version<M: Message>(version: i16) -> Result<(), EncodeError> {
    if M::VERSIONS.contains(&version) {
        return Ok(());
    }
    Err(EncodeError::UnsupportedVersion { message: M::NAME, version, supported: M::VERSIONS })
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};

    use super::*;
    use crate::messages::{FetchRequest, MetadataRequest, MetadataResponse};

    fn encode<M: Message>(message: &M, version: i16) -> Result<BytesMut, EncodeError> {
        let mut out = BytesMut::new();
        message.encode(&mut Encoder::new(&mut out), version).map(|()| out)
    }

    #[test]
    fn what_a_version_cannot_carry_is_refused_unless_it_may_be_ignored() {
        let absent =
            |field, version| EncodeError::FieldNotInVersion { structure: "MetadataRequest", field, version };
        let no_creation = MetadataRequest { allow_auto_topic_creation: false, ..Default::default() };
        assert_eq!(
            encode(&no_creation, 3),
            Err(absent("allow_auto_topic_creation", 3)),
            "it would be created after all"
        );
        assert!(encode(&no_creation, 4).is_ok());

        let throttled = MetadataResponse { throttle_time_ms: 9, ..Default::default() };
        assert_eq!(
            encode(&throttled, 2),
            encode(&MetadataResponse::default(), 2),
            "an old client need not know"
        );
        assert_ne!(encode(&throttled, 3), encode(&MetadataResponse::default(), 3));

        let tags = Decoder::new(Bytes::from_static(&[1, 5, 1, 0])).unknown_tagged_fields().unwrap();
        let tagged = MetadataRequest { unknown_tagged_fields: tags, ..Default::default() };
        assert!(encode(&tagged, 9).is_ok());
        assert_eq!(encode(&tagged, 8), Err(absent("unknown_tagged_fields", 8)));
    }

    #[test]
    fn known_and_unknown_tags_are_written_in_order() {
        let tags = Decoder::new(Bytes::from_static(&[2, 9, 0, 1, 1, 7])).unknown_tagged_fields().unwrap();
        let plain = encode(&FetchRequest::default(), 12).unwrap();
        let request =
            FetchRequest { cluster_id: Some("c".into()), unknown_tagged_fields: tags, ..Default::default() };
        let bytes = encode(&request, 12).unwrap();
        let (body, tags) = bytes.split_at(plain.len() - 1);
        assert_eq!(body, &plain[..plain.len() - 1]);
        assert_eq!(tags, [3, 0, 2, 2, b'c', 1, 1, 7, 9, 0], "0 is the cluster id; 1 is unknown before v15");
        assert_eq!(FetchRequest::decode(&mut Decoder::new(bytes.freeze()), 12), Ok(request));
    }

    #[test]
    fn versions_that_no_schema_knows_are_refused_both_ways() {
        for version in [-1, MetadataRequest::VERSIONS.end() + 1] {
            let read = MetadataRequest::decode(&mut Decoder::new(Bytes::from_static(&[0; 64])), version);
            assert!(matches!(read, Err(DecodeError::UnsupportedVersion { .. })), "v{version}");
            let written = encode(&MetadataRequest::default(), version);
            assert!(matches!(written, Err(EncodeError::UnsupportedVersion { .. })), "v{version}");
        }
    }
}
