"""Fixtures shared by the process tests and the interop tests."""

import itertools
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from servers import BIN, DEADLINE_SECONDS, HOME, Apache, Ottla, Servers


def pytest_addoption(parser):
    parser.addoption("--ottla", type=Path, help="the program to test (default: OTTLA_BIN, or target/release/ottla)")
    parser.addoption("--against", default="ottla", help="ottla, apache (Apache Kafka 3.9, which proves the interop tests), or BROKER,ZOOKEEPER that run already")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--against") == "apache":
        for item in items:
            for marker in item.iter_markers("apache_fails"):
                item.add_marker(pytest.mark.xfail(reason=marker.args[0]))


@pytest.fixture(autouse=True)
def alarm():
    """Ends a test that hangs, wherever it hangs."""

    def ring(_signal, _frame):
        raise TimeoutError("the test ran for two minutes")

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(120)
    yield
    signal.alarm(0)


@pytest.fixture(scope="session")
def program(request):
    """The ottla program."""
    program = request.config.getoption("--ottla") or Path(os.environ.get("OTTLA_BIN") or HOME / "target/release/ottla")
    assert os.access(program, os.X_OK), f"no program at {program}: cargo build --release"
    return program.resolve()


@pytest.fixture(scope="session")
def product(request):
    if request.config.getoption("--against") == "apache":
        assert Apache.jars.is_dir(), f"no {Apache.jars}: tests/interop/install.sh"
        return Apache()
    return Ottla(request.getfixturevalue("program"))


@pytest.fixture
def servers(product, tmp_path):
    """Starts servers for one test alone."""
    with Servers(product, tmp_path) as servers:
        yield servers


class Cluster:
    """One ZooKeeper and one broker, shared by the tests that only need one to talk to."""

    def __init__(self, broker, zookeeper):
        self.broker, self.zookeeper = broker, zookeeper


@pytest.fixture(scope="session")
def cluster(request, tmp_path_factory):
    against = request.config.getoption("--against")
    if ":" in against:
        yield Cluster(*against.split(","))
        return
    with Servers(request.getfixturevalue("product"), tmp_path_factory.mktemp("cluster")) as servers:
        zookeeper = servers.zookeeper()
        yield Cluster(servers.broker(zookeeper).address, zookeeper.address)


topic_numbers = itertools.count()


@pytest.fixture
def topic(request):
    """A topic name that no other test uses. Nothing creates it."""
    name = re.sub("[^a-zA-Z0-9-]+", "-", request.node.name).strip("-")
    return f"{name[:80]}-{os.getpid()}-{next(topic_numbers)}"


@pytest.fixture
def tool(program, tmp_path):
    """Runs a script of bin/ to its end."""

    def run(script, *arguments, stdin=b"", within=DEADLINE_SECONDS):
        return subprocess.run(
            [BIN / script, *map(str, arguments)], input=stdin, capture_output=True, timeout=within, cwd=tmp_path,
            env=os.environ | {"OTTLA_BIN": str(program), "LOG_DIR": str(tmp_path / "logs")},
        )

    return run


@pytest.fixture
def started_tool(program, tmp_path):
    """Starts a script of bin/ with pipes on all ends, and kills it after the test."""
    processes = []

    def start(script, *arguments):
        process = subprocess.Popen(
            [BIN / script, *map(str, arguments)], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=os.environ | {"OTTLA_BIN": str(program), "LOG_DIR": str(tmp_path / "logs")},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
