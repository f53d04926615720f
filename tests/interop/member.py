"""A member of a consumer group, as a process of its own: it can be killed, and tells what happens to it.

    member.py confluent-kafka|kafka-python BROKER GROUP TOPIC SETTINGS-AS-JSON

Prints one JSON list a line: ["assigned", time, partitions it owns now], ["revoked", time, partitions], ["read", time, partition, offset, value],
["committed", time, partition, offset]. Time is the machine's monotonic clock, the same for all processes. It commits what it has printed,
and leaves the group when its standard input ends.
"""

import json
import sys
import threading
import time

POLL_SECONDS = 0.1


def tell(event, *what):
    print(json.dumps([event, time.monotonic(), *what]), flush=True)


def input_ends():
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    return ended


def confluent_kafka(broker, group, topic, settings):
    from confluent_kafka import Consumer, KafkaException

    def owned(consumer):
        return sorted(partition.partition for partition in consumer.assignment())

    def assigned(consumer, partitions):
        if cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        tell("assigned", owned(consumer))

    def revoked(consumer, partitions):
        tell("revoked", sorted(partition.partition for partition in partitions))

    cooperative = settings.get("partition.assignment.strategy") == "cooperative-sticky"
    consumer = Consumer({
        "bootstrap.servers": broker, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
        "session.timeout.ms": 6_000, "heartbeat.interval.ms": 500, "topic.metadata.refresh.interval.ms": 1_000,
    } | settings)
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    ended = input_ends()
    while not ended.is_set():
        messages = [message for message in consumer.consume(500, POLL_SECONDS) if not message.error()]
        for message in messages:
            tell("read", message.partition(), message.offset(), message.value().decode())
        if messages:
            try:
                for partition in consumer.commit(asynchronous=False):
                    tell("committed", partition.partition, partition.offset)
            except KafkaException as refused:
                # A rebalance came in between: another member reads the same once more.
                print(refused, file=sys.stderr)
    consumer.close()


def kafka_python(broker, group, topic, settings):
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, _assigned):
            tell("assigned", sorted(partition.partition for partition in consumer.assignment()))

        def on_partitions_revoked(self, revoked):
            tell("revoked", sorted(partition.partition for partition in revoked))

    consumer = KafkaConsumer(
        bootstrap_servers=broker, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
        session_timeout_ms=6_000, heartbeat_interval_ms=500, metadata_max_age_ms=1_000, **settings,
    )
    consumer.subscribe([topic], listener=Listener())
    ended = input_ends()
    while not ended.is_set():
        read = consumer.poll(int(POLL_SECONDS * 1_000), max_records=500)
        for partition, records in read.items():
            for record in records:
                tell("read", partition.partition, record.offset, record.value.decode())
        if read:
            try:
                consumer.commit()
                for partition, records in read.items():
                    tell("committed", partition.partition, records[-1].offset + 1)
            except KafkaError as refused:
                print(refused, file=sys.stderr)
    consumer.close()


if __name__ == "__main__":
    client, broker, group, topic, settings = sys.argv[1:]
    {"confluent-kafka": confluent_kafka, "kafka-python": kafka_python}[client](broker, group, topic, json.loads(settings))
