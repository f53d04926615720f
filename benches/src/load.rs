//! Load whose own cost is next to nothing: requests are encoded once and replayed.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::wire::{self, BATCH_HEADER, Client};

/// Messages and payload bytes that went through, and in what time.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    pub messages: u64,
    pub payload_bytes: u64,
    pub seconds: f64,
}

#[derive(Debug, Clone)]
pub struct Produce {
    pub topic: String,
    pub partitions: i32,
    /// Bytes of a record's value.
    pub size: usize,
    /// Bytes of a batch, about; at least one record.
    pub batch_bytes: usize,
    pub in_flight: usize,
    pub connections: i32,
    /// -1 is all.
    pub acks: i16,
    pub seconds: f64,
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::other(what.to_string())
}

/// Produce v3 requests of one batch each, `in_flight` deep on every connection.
pub fn produce(broker: SocketAddr, load: &Produce) -> io::Result<Moved> {
    let per_batch = (load.batch_bytes / (load.size + 8)).max(1);
    let value: Vec<u8> = (0..load.size).map(|at| (at as u8).wrapping_mul(31) ^ 0x5a).collect();
    let batch = wire::batch(vec![&value[..]; per_batch].into_iter(), now_ms());
    let start = Instant::now();
    let until = start + Duration::from_secs_f64(load.seconds);
    let replay = |connection: i32| -> io::Result<u64> {
        let frame = wire::produce(&load.topic, connection % load.partitions, load.acks, &batch);
        let mut client = Client::connect(broker)?;
        let (mut open, mut done) = (0, 0);
        loop {
            while open < load.in_flight && Instant::now() < until {
                client.send(&frame)?;
                open += 1;
            }
            if open == 0 {
                return Ok(done);
            }
            match wire::produce_error(client.receive()?) {
                Some(0) => done += 1,
                Some(code) => return Err(broken(format_args!("a produce was refused with code {code}"))),
                None => return Err(broken("an answer too short")),
            }
            open -= 1;
        }
    };
    let batches = in_threads(load.connections, replay)?;
    let messages = batches * per_batch as u64;
    let payload_bytes = messages * load.size as u64;
    Ok(Moved { messages, payload_bytes, seconds: start.elapsed().as_secs_f64() })
}

/// Fetch v4 from the first offset to the high watermark, a connection for each partition.
pub fn fetch(
    broker: SocketAddr,
    topic: &str,
    partitions: i32,
    bytes_max: i32,
    size: usize,
) -> io::Result<Moved> {
    let start = Instant::now();
    let read = |partition: i32| -> io::Result<u64> {
        let mut client = Client::connect(broker)?;
        let (mut offset, mut messages) = (0, 0);
        loop {
            let answer = client.call(&wire::fetch(topic, partition, offset, 500, bytes_max))?;
            let fetched = wire::fetched(answer).ok_or_else(|| broken("an answer too short"))?;
            if fetched.error != 0 {
                return Err(broken(format_args!("a fetch was refused with code {}", fetched.error)));
            }
            let before = offset;
            for (base_offset, count, _) in wire::batches(fetched.records) {
                messages += count as u64;
                offset = base_offset + i64::from(count);
            }
            if offset >= fetched.high_watermark {
                return Ok(messages);
            }
            if offset == before {
                return Err(broken(format_args!("no progress at offset {offset}")));
            }
        }
    };
    let messages = in_threads(partitions, read)?;
    Ok(Moved { messages, payload_bytes: messages * size as u64, seconds: start.elapsed().as_secs_f64() })
}

fn in_threads(count: i32, work: impl Fn(i32) -> io::Result<u64> + Sync) -> io::Result<u64> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                scope.spawn({
                    let work = &work;
                    move || work(index)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(broken("a load thread panicked"))))
            .sum()
    })
}

/// End-to-end times in microseconds, ascending.
#[derive(Debug)]
pub struct Latency(Vec<f64>);

impl Latency {
    pub fn quantile(&self, share: f64) -> f64 {
        let at = ((self.0.len() as f64 * share) as usize).min(self.0.len().saturating_sub(1));
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// Messages not counted: the first ones pay for connections and cold caches.
const WARM_UP: usize = 500;

/// One record a request at a steady rate, acks=all, read by a consumer in a long poll of 500 ms.
///
/// A message's time counts from when it was *due*, so a broker that stalls the producer does not hide it.
pub fn latency(broker: SocketAddr, topic: &str, size: usize, rate: f64, seconds: f64) -> io::Result<Latency> {
    let total = WARM_UP + (rate * seconds) as usize;
    thread::scope(|scope| {
        let consumer = scope.spawn(|| consume_timed(broker, topic, total));
        produce_timed(broker, topic, size, rate, total)?;
        consumer.join().unwrap_or_else(|_| Err(broken("the consumer panicked")))
    })
}

/// Nanoseconds since the first call, the same for all threads.
fn clock_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn produce_timed(broker: SocketAddr, topic: &str, size: usize, rate: f64, total: usize) -> io::Result<()> {
    // The kernel may otherwise add 50 us to every sleep.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
    let mut client = Client::connect(broker)?;
    let mut value = vec![b'x'; size.max(8)];
    let start = clock_ns() + 200_000_000; // by when the consumer is in its long poll
    for index in 0..total {
        let due = start + (index as f64 * 1e9 / rate) as u64;
        thread::sleep(Duration::from_nanos(due.saturating_sub(clock_ns())));
        value[..8].copy_from_slice(&due.to_be_bytes());
        let batch = wire::batch([&value[..]].into_iter(), now_ms());
        if wire::produce_error(client.call(&wire::produce(topic, 0, -1, &batch))?) != Some(0) {
            return Err(broken("a produce was refused"));
        }
    }
    Ok(())
}

fn consume_timed(broker: SocketAddr, topic: &str, total: usize) -> io::Result<Latency> {
    let mut client = Client::connect(broker)?;
    let (mut offset, mut seen) = (0, 0);
    let mut times = Vec::with_capacity(total);
    while seen < total {
        let answer = client.call(&wire::fetch(topic, 0, offset, 500, 1 << 20))?;
        let now = clock_ns();
        let fetched = wire::fetched(answer).ok_or_else(|| broken("an answer too short"))?;
        if fetched.error != 0 {
            return Err(broken(format_args!("a fetch was refused with code {}", fetched.error)));
        }
        for (base_offset, count, batch) in wire::batches(fetched.records) {
            let due = value_of_first_record(batch).and_then(|value| value.get(..8)?.try_into().ok());
            let due = due.map(u64::from_be_bytes).ok_or_else(|| broken("a record that was not sent"))?;
            seen += 1;
            if seen > WARM_UP {
                times.push(now.saturating_sub(due) as f64 / 1e3);
            }
            offset = base_offset + i64::from(count);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(Latency(times))
}

/// Of a batch as [`wire::batch`] writes it.
fn value_of_first_record(batch: &[u8]) -> Option<&[u8]> {
    let mut rest = batch.get(BATCH_HEADER..)?;
    let mut varint = || {
        let len = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let value = rest[..len].iter().rev().fold(0u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
        rest = &rest[len..];
        Some(value >> 1)
    };
    varint()?; // length
    varint()?; // attributes: a byte that is 0
    varint()?; // timestamp delta
    varint()?; // offset delta
    varint()?; // key length
    let len = varint()? as usize;
    rest.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        for size in [8, 63, 64, 100, 1024, 70_000] {
            let value: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let batch = wire::batch([&value[..]].into_iter(), 1_700_000_000_000);
            assert_eq!(value_of_first_record(&batch), Some(&value[..]), "{size} bytes");
            let all: Vec<_> = wire::batches(&batch).collect();
            assert_eq!(all, [(0, 1, &batch[..])]);
        }
    }
}
