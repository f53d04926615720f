//! `/feature`: the features a cluster has agreed on. The epoch of the agreement is the znode's version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DecodeError, decode_json, encode_json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureStatus {
    Disabled = 0,
    Enabled = 1,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureRecord {
    pub status: FeatureStatus,
    /// Level by feature.
    pub features: BTreeMap<String, i16>,
}

impl FeatureRecord {
    /// Version 2 is for `inter.broker.protocol.version` 3.3-IV0 and above, version 1 for those below.
    pub fn encode(&self, version_2: bool) -> Vec<u8> {
        let features = self.features.iter().map(|(name, level)| {
            let min_version_level = (!version_2).then_some(1);
            (name.clone(), Level { max_version_level: *level, min_version_level })
        });
        encode_json(&Written {
            features: features.collect(),
            version: if version_2 { 2 } else { 1 },
            status: self.status as i32,
        })
    }

    pub fn decode(bytes: &[u8]) -> Result<FeatureRecord, DecodeError> {
        const RECORD: &str = "feature agreement";
        let read: Read = decode_json(RECORD, bytes)?;
        let status = match read.status {
            0 => FeatureStatus::Disabled,
            1 => FeatureStatus::Enabled,
            other => return Err(DecodeError { record: RECORD, detail: format!("status {other}") }),
        };
        let features = read.features.unwrap_or_default();
        let levels = features.into_iter().map(|(name, level)| (name, level.max_version_level));
        Ok(FeatureRecord { status, features: levels.collect() })
    }
}

#[derive(Serialize)]
struct Written {
    features: BTreeMap<String, Level>,
    version: i32,
    status: i32,
}

#[derive(Deserialize)]
struct Read {
    status: i32,
    features: Option<BTreeMap<String, Level>>,
}

#[derive(Serialize, Deserialize)]
struct Level {
    max_version_level: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_version_level: Option<i16>,
}
