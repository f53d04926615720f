"""The scripts in bin/, apart from what the program behind them does."""

import os
import shutil
import subprocess

import pytest

from servers import BIN, free_port

SCRIPTS = sorted(path.name for path in BIN.glob("kafka-*.sh")) + sorted(path.name for path in BIN.glob("zookeeper-*.sh"))


@pytest.mark.parametrize("script, usage", [
    ("kafka-server-start.sh", "USAGE: {script} [-daemon] server.properties [--override property=value]*"),
    ("zookeeper-server-start.sh", "USAGE: {script} [-daemon] zookeeper.properties"),
    ("zookeeper-shell.sh", "USAGE: {script} zookeeper_host:port[/path] [-zk-tls-config-file file] [args...]"),
])
def test_without_arguments_says_how_to_use_it(tool, script, usage):
    run = tool(script)
    assert (run.returncode, run.stdout.decode()) == (1, usage.format(script=BIN / script) + "\n")


@pytest.fixture
def shown(tmp_path):
    """Runs a script with a program that prints its arguments."""
    program = tmp_path / "shows"
    program.write_text('#!/bin/sh\nfor argument; do echo "[$argument]"; done\n')
    program.chmod(0o755)

    def shown(*command, folder=tmp_path, **environment):
        run = subprocess.run(command, cwd=folder, env=os.environ | {"OTTLA_BIN": str(program)} | environment, capture_output=True, text=True)
        return run.stdout.replace("[", "").split("]\n")[:-1]

    return shown


TOOLS = sorted(set(SCRIPTS) - {"kafka-server-start.sh", "kafka-server-stop.sh", "zookeeper-server-start.sh", "zookeeper-server-stop.sh"})


@pytest.mark.parametrize("script", TOOLS)
def test_hands_every_argument_to_the_tool_of_its_name(shown, script):
    assert shown(BIN / script, "--topic", "with space", "*", "") == [script.removesuffix(".sh"), "--topic", "with space", "*", ""]


def test_the_program_itself_has_a_script_too(shown):
    assert shown(BIN / "ottla.sh", "dev", "--brokers", "3") == ["dev", "--brokers", "3"]


def test_servers_get_their_arguments_and_ignore_the_jvm(shown):
    jvm = {"KAFKA_HEAP_OPTS": "-Xmx1G -Xms1G", "KAFKA_OPTS": "-Dx=y", "KAFKA_JVM_PERFORMANCE_OPTS": "-server", "JMX_PORT": "9999"}
    assert shown(BIN / "kafka-server-start.sh", "s.properties", "--override", "a=b", **jvm) == ["broker", "s.properties", "--override", "a=b"]
    assert shown(BIN / "zookeeper-server-start.sh", "z.properties", **jvm) == ["zookeeper", "z.properties"]
    assert shown(BIN / "kafka-server-start.sh", "--version") == ["broker", "--version"]


def test_work_from_anywhere_and_through_links(shown, tmp_path):
    (tmp_path / "one").symlink_to(BIN / "kafka-topics.sh")
    (tmp_path / "two").symlink_to("one")
    assert shown(tmp_path / "two", "--list", folder="/") == ["kafka-topics", "--list"]
    assert shown("./kafka-topics.sh", "--list", folder=BIN) == ["kafka-topics", "--list"]
    assert shown("bin/kafka-topics.sh", "--list", folder=BIN.parent) == ["kafka-topics", "--list"]


@pytest.mark.parametrize("place", ["target/release/ottla", "target/debug/ottla", "ottla", "bin/ottla"])
def test_find_the_program(tmp_path, place):
    shutil.copytree(BIN, tmp_path / "bin")
    program = tmp_path / place
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text('#!/bin/sh\necho "$0 $*"\n')
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "OTTLA_BIN"}
    run = subprocess.run([tmp_path / "bin/kafka-topics.sh", "--list"], env=environment, capture_output=True, text=True)
    assert run.stdout == f"{program} kafka-topics --list\n"


def test_without_a_program_say_how_to_get_one(tmp_path):
    shutil.copytree(BIN, tmp_path / "bin")
    environment = {name: value for name, value in os.environ.items() if name != "OTTLA_BIN"}
    for more, cure in [({}, "cargo build --release"), ({"OTTLA_BIN": "/no/such"}, "OTTLA_BIN names /no/such")]:
        for script in SCRIPTS:
            if not script.endswith("stop.sh"):
                run = subprocess.run([tmp_path / "bin" / script, "x"], env=environment | more, capture_output=True, text=True)
                assert run.returncode == 1, script
                assert cure in run.stderr, script


def alone(program, script, folder):
    """Runs a shell script where no other process can be seen, so that stop scripts meet only what it started."""
    sees_only_itself = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*sees_only_itself, "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare: process namespaces cannot be made here, and a stop script would stop servers of others")
    run = subprocess.run(
        [*sees_only_itself, "sh", "-eu", "-c", script], cwd=folder, capture_output=True, text=True, timeout=100,
        env=os.environ | {"OTTLA_BIN": str(program), "BIN": str(BIN), "LOG_DIR": str(folder / "logs")},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_nothing_to_stop(program, tmp_path):
    said = alone(program, 'for what in kafka zookeeper; do "$BIN/$what-server-stop.sh" || echo "status $?"; done', tmp_path)
    assert said == "No kafka server to stop\nstatus 1\nNo zookeeper server to stop\nstatus 1\n"


def test_stop_scripts_stop_servers_and_no_bystander(program, tmp_path):
    """A bystander has the words in its command line, as an editor or a shell that greps for them has."""
    folder = tmp_path / "alone"
    folder.mkdir()
    zookeeper_port, first, second = free_port(), free_port(), free_port()
    (folder / "zookeeper.properties").write_text(f"dataDir={folder}/zookeeper\nclientPort={zookeeper_port}\n")
    for id, port in ((1, first), (2, second)):
        (folder / f"server-{id}.properties").write_text(
            f"broker.id={id}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={folder}/logs-{id}\nzookeeper.connect=127.0.0.1:{zookeeper_port}\n"
        )
    said = alone(program, r"""
        await() { tries=0; until "$@"; do tries=$((tries + 1)); [ $tries -lt 600 ]; sleep 0.1; done; }
        gone() { ! kill -0 "$1" 2>/dev/null; }
        "$BIN/zookeeper-server-start.sh" -daemon zookeeper.properties
        for id in 1 2; do
            "$BIN/kafka-server-start.sh" "server-$id.properties" >"$id.out" 2>&1 &
            eval "broker_$id=$!"
        done
        sh -c 'sleep 1000; : ottla broker server-1.properties' & bystander=$!
        for id in 1 2; do await grep -q "KafkaServer id=$id] started" "$id.out"; done
        "$BIN/kafka-server-stop.sh" --node-id=1
        wait $broker_1 || echo "broker 1 ended with status $?"
        kill -0 $broker_2
        "$BIN/kafka-server-stop.sh"
        wait $broker_2 || echo "broker 2 ended with status $?"
        "$BIN/zookeeper-server-stop.sh"
        await sh -c '! "$BIN/zookeeper-server-stop.sh" >/dev/null'
        kill -0 $bystander
    """, folder)
    assert said == "broker 1 ended with status 143\nbroker 2 ended with status 143\n"
    assert (folder / "logs/zookeeper.out").exists()


def test_a_daemon_is_left_behind_with_its_output_in_a_file(program, tmp_path):
    """And the script returns at once."""
    said = alone(program, r"""
        printf 'broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:1\nzookeeper.connect=127.0.0.1:1\nlog.dirs=logs-1\n' >server.properties
        "$BIN/kafka-server-start.sh" -daemon server.properties
        echo "the script is back"
        tries=0
        until [ -s "$LOG_DIR/kafkaServer.out" ]; do tries=$((tries + 1)); [ $tries -lt 600 ]; sleep 0.1; done
    """, tmp_path)
    assert said == "the script is back\n"
