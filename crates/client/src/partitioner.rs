//! Which partition a record goes to.

/// MurmurHash2, 32 bits, seed 0x9747b28c: what Kafka's clients hash keys with, so that all of them agree.
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k = (k ^ k >> 24).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        for (at, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// The partition of a key among `partitions`, leaderless ones included: the same key always goes to the same one.
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    assert!(partitions > 0, "a topic has at least one partition");
    (murmur2(key) & 0x7fff_ffff) as i32 % partitions
}

/// Where records without a key go: to one partition until `batch_size` bytes have gone there, then to another (KIP-794).
///
/// Whole batches instead of single records: a request for few large batches costs far less than one for many small.
#[derive(Debug, Clone)]
pub struct StickyPartition {
    partition: i32,
    bytes: usize,
    random: u64,
}

impl StickyPartition {
    /// `seed` chooses the first partition and all that follow.
    pub fn new(seed: u64) -> StickyPartition {
        // A xorshift generator must not start at zero.
        StickyPartition { partition: -1, bytes: 0, random: seed | 1 }
    }

    /// The partition of the next keyless record of `bytes` bytes. `available`: the partitions with a leader, ascending; when none has
    /// one, any of `partitions` will do, as the record waits for its leader anyhow.
    pub fn choose(&mut self, bytes: usize, batch_size: usize, available: &[i32], partitions: i32) -> i32 {
        let gone = self.partition >= partitions
            || !(available.is_empty() || available.binary_search(&self.partition).is_ok());
        if self.partition < 0 || gone || self.bytes >= batch_size {
            self.partition = self.another(available, partitions);
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.partition
    }

    fn another(&mut self, available: &[i32], partitions: i32) -> i32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let count = if available.is_empty() { partitions as usize } else { available.len() };
        let at = (self.random >> 16) as usize % count;
        available.get(at).copied().unwrap_or(at as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_in_the_java_client() {
        for (key, hash) in [
            (&b"21"[..], -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
            (b"", 275_646_681),
        ] {
            assert_eq!(murmur2(key) as i32, hash, "{:?}", key.escape_ascii().to_string());
        }
    }

    #[test]
    fn a_key_stays_with_its_partition() {
        for (key, partitions, partition) in [
            (&b"foobar"[..], 1, 0),
            (b"foobar", 10, ((-790_332_482i32) & 0x7fff_ffff) % 10),
            (b"abc", 3, 479_470_107 % 3),
        ] {
            assert_eq!(partition_for_key(key, partitions), partition);
        }
    }

    #[test]
    fn keyless_records_fill_a_batch_before_they_move_on() {
        let mut sticky = StickyPartition::new(7);
        let chosen: Vec<i32> = (0..1000).map(|_| sticky.choose(100, 1000, &[0, 1, 2, 3], 4)).collect();
        for batch in chosen.chunks(10) {
            assert!(
                batch.iter().all(|partition| *partition == batch[0]),
                "a batch stays together: {batch:?}"
            );
        }
        for partition in 0..4 {
            assert!(chosen.contains(&partition), "partition {partition} got its share");
        }
    }

    #[test]
    fn keyless_records_leave_a_partition_that_lost_its_leader() {
        let mut sticky = StickyPartition::new(7);
        let first = sticky.choose(1, 1000, &[0, 1, 2], 3);
        let others: Vec<i32> = (0..3).filter(|partition| *partition != first).collect();
        assert!(others.contains(&sticky.choose(1, 1000, &others, 3)));
    }

    #[test]
    fn without_any_leader_keyless_records_still_have_a_partition() {
        let partition = StickyPartition::new(3).choose(1, 10, &[], 6);
        assert!((0..6).contains(&partition));
    }
}
