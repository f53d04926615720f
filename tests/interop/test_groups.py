"""Consumer groups of foreign clients: members come, leave and die, and every record is read; once, where its offset was committed."""

import collections
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from foreign import absent, kcat, python_package
from servers import CACHE, DEADLINE_SECONDS, HOME, dies_with_its_parent, eventually

python_package("confluent_kafka")
python_package("kafka")

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

HERE = Path(__file__).parent
PARTITIONS = 6

Event = collections.namedtuple("Event", "kind time rest")


class Member:
    """A process that is a member of a group, and what it has told so far."""

    def __init__(self, command, errors):
        self.events, self.errors = [], errors
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors.open("ab"), preexec_fn=dies_with_its_parent,
        )
        self.listener = threading.Thread(target=self.listen)
        self.listener.start()

    def listen(self):
        for line in self.process.stdout:
            kind, at, *rest = json.loads(line)
            self.events.append(Event(kind, at, rest))

    def of(self, kind):
        return [event for event in self.events if event.kind == kind]

    @property
    def owns(self):
        """The partitions that it owns, as far as it has said."""
        owned = set()
        for event in list(self.events):
            if event.kind == "assigned":
                owned = set(event.rest[0])
            elif event.kind == "revoked":
                owned -= set(event.rest[0])
        return owned

    def why_ended(self):
        if self.process.poll() is not None:
            return f"a member ended with status {self.process.returncode}: {self.errors.read_text()[-2_000:]}"

    def kill(self):
        """kill -9: the group is not told."""
        self.process.kill()
        self.end()

    def leave(self):
        self.process.stdin.close()
        self.end()

    def end(self):
        self.process.wait(DEADLINE_SECONDS)
        self.listener.join(DEADLINE_SECONDS)


def python_command(client):
    return lambda broker, group, topic, settings: [sys.executable, HERE / "member.py", client, broker, group, topic, json.dumps(settings)]


def java_command(version):
    jars = f"kafka-clients-{version}"

    def command(broker, group, topic, settings):
        if not (CACHE / jars).is_dir():
            pytest.skip(absent(jars, jars))
        logging = f"-Dlog4j.configuration=file:{HOME}/tests/interop/log4j.properties"
        settings = [f"{name}={value}" for name, value in settings.items()]
        return ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", logging, "-cp", f"{CACHE / jars}/*", HERE / "java" / "Member.java", broker, group, topic, *settings]

    return command


@pytest.fixture
def members(request, topic, tmp_path):
    """Starts members of a group that is named as the topic, and kills those that are left."""
    started = []

    def start(command, broker=None, **settings):
        settings = {name.replace("__", "."): value for name, value in settings.items()}
        broker = broker or request.getfixturevalue("cluster").broker
        member = Member(command(broker, topic, topic, settings), tmp_path / f"member-{len(started)}.err")
        started.append(member)
        return member

    start.all = started
    yield start
    for member in started:
        if member.process.poll() is None:
            member.kill()


@pytest.fixture
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.broker})


@pytest.fixture
def made_topic(admin, topic):
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(DEADLINE_SECONDS)
    return topic


class Writer(threading.Thread):
    """Writes to all partitions, and remembers what was acknowledged, until it is told to stop."""

    def __init__(self, broker, topic):
        super().__init__(daemon=True)
        self.producer, self.topic, self.acknowledged, self.stopped = Producer({"bootstrap.servers": broker, "linger.ms": 5}), topic, {}, threading.Event()

    def answered(self, error, message):
        assert error is None, error
        self.acknowledged[message.partition(), message.offset()] = message.value().decode()

    def run(self):
        number = 0
        while not self.stopped.wait(0.01):
            for _ in range(10):
                self.producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self.answered)
                number += 1
            self.producer.poll(0)
        assert self.producer.flush(DEADLINE_SECONDS) == 0

    def stop(self):
        self.stopped.set()
        self.join(DEADLINE_SECONDS)
        return self.acknowledged


@pytest.fixture
def writer(cluster, made_topic):
    writer = Writer(cluster.broker, made_topic)
    writer.start()
    yield writer
    writer.stop()


def share(members):
    """True once the members own all partitions, none twice, and none of them two more than another."""
    owned = [member.owns for member in members]
    everything = sorted(partition for each in owned for partition in each)
    sizes = [len(each) for each in owned]
    return everything == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1


def settle(members):
    def why_ended():
        return next(filter(None, (member.why_ended() for member in members)), None)

    eventually(lambda: share(members), f"{len(members)} members share {PARTITIONS} partitions", unless=why_ended)


def check_nothing_committed_was_read_again(members):
    commits = [event for member in members for event in member.of("committed")]
    for member in members:
        since = {}
        for event in member.events:
            if event.kind == "assigned":
                # Those that it keeps it has owned since before; the later moment only makes the check stricter.
                since = {partition: event.time for partition in event.rest[0]}
            elif event.kind == "read":
                partition, offset, _ = event.rest
                before = [commit.rest[1] for commit in commits if commit.rest[0] == partition and commit.time < since[partition]]
                assert offset >= max(before, default=0), f"{partition}: {offset} was read after {max(before)} had been committed"


CONFLUENT, KAFKA_PYTHON = python_command("confluent-kafka"), python_command("kafka-python")
ASSIGNOR = "org.apache.kafka.clients.consumer."


@pytest.mark.parametrize("command, settings", [
    pytest.param(CONFLUENT, {"partition__assignment__strategy": "range"}, id="confluent-kafka range"),
    pytest.param(CONFLUENT, {"partition__assignment__strategy": "roundrobin"}, id="confluent-kafka roundrobin"),
    pytest.param(CONFLUENT, {"partition__assignment__strategy": "cooperative-sticky"}, id="confluent-kafka cooperative-sticky"),
    pytest.param(KAFKA_PYTHON, {}, id="kafka-python"),
    pytest.param(java_command("2.0.1"), {}, id="Java 2.0.1 range"),
    pytest.param(java_command("2.8.2"), {"partition__assignment__strategy": f"{ASSIGNOR}StickyAssignor"}, id="Java 2.8.2 sticky"),
    pytest.param(java_command("3.9.2"), {}, id="Java 3.9.2 range and cooperative-sticky"),
    pytest.param(java_command("4.4.0"), {"partition__assignment__strategy": f"{ASSIGNOR}CooperativeStickyAssignor"}, id="Java 4.4.0 cooperative-sticky"),
])
def test_members_come_leave_and_die_and_every_record_is_read(members, writer, command, settings):
    first = members(command, **settings)
    settle([first])
    second = members(command, **settings)
    settle([first, second])
    third = members(command, **settings)
    settle([first, second, third])
    third.kill()
    settle([first, second])
    second.leave()
    settle([first])
    acknowledged = writer.stop()

    def read():
        return {(event.rest[0], event.rest[1]): event.rest[2] for member in members.all for event in member.of("read")}

    eventually(lambda: len(read()) >= len(acknowledged), "everything is read", unless=first.why_ended)
    assert read() == acknowledged
    first.leave()
    check_nothing_committed_was_read_again(members.all)


@pytest.mark.parametrize("command", [
    pytest.param(CONFLUENT, id="confluent-kafka"),
    pytest.param(java_command("3.9.2"), id="Java 3.9.2"),
])
def test_cooperative_members_keep_what_they_do_not_have_to_give(members, made_topic, command):
    strategy = "cooperative-sticky" if command is CONFLUENT else f"{ASSIGNOR}CooperativeStickyAssignor"
    first = members(command, partition__assignment__strategy=strategy)
    settle([first])
    second = members(command, partition__assignment__strategy=strategy)
    settle([first, second])
    revoked = [partition for event in first.of("revoked") for partition in event.rest[0]]
    assert sorted(revoked) == sorted(second.owns), "it gave up what the other got, and nothing else"


@pytest.mark.parametrize("command", [
    pytest.param(CONFLUENT, id="confluent-kafka"),
    pytest.param(java_command("2.8.2"), id="Java 2.8.2"),
    pytest.param(java_command("4.4.0"), id="Java 4.4.0"),
])
def test_a_static_member_comes_back_without_a_rebalance(members, made_topic, command):
    def start(name):
        return members(command, group__instance__id=name, session__timeout__ms="30000")

    one, other = start("one"), start("other")
    settle([one, other])
    before, told = one.owns, len(other.events)
    one.kill()
    again = start("one")
    eventually(lambda: again.owns == before, "it has its old partitions again", unless=again.why_ended)
    assert [event for event in other.events[told:] if event.kind in ("assigned", "revoked")] == [], "the other was not disturbed"


def test_kcat_reads_on_where_it_stopped(cluster, topic):
    def read():
        return kcat("-b", cluster.broker, "-G", topic, "-e", "-q", "-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=500", topic).decode().split()

    def write(*lines):
        kcat("-b", cluster.broker, "-P", "-t", topic, stdin="\n".join(lines).encode())

    write("a", "b", "c")
    assert read() == ["a", "b", "c"]
    write("d")
    assert read() == ["d"]


@pytest.mark.parametrize("command", [
    pytest.param(CONFLUENT, id="confluent-kafka"),
    pytest.param(KAFKA_PYTHON, id="kafka-python"),
    pytest.param(java_command("3.9.2"), id="Java 3.9.2"),
])
def test_a_group_outlives_its_coordinator(servers, members, topic, command):
    zookeeper = servers.zookeeper()
    settings = {"offsets__topic__replication__factor": 3, "offsets__topic__num__partitions": 3, "min__insync__replicas": 2}
    brokers = [servers.broker(zookeeper, id=id, **settings) for id in range(3)]
    addresses = ",".join(broker.address for broker in brokers)
    admin = AdminClient({"bootstrap.servers": addresses})

    def made():
        outcome = admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic]
        return outcome.exception(DEADLINE_SECONDS) is None

    eventually(made, "three brokers know each other")
    writer = Writer(addresses, topic)
    writer.start()
    first, second = members(command, addresses), members(command, addresses)
    settle([first, second])
    coordinator = admin.describe_consumer_groups([topic])[topic].result(DEADLINE_SECONDS).coordinator
    killed = next(broker for broker in brokers if broker.id == coordinator.id)
    killed.kill()
    # Read and committed by way of another broker now.
    before = {member: len(member.of("committed")) for member in (first, second)}
    for member, commits in before.items():
        eventually(lambda: len(member.of("committed")) > commits + 5, "commits go on", unless=member.why_ended)
    killed.start()
    second.leave()
    settle([first])
    acknowledged = writer.stop()

    def read():
        return {(event.rest[0], event.rest[1]): event.rest[2] for member in members.all for event in member.of("read")}

    # What was sent twice, as its first acknowledgement was lost with the broker, is read twice.
    eventually(lambda: acknowledged.items() <= read().items(), "everything is read", unless=first.why_ended)
    first.leave()
    check_nothing_committed_was_read_again(members.all)


# ---- what admin clients see and do ----


@pytest.fixture
def offsets(cluster, made_topic):
    """Commits an offset and a note for partition 0, as a consumer that assigns itself."""
    consumer = Consumer({"bootstrap.servers": cluster.broker, "group.id": made_topic})
    consumer.commit(offsets=[TopicPartition(made_topic, 0, 7, "a note")], asynchronous=False)
    yield consumer
    consumer.close()


def committed(consumer, topic):
    [partition] = consumer.committed([TopicPartition(topic, 0)], DEADLINE_SECONDS)
    return partition.offset


def test_a_note_is_kept_with_its_offset(offsets, made_topic):
    [partition] = offsets.committed([TopicPartition(made_topic, 0)], DEADLINE_SECONDS)
    assert (partition.offset, partition.metadata) == (7, "a note")
    with pytest.raises(KafkaException) as refused:
        offsets.commit(offsets=[TopicPartition(made_topic, 0, 8, "x" * 4_097)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    assert committed(offsets, made_topic) == 7


def refusal(future):
    with pytest.raises(KafkaException) as refused:
        future.result(DEADLINE_SECONDS)
    return refused.value.args[0].code()


def test_groups_are_listed_and_described(admin, members, made_topic):
    member = members(CONFLUENT)
    settle([member])
    listing = admin.list_consumer_groups().result(DEADLINE_SECONDS)
    assert made_topic in [group.group_id for group in listing.valid]
    stable = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(DEADLINE_SECONDS)
    assert made_topic in [group.group_id for group in stable.valid]
    described = admin.describe_consumer_groups([made_topic])[made_topic].result(DEADLINE_SECONDS)
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    [only] = described.members
    assert (only.host, only.client_id) == ("/127.0.0.1", "rdkafka")
    assert sorted(p.partition for p in only.assignment.topic_partitions) == list(range(PARTITIONS))
    assert refusal(admin.delete_consumer_groups([made_topic])[made_topic]) == KafkaError.NON_EMPTY_GROUP
    member.leave()
    admin.delete_consumer_groups([made_topic])[made_topic].result(DEADLINE_SECONDS)
    assert refusal(admin.delete_consumer_groups([made_topic])[made_topic]) == KafkaError.GROUP_ID_NOT_FOUND


def test_offsets_can_be_altered_while_nobody_reads(admin, members, offsets, made_topic):
    def alter(offset):
        request = ConsumerGroupTopicPartitions(made_topic, [TopicPartition(made_topic, 0, offset)])
        return admin.alter_consumer_group_offsets([request])[made_topic].result(DEADLINE_SECONDS).topic_partitions[0]

    assert alter(3).error is None
    assert committed(offsets, made_topic) == 3
    settle([members(CONFLUENT)])
    assert alter(5).error.code() == KafkaError.UNKNOWN_MEMBER_ID
    assert committed(offsets, made_topic) == 3


def test_offsets_go_with_their_topic(admin, offsets, made_topic):
    assert committed(offsets, made_topic) == 7
    admin.delete_topics([made_topic])[made_topic].result(DEADLINE_SECONDS)
    eventually(lambda: committed(offsets, made_topic) < 0, "the offset is forgotten")


def test_the_offsets_topic_is_compacted_and_keeps_what_producers_chose(admin, offsets):
    resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets")
    config = admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)
    values = {name: config[name].value for name in ("cleanup.policy", "compression.type", "segment.bytes")}
    assert values == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
    assert len(admin.list_topics("__consumer_offsets", DEADLINE_SECONDS).topics["__consumer_offsets"].partitions) == 50


@pytest.mark.apache_fails("it exits while the session of the killed broker is not over")
def test_offsets_outlive_their_broker(servers, topic):
    broker = servers.broker(servers.zookeeper())
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DEADLINE_SECONDS)
    for turn in range(3):
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic})
        if turn > 0:
            assert committed(consumer, topic) == turn
        consumer.commit(offsets=[TopicPartition(topic, 0, turn + 1)], asynchronous=False)
        consumer.close()
        broker.kill()
        broker.start()
