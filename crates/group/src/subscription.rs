//! What the coordinator understands of the consumers' own protocol: the topics of a subscription.
//!
//! Subscription and assignment are the members' business, and bytes to us. But a group that still reads a topic must keep
//! its offsets of it, so the beginning of a subscription is looked at. Every version begins as version 0 does:
//!
//! ```text
//! version int16, topics []string, user data bytes, ...
//! ```

use std::collections::BTreeSet;

use bytes::Bytes;
use ottla_protocol::Decoder;

/// `protocol_type` of groups whose members speak it.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// The topics that a member subscribes to; `None` if the bytes are no subscription.
pub fn subscribed_topics(metadata: &Bytes) -> Option<BTreeSet<String>> {
    let mut decoder = Decoder::new(metadata.clone());
    let version = decoder.int16().ok()?;
    if version < 0 {
        return None;
    }
    let topics = decoder.array(false, 2, |decoder| decoder.string(false)).ok()?;
    Some(topics.iter().map(|topic| topic.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_from_every_version_and_from_nothing_else() {
        let two = |version: u8, rest: &[u8]| {
            let head = [0, version, 0, 0, 0, 2, 0, 1, b'a', 0, 2, b'b', b'c'];
            Bytes::from([&head[..], rest].concat())
        };
        let expected = Some(["a", "bc"].map(str::to_owned).into());
        for (why, bytes, topics) in [
            ("version 0", two(0, &[0xff, 0xff, 0xff, 0xff]), expected.clone()),
            ("a version that is not known yet", two(9, b"whatever follows"), expected),
            ("nobody subscribed", Bytes::from_static(&[0, 1, 0, 0, 0, 0]), Some(BTreeSet::new())),
            ("no bytes", Bytes::new(), None),
            ("a negative version", Bytes::from_static(&[0xff, 0xff, 0, 0, 0, 0]), None),
            ("cut", two(0, &[]).slice(..12), None),
            ("a count that cannot be", Bytes::from_static(&[0, 0, 0x7f, 0xff, 0xff, 0xff]), None),
            ("no text", Bytes::from_static(&[0, 0, 0, 0, 0, 1, 0, 1, 0xff]), None),
        ] {
            assert_eq!(subscribed_topics(&bytes), topics, "{why}");
        }
    }
}
