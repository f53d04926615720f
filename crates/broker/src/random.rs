//! Random numbers for names and places. Not for secrets.

use std::hash::{BuildHasher, RandomState};

use ottla_model::Uuid;

/// The standard library seeds each hasher from the system's generator; hashing nothing gives its seed away.
fn half() -> u64 {
    RandomState::new().hash_one(0u8)
}

pub fn number() -> u128 {
    u128::from(half()) << 64 | u128::from(half())
}

/// A number from 0 to `end`, which is excluded; 0 if that is empty.
pub fn below(end: usize) -> usize {
    if end == 0 { 0 } else { (half() % end as u64) as usize }
}

/// An id for a fetch session: positive, and not to be guessed by somebody who looks at others.
pub fn session_id() -> i32 {
    (half() >> 33).max(1) as i32
}

/// A version 4 UUID as Java prints it, which ids of group members end in.
pub fn java_uuid() -> String {
    let bits = number() & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// A new topic or cluster id.
pub fn uuid() -> Uuid {
    loop {
        if let Some(id) = Uuid::from_random(number().to_be_bytes()) {
            return id;
        }
    }
}
