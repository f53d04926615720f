#!/bin/sh
# Brings what the tests run beside Ottla: kcat and a JDK with Maven from Debian's packages, pytest and Python clients from PyPI, and from
# Maven Central Apache's Java clients, Apache Kafka 3.9 with its ZooKeeper, and the Scala tools of Kafka 0.8.0. All but Debian's
# packages go to .cache beside this script, which git ignores.
#
# What cannot be had is left out, with the reason in .cache/NAME.missing; tests that need it skip themselves and say so.
set -u

here=$(dirname -- "$(readlink -f -- "$0")")
cache=$here/.cache
mkdir -p "$cache"

missing() { # NAME REASON
    echo "    $1 is not to be had: $2"
    echo "$2" >"$cache/$1.missing"
}

# debian NAME TEST PACKAGES...   installs the packages unless the test, a line of shell, says that they are there.
debian() {
    name=$1
    present=$2
    shift 2
    rm -f "$cache/$name.missing"
    sh -c "$present" >/dev/null 2>&1 && return 0
    if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
        missing "$name" "not on this machine, and only root on Debian can install $*"
        return 1
    fi
    echo "    apt-get install $*"
    if [ -z "${updated:-}" ]; then
        timeout 300 apt-get update -qq >"$cache/apt.log" 2>&1
        updated=1
    fi
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends "$@" >>"$cache/apt.log" 2>&1
    sh -c "$present" >/dev/null 2>&1 && return 0
    missing "$name" "apt-get install $* failed: $(tail -n 1 "$cache/apt.log")"
    return 1
}

# fetched NAME WISH COMMAND...   runs the command, which fills .cache/NAME, unless it succeeded before with the same wish.
fetched() {
    name=$1
    wish=$2
    shift 2
    rm -f "$cache/$name.missing"
    [ "$(cat "$cache/$name.stamp" 2>/dev/null)" = "$wish" ] && return 0
    rm -rf "${cache:?}/$name" "$cache/$name.stamp"
    echo "    fetching $name"
    if timeout 900 "$@" >"$cache/$name.log" 2>&1; then
        echo "$wish" >"$cache/$name.stamp"
    else
        rm -rf "${cache:?}/$name"
        missing "$name" "$(grep . "$cache/$name.log" | tail -n 1 | cut -c 1-200)"
    fi
}

# jars NAME GROUP:ARTIFACT:VERSION...   copies these and all they need to .cache/NAME.
jars() {
    name=$1
    shift
    mkdir -p "$cache/poms/$name"
    {
        echo "<project><modelVersion>4.0.0</modelVersion><groupId>ottla</groupId><artifactId>$name</artifactId><version>1</version><dependencies>"
        for artifact; do
            # log4j 1.2.15, under Kafka 0.8, names three artifacts that no repository has any more; nothing here runs them.
            echo "$artifact" | sed 's|\(.*\):\(.*\):\(.*\)|<dependency><groupId>\1</groupId><artifactId>\2</artifactId><version>\3</version><exclusions>\
<exclusion><groupId>com.sun.jmx</groupId><artifactId>jmxri</artifactId></exclusion><exclusion><groupId>com.sun.jdmk</groupId><artifactId>jmxtools</artifactId></exclusion>\
<exclusion><groupId>javax.jms</groupId><artifactId>jms</artifactId></exclusion></exclusions></dependency>|'
        done
        echo "</dependencies></project>"
    } >"$cache/poms/$name/pom.xml"
    fetched "$name" "$*" mvn -q -B -f "$cache/poms/$name/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$cache/$name"
}

debian kcat 'command -v kcat' kcat
if debian python 'python3 -c "import ensurepip"' python3 python3-venv; then
    fetched venv "$(cat "$here/../requirements.txt")" \
        sh -c 'python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"' sh "$cache/venv" "$here/../requirements.txt"
fi
if debian java 'command -v javac && command -v mvn' openjdk-17-jdk-headless maven; then
    for version in 2.0.1 2.8.2 3.9.2 4.4.0; do
        jars "kafka-clients-$version" "org.apache.kafka:kafka-clients:$version" org.slf4j:slf4j-nop:1.7.36
    done
    for version in 0.8.2.2 0.10.2.2; do
        jars "kafka-clients-$version" "org.apache.kafka:kafka-clients:$version" org.slf4j:slf4j-nop:1.7.6
    done
    jars kafka-0.8.0 org.apache.kafka:kafka_2.10:0.8.0
    jars apache-kafka-3.9.2 org.apache.kafka:kafka_2.13:3.9.2 org.apache.kafka:kafka-tools:3.9.2 org.slf4j:slf4j-reload4j:1.7.36
fi
