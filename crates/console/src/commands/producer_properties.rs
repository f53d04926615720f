//! Settings of a producer by Kafka's names.

use std::time::Duration;

use ottla_client::{Acks, ProducerOptions};
use ottla_protocol::compression::{Codec, Compression};

use super::client_properties::{ClientProperties, PropertyError};

/// Takes what is given; the rest stays as it is.
pub fn apply(given: &ClientProperties, producer: &mut ProducerOptions) -> Result<(), PropertyError> {
    let durations = [
        ("request.timeout.ms", &mut producer.request_timeout),
        ("delivery.timeout.ms", &mut producer.delivery_timeout),
        ("max.block.ms", &mut producer.block_max),
        ("linger.ms", &mut producer.linger),
    ];
    for (name, duration) in durations {
        if let Some(ms) = given.number(name)? {
            *duration = Duration::from_millis(ms);
        }
    }
    let sizes = [
        ("buffer.memory", &mut producer.memory_bytes_max),
        ("max.request.size", &mut producer.request_bytes_max),
        ("batch.size", &mut producer.batch_bytes),
        ("max.in.flight.requests.per.connection", &mut producer.in_flight_max),
    ];
    for (name, size) in sizes {
        if let Some(number) = given.number(name)? {
            *size = usize::try_from(number).unwrap_or(usize::MAX);
        }
    }
    let acks = [("all", Acks::All), ("-1", Acks::All), ("0", Acks::None), ("1", Acks::Leader)];
    if let Some(acks) = given.choice("acks", "String must be one of: all, -1, 0, 1", &acks)? {
        producer.acks = acks;
    }
    if let Some(idempotence) = given.boolean("enable.idempotence")? {
        producer.idempotence = Some(idempotence);
    }
    let codecs = Codec::ALL.map(|codec| (codec.name(), codec));
    let expected = "String must be one of: none, gzip, snappy, lz4, zstd";
    if let Some(codec) = given.choice("compression.type", expected, &codecs)? {
        producer.compression = Compression::from(codec);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(pairs: &[&str]) -> Result<ProducerOptions, String> {
        let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        let given = ClientProperties::new(None, &pairs).unwrap();
        let mut producer = ProducerOptions::default();
        apply(&given, &mut producer).map_err(|error| error.to_string())?;
        assert_eq!(given.unused().count(), 0, "{pairs:?} mean something");
        Ok(producer)
    }

    #[test]
    fn settings_are_taken_by_kafkas_names() {
        let producer =
            applied(&["acks=1", "linger.ms=7", "batch.size=100", "compression.type=zstd"]).unwrap();
        assert!(matches!(producer.acks, Acks::Leader));
        assert_eq!((producer.linger, producer.batch_bytes), (Duration::from_millis(7), 100));
    }

    #[test]
    fn values_that_do_not_exist_are_refused_in_kafkas_words() {
        for (pair, words) in [
            ("acks=7", "Invalid value 7 for configuration acks: String must be one of: all, -1, 0, 1"),
            (
                "compression.type=rar",
                "Invalid value rar for configuration compression.type: String must be one of: none, gzip, snappy, lz4, zstd",
            ),
        ] {
            assert_eq!(applied(&[pair]).unwrap_err(), words);
        }
    }
}
