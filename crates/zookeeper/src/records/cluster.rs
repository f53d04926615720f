//! `/cluster/id`.

use serde::{Deserialize, Serialize};

use super::{DecodeError, decode_json, encode_json};

/// The id that every broker of a cluster carries, in ZooKeeper and in `meta.properties`.
///
/// Made as 22 characters of base64, but compared as text: other tools have made others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterId(pub String);

impl ClusterId {
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&Written { version: "1", id: &self.0 })
    }

    pub fn decode(bytes: &[u8]) -> Result<ClusterId, DecodeError> {
        let read: Read = decode_json("cluster id", bytes)?;
        Ok(ClusterId(read.id))
    }
}

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Serialize)]
struct Written<'a> {
    version: &'a str,
    id: &'a str,
}

#[derive(Deserialize)]
struct Read {
    id: String,
}
