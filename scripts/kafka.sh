#!/bin/sh
# A real Kafka broker on loopback, and Spark's connector to it. PySpark's Ivy fetches the jars once.
#
#   scripts/kafka.sh fetch             fetch both once, outside the checkout
#   scripts/kafka.sh jars              print the connector's jars, for spark.jars
#   scripts/kafka.sh run PORT FOLDER   run the broker on loopback, with its data in FOLDER; it uses PORT + 1 too
#   scripts/kafka.sh tool CLASS …      run a program of Kafka, such as org.apache.kafka.tools.TopicCommand
#
# One node is broker and controller. PYTHON names the Python with PySpark; default: that of .venv, or python3.
set -eu

broker=4.1.2
# The connector of this Spark and its dependencies, named one by one: its own list has a version that does not exist.
connector="org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0
    org.apache.kafka:kafka-clients:3.9.2 org.apache.commons:commons-pool2:2.12.1"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/autotrascale/kafka-$broker"
here=$(dirname "$0")
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"

fail() {
    echo "kafka.sh: $1" >&2
    exit 1
}

ivy() { # FOLDER GROUP:ARTIFACT:VERSION [-notransitive]
    folder=$1 module=$2
    shift 2
    # shellcheck disable=SC2046 # three words on purpose
    "$java" -jar "$pyspark"/jars/ivy-*.jar -cache "$work/ivy" -confs default "$@" \
        -dependency $(echo "$module" | tr : ' ') -retrieve "$folder/[artifact]-[revision].[ext]" >"$work/ivy.log" 2>&1 ||
        { tail -5 "$work/ivy.log" >&2; fail "could not fetch $module"; }
}

fetch() {
    [ -d "$cache" ] && return
    python="${PYTHON:-$here/../.venv/bin/python}"
    [ -x "$python" ] || python=python3
    pyspark=$("$python" -c 'import pyspark; print(pyspark.__path__[0])') || fail "$python has no PySpark: set PYTHON"
    mkdir -p "$(dirname "$cache")"
    work=$(mktemp -d "$cache.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "kafka.sh: fetching Kafka $broker and Spark's connector, a minute, once" >&2
    ivy "$work/jars/broker" "org.apache.kafka:kafka_2.13:$broker"
    ivy "$work/jars/broker" "org.apache.kafka:kafka-tools:$broker" -notransitive
    ivy "$work/jars/broker" org.apache.logging.log4j:log4j-slf4j-impl:2.25.3 -notransitive
    for module in $connector; do ivy "$work/jars/connector" "$module" -notransitive; done
    mv "$work/jars" "$cache" 2>/dev/null || [ -d "$cache" ] || fail "could not write $cache" # a rename, so that no process sees half of it
}

become() { # CLASS …
    exec "$java" -Xmx512m -XX:+UseSerialGC -Dorg.apache.logging.log4j.level=ERROR -cp "$cache/broker/*" "$@"
}

run() {
    mkdir -p "$2"
    data=$(cd "$2" && pwd)
    cat >"$data/server.properties" <<END
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$(($1 + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:$(($1 + 1))
log.dirs=$data/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
END
    if [ ! -f "$data/log/meta.properties" ]; then
        id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')
        (become kafka.tools.StorageTool format -t "$id" -c "$data/server.properties" >"$data/format.log" 2>&1) ||
            { tail -5 "$data/format.log" >&2; fail "could not format $data"; }
    fi
    become kafka.Kafka "$data/server.properties"
}

case "${1:-}:$#" in
    fetch:1) fetch ;;
    jars:1) fetch && echo "$cache"/connector/*.jar | tr ' ' , ;;
    run:3) fetch && run "$2" "$3" ;;
    tool:*) [ $# -gt 1 ] && shift && fetch && become "$@" ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
