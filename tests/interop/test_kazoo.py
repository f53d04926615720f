"""kazoo on the ZooKeeper server: each test has a server of its own, since many of them stop it."""

import threading

import pytest

from foreign import python_package

python_package("kazoo")

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError, InvalidACLError, NoAuthError, NodeExistsError, NoNodeError, NotEmptyError, RolledBackError, RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.recipe.lock import Lock
from kazoo.security import Permissions, make_acl, make_digest_acl

from servers import DEADLINE_SECONDS, eventually


@pytest.fixture
def zookeeper(servers):
    return servers.zookeeper()


@pytest.fixture
def connect(zookeeper):
    """Makes clients of the server."""
    clients = []

    def connect(chroot="", **settings):
        client = KazooClient(zookeeper.address + chroot, **{"timeout": 10} | settings)
        clients.append(client)
        client.start(DEADLINE_SECONDS)
        return client

    yield connect
    for client in clients:
        client.stop()
        client.close()


@pytest.fixture
def client(connect):
    return connect()


class Watch:
    """Catches the events of one watch."""

    def __init__(self):
        self.events, self.arrived = [], threading.Event()

    def __call__(self, event):
        self.events.append((event.type, event.path))
        self.arrived.set()

    def caught(self):
        assert self.arrived.wait(DEADLINE_SECONDS), "the watch did not fire"
        return self.events


def test_create_get_set_delete(client):
    assert client.create("/a", b"one") == "/a"
    data, stat = client.get("/a")
    assert (data, stat.version, stat.dataLength, stat.numChildren, stat.ephemeralOwner) == (b"one", 0, 3, 0, 0)
    assert stat.czxid == stat.mzxid == stat.pzxid
    set_stat = client.set("/a", b"three")
    assert (set_stat.version, set_stat.dataLength, set_stat.czxid) == (1, 5, stat.czxid)
    assert set_stat.mzxid > stat.mzxid
    assert client.get("/a") == (b"three", set_stat)
    client.delete("/a")
    assert client.exists("/a") is None


def test_refusals(client):
    client.create("/a")
    client.create("/a/b")
    client.create("/eph", ephemeral=True)
    for error, call in [
        (NodeExistsError, lambda: client.create("/a")),
        (NoNodeError, lambda: client.create("/x/y")),
        (NoNodeError, lambda: client.get("/x")),
        (NoNodeError, lambda: client.set("/x", b"")),
        (NoNodeError, lambda: client.delete("/x")),
        (NoNodeError, lambda: client.get_children("/x")),
        (NotEmptyError, lambda: client.delete("/a")),
        (BadVersionError, lambda: client.set("/a", b"", version=7)),
        (BadVersionError, lambda: client.delete("/a/b", version=7)),
        (InvalidACLError, lambda: client.create("/acl", acl=[make_acl("nonsense", "x", all=True)])),
    ]:
        with pytest.raises(error):
            call()
    assert sorted(client.get_children("/")) == ["a", "eph", "zookeeper"]


def test_children_and_their_versions(client):
    client.create("/p")
    for name in ("b", "a", "c"):
        client.create(f"/p/{name}")
    client.delete("/p/b")
    children, stat = client.get_children("/p", include_data=True)
    assert (sorted(children), stat.numChildren, stat.cversion, stat.version) == (["a", "c"], 2, 4, 0)


def test_sequences_count_up_and_never_back(client):
    client.create("/s")
    assert [client.create("/s/n-", sequence=True) for _ in range(2)] == ["/s/n-0000000000", "/s/n-0000000001"]
    client.delete("/s/n-0000000001")
    assert client.create("/s/n-", sequence=True) == "/s/n-0000000002"
    assert client.create("/s/", ephemeral=True, sequence=True) == "/s/0000000003"


def test_ephemerals_go_with_their_session(connect):
    owner, other = connect(), connect()
    owner.create("/eph", b"x", ephemeral=True)
    assert other.get("/eph")[1].ephemeralOwner == owner.client_id[0]
    gone = Watch()
    other.exists("/eph", watch=gone)
    owner.stop()
    assert gone.caught() == [(EventType.DELETED, "/eph")]
    assert other.exists("/eph") is None


def test_ephemerals_go_when_their_session_is_heard_of_no_more(connect):
    owner, other = connect(timeout=1), connect()
    owner.create("/eph", ephemeral=True)
    gone = Watch()
    other.exists("/eph", watch=gone)
    # Cuts the line without a word, as a dead machine does, and keeps the client from coming back.
    owner.handler.select = lambda *_: (_ for _ in ()).throw(OSError("cut"))
    owner._connection._socket.close()
    assert gone.caught() == [(EventType.DELETED, "/eph")]


def test_watches_fire_once_with_the_kind_of_change(client):
    client.create("/w")
    for arm, change, event in [
        (lambda watch: client.exists("/new", watch=watch), lambda: client.create("/new"), (EventType.CREATED, "/new")),
        (lambda watch: client.get("/w", watch=watch), lambda: client.set("/w", b"x"), (EventType.CHANGED, "/w")),
        (lambda watch: client.get_children("/w", watch=watch), lambda: client.create("/w/c"), (EventType.CHILD, "/w")),
        (lambda watch: client.get_children("/w", watch=watch), lambda: client.delete("/w/c"), (EventType.CHILD, "/w")),
        (lambda watch: client.get("/w", watch=watch), lambda: client.delete("/w"), (EventType.DELETED, "/w")),
    ]:
        watch = Watch()
        arm(watch)
        change()
        assert watch.caught() == [event]
    client.create("/once")
    once = Watch()
    client.get("/once", watch=once)
    client.set("/once", b"1")
    client.set("/once", b"2")
    client.sync("/once")
    assert once.caught() == [(EventType.CHANGED, "/once")]


def test_a_change_by_one_client_is_seen_by_another_before_its_answer(connect):
    writer, watcher = connect(), connect()
    writer.create("/w")
    for value in (b"1", b"2", b"3"):
        watch = Watch()
        watcher.get("/w", watch=watch)
        writer.set("/w", value)
        assert watch.caught() == [(EventType.CHANGED, "/w")]
        assert watcher.get("/w")[0] == value


def test_multi_is_all_or_nothing(client):
    client.create("/m", b"0")
    good = client.transaction()
    good.check("/m", version=0)
    good.create("/m/a", b"a")
    good.set_data("/m", b"1", version=0)
    good.create("/m/b", b"b")
    good.delete("/m/a")
    checked, made, stat, also_made, deleted = good.commit()
    assert (checked, made, stat.version, also_made, deleted) == (True, "/m/a", 1, "/m/b", True)

    bad = client.transaction()
    bad.create("/m/c")
    bad.set_data("/m", b"2", version=0)
    bad.create("/m/d")
    assert list(map(type, bad.commit())) == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert client.get("/m")[0] == b"1"
    assert client.get_children("/m") == ["b"]


def test_all_of_a_multi_is_one_change(client):
    transaction = client.transaction()
    transaction.create("/one")
    transaction.create("/two")
    transaction.commit()
    assert client.exists("/one").czxid == client.exists("/two").czxid


def test_chroot(connect):
    whole = connect()
    whole.create("/kafka")
    inside = connect("/kafka")
    inside.create("/brokers", b"x")
    assert whole.get("/kafka/brokers")[0] == b"x"
    watch = Watch()
    inside.get("/brokers", watch=watch)
    whole.set("/kafka/brokers", b"y")
    assert watch.caught() == [(EventType.CHANGED, "/brokers")]


def test_acls_of_the_world_and_by_password(connect):
    owner, stranger = connect(auth_data=[("digest", "kafka:secret")]), connect()
    owner.create("/secret", b"s", acl=[make_digest_acl("kafka", "secret", all=True)])
    owner.create("/readable", b"r", acl=[make_digest_acl("kafka", "secret", all=True), make_acl("world", "anyone", read=True)])
    assert stranger.get("/readable")[0] == b"r"
    for call in (lambda: stranger.get("/secret"), lambda: stranger.set("/readable", b""), lambda: stranger.create("/readable/x")):
        with pytest.raises(NoAuthError):
            call()
    assert owner.get("/secret")[0] == b"s"
    acls, _ = owner.get_acls("/readable")
    assert [(acl.perms, acl.id.scheme) for acl in acls] == [(Permissions.ALL, "digest"), (Permissions.READ, "world")]
    stranger.add_auth("digest", "kafka:secret")
    assert stranger.get("/secret")[0] == b"s"


def test_the_lock_recipe_lets_one_in_at_a_time(connect):
    inside, worst = [0], [0]
    meters = threading.Lock()

    def work(client):
        for _ in range(10):
            with Lock(client, "/lock"):
                with meters:
                    inside[0] += 1
                    worst[0] = max(worst[0], inside[0])
                with meters:
                    inside[0] -= 1

    workers = [threading.Thread(target=work, args=(connect(),)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(DEADLINE_SECONDS)
        assert not worker.is_alive()
    assert worst == [1]
    assert connect().get_children("/lock") == []


def test_many_requests_in_flight_are_answered_in_order(client):
    client.create("/n")
    answers = [client.create_async(f"/n/{i:04}", b"%d" % i) for i in range(1_000)]
    assert [answer.get(timeout=DEADLINE_SECONDS) for answer in answers] == [f"/n/{i:04}" for i in range(1_000)]
    zxids = [client.exists(f"/n/{i:04}").czxid for i in range(1_000)]
    assert zxids == list(range(zxids[0], zxids[0] + 1_000))


def test_data_up_to_a_mebibyte(client):
    large = bytes(range(256)) * 4_000
    client.create("/large", large)
    assert client.get("/large")[0] == large


def test_a_killed_server_has_forgotten_nothing_it_answered(zookeeper, connect):
    client = connect()
    client.create("/kept")
    for n in range(200):
        client.create(f"/kept/{n}", b"%d" % n)
    client.set("/kept/7", b"seven")
    client.delete("/kept/8")
    before = client.get("/kept/7")
    last_zxid = client.exists("/kept").pzxid
    zookeeper.kill()
    zookeeper.start()
    client = connect()
    assert client.get("/kept/7") == before
    assert sorted(map(int, client.get_children("/kept"))) == [n for n in range(200) if n != 8]
    client.create("/after")
    assert client.exists("/after").czxid > last_zxid


def test_sessions_and_their_ephemerals_outlive_a_restart(zookeeper, client, connect):
    states = []
    client.add_listener(states.append)
    session = client.client_id
    client.create("/eph", b"mine", ephemeral=True)
    zookeeper.kill()
    zookeeper.start()
    eventually(lambda: states[-1:] == [KazooState.CONNECTED], "the client is back")
    assert client.client_id == session
    assert KazooState.LOST not in states
    assert client.get("/eph")[0] == b"mine"
    client.stop()
    assert connect().exists("/eph") is None


def test_sequences_go_on_after_a_restart(zookeeper, connect):
    client = connect()
    client.create("/s")
    client.create("/s/n-", sequence=True)
    client.create("/s/n-", sequence=True)
    client.delete("/s/n-0000000001")
    zookeeper.kill()
    zookeeper.start()
    assert connect().create("/s/n-", sequence=True) == "/s/n-0000000002"


def test_a_session_that_was_closed_cannot_be_taken_up_again(connect):
    first = connect()
    first.create("/eph", ephemeral=True)
    session = first.client_id
    first.stop()
    second = connect(client_id=session)
    assert second.client_id[0] != session[0]
    assert second.exists("/eph") is None


def test_four_letter_words(client):
    client.create("/x")
    assert client.command(b"ruok") == "imok"
    assert "Mode: standalone" in client.command(b"srvr")
    assert "Zookeeper version: " in client.command(b"stat")
    monitored = dict(line.split("\t", 1) for line in client.command(b"mntr").splitlines() if "\t" in line)
    assert monitored["zk_server_state"] == "standalone"
    assert int(monitored["zk_znode_count"]) >= 2
