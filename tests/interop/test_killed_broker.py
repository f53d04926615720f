"""kill -9 under load: what was acknowledged is there afterwards, in order and once."""

import signal

import pytest

from foreign import python_package
from servers import DEADLINE_SECONDS, eventually

python_package("confluent_kafka")

from confluent_kafka import Consumer, Producer, TopicPartition


@pytest.fixture
def broker(servers):
    return servers.broker(servers.zookeeper())


@pytest.mark.parametrize("end", [
    pytest.param(signal.SIGKILL, id="kill -9", marks=pytest.mark.apache_fails("it exits while the session of the killed broker is not over")),
    pytest.param(signal.SIGTERM, id="clean shutdown"),
])
def test_acknowledged_records_outlive_their_broker(broker, topic, end):
    acknowledged = []

    def answered(error, message):
        assert error is None, error
        acknowledged.append((message.offset(), int(message.value())))

    producer = Producer({
        "bootstrap.servers": broker.address, "enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 50,
        "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "compression.type": "lz4",
    })
    count, ends_at = 5_000, {1_500, 3_000}
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=answered)
        producer.poll(0)
        if number in ends_at:
            # Some of it is acknowledged, some on the way, some still in the client.
            eventually(lambda: producer.poll(0.001) and len(acknowledged) > number // 2, f"half of {number} are acknowledged")
            broker.process.send_signal(end)
            broker.process.wait(DEADLINE_SECONDS)
            broker.start()
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert [number for _, number in sorted(acknowledged)] == list(range(count)), "all are acknowledged, in order"

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "assigns-itself", "enable.auto.commit": False, "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = []
    while len(read) < count:
        messages = consumer.consume(count - len(read), DEADLINE_SECONDS)
        assert messages, f"only {len(read)} of {count} are there"
        read += [(message.offset(), int(message.value())) for message in messages]
    consumer.close()
    assert read == sorted(acknowledged), "what was acknowledged, at its offset, and nothing twice"
