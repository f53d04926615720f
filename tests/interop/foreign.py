"""Where the foreign clients are. One that is not on this machine skips its tests by name, with the reason that install.sh left."""

import shutil
import subprocess
import sys

import pytest

from servers import CACHE, DEADLINE_SECONDS, HOME


def absent(name, cache_name):
    reason = CACHE / f"{cache_name}.missing"
    return f"{name}: {reason.read_text().strip() if reason.exists() else 'not here; tests/interop/install.sh brings it'}"


def python_package(name):
    """For the head of a file: the module, or the whole file is skipped."""
    try:
        __import__(name)
    except ImportError:
        pytest.skip(absent(name, "venv"), allow_module_level=True)
    return sys.modules[name]


def kcat(*arguments, stdin=b"", status=0):
    """Runs kcat to its end and returns what it printed on standard output."""
    if not shutil.which("kcat"):
        pytest.skip(absent("kcat", "kcat"))
    run = subprocess.run(["kcat", *map(str, arguments)], input=stdin, capture_output=True, timeout=DEADLINE_SECONDS)
    assert run.returncode == status, run.stderr.decode()
    return run.stdout


def java(jars, *arguments, stdin=b"", status=0):
    """Runs a class, or a source file, with the jars of .cache/`jars` to its end and returns what it printed on standard output."""
    if not (CACHE / jars).is_dir():
        pytest.skip(absent(jars, jars if shutil.which("java") else "java"))
    logging = f"-Dlog4j.configuration=file:{HOME}/tests/interop/log4j.properties"
    # snappy-java of 2011 loads its native code by ways that newer JVMs keep shut.
    opened = "--add-opens=java.base/java.lang=ALL-UNNAMED"
    run = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", opened, logging, "-cp", f"{CACHE / jars}/*", *map(str, arguments)],
        input=stdin, capture_output=True, timeout=DEADLINE_SECONDS,
    )
    assert run.returncode == status, (run.stdout + run.stderr).decode()
    return run.stdout
