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
