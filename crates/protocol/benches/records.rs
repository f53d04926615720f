//! What validation of produced records costs: `cargo bench -p ottla-protocol`. Under `cargo test` each case runs once.
//!
//! ```text
//! crc          CRC-32C of the batch alone, the floor
//! validate     what a leader does: frame, crc, every record against the topic's rules
//! iterate      what a reader does: every record with key, value and headers
//! ```
//!
//! Rates are of the batch's uncompressed bytes. An idle machine gives steady figures, a busy one does not: compare
//! within one run.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_model::{LeaderEpoch, Offset, Timestamp};
use ottla_protocol::compression::{Codec, Compression};
use ottla_protocol::records::validate::{AppendOrigin, TargetCompression, TopicRules, validate};
use ottla_protocol::records::{Batch, BatchBuilder};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let time = if full { Duration::from_millis(400) } else { Duration::ZERO };
    for size in [16 << 10, 1 << 20] {
        for codec in Codec::ALL {
            let (batch, plain) = batch(codec, size);
            let name = format!("{:>4} KiB {codec:<6}", size >> 10);
            let records = Batch::parse(&batch).expect("built here").expect("whole").header().record_count;
            let report = |what: &str, work: &mut dyn FnMut()| {
                let seconds = measure(time, work);
                println!(
                    "{name} {what:<8} {:8.2} GB/s {:8.1} ns a record",
                    plain as f64 / seconds / 1e9,
                    seconds * 1e9 / f64::from(records),
                );
            };
            report("crc", &mut || {
                let batch = Batch::parse(&batch).expect("built here").expect("whole");
                black_box(&batch).check_crc().expect("sealed");
            });
            report("validate", &mut || {
                let valid = validate(black_box(&batch), AppendOrigin::Client, &rules(&batch), NOW);
                let valid = valid.expect("valid").expect("not empty");
                black_box(valid.assign(Offset(1 << 33), LeaderEpoch(5)));
            });
            report("iterate", &mut || {
                let batch = Batch::parse(black_box(&batch)).expect("built here").expect("whole");
                let records = batch.records(usize::MAX).expect("readable");
                for record in records.iter().expect("readable") {
                    black_box(record.expect("readable"));
                }
            });
        }
    }
    let (batch, plain) = batch(Codec::Lz4, 1 << 20);
    let to_zstd =
        TopicRules { compression: TargetCompression::Fixed(Compression::from(Codec::Zstd)), ..rules(&batch) };
    let seconds = measure(time, &mut || {
        black_box(validate(black_box(&batch), AppendOrigin::Client, &to_zstd, NOW).expect("valid"));
    });
    println!("1024 KiB lz4 to zstd       {:8.2} GB/s", plain as f64 / seconds / 1e9);
}

fn rules(batch: &Bytes) -> TopicRules {
    TopicRules { message_bytes_max: batch.len().max(1 << 21), ..TopicRules::default() }
}

/// Records with values of 100 bytes that compress as text does, and the bytes of the batch before compression.
fn batch(codec: Codec, size: usize) -> (Bytes, usize) {
    let mut builder = BatchBuilder::new().with_compression(codec);
    let mut at = 0u64;
    while builder.size() < size - 120 {
        let value =
            format!("{{\"id\":{at},\"user\":\"user-{}\",\"state\":\"{}\"}}", at * 7919 % 1000, at % 3);
        let value = format!("{value:.<100}");
        builder.append(Timestamp(NOW.0 + at as i64 / 10), None, Some(value.as_bytes()), &[]);
        at += 1;
    }
    let plain = builder.size();
    (builder.finish(), plain)
}

/// Seconds that one run takes: the best of many short spells, as everything that disturbs makes it slower.
fn measure(time: Duration, work: &mut dyn FnMut()) -> f64 {
    work();
    let (start, mut best, mut runs) = (Instant::now(), f64::INFINITY, 1u32);
    loop {
        let spell = Instant::now();
        for _ in 0..runs {
            work();
        }
        let took = spell.elapsed();
        best = best.min(took.as_secs_f64() / f64::from(runs));
        if took < Duration::from_millis(2) && !time.is_zero() {
            runs *= 2;
        }
        if start.elapsed() >= time {
            return best;
        }
    }
}
