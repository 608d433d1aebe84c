#!/bin/sh
# A real InfluxDB for the tests: version 1.8.10, which builds from Go alone and has the 2.x API when Flux is on.
#
#   scripts/influxdb.sh build             build it once outside the checkout, and print its path
#   scripts/influxdb.sh run PORT FOLDER   run the server on loopback, with its data in FOLDER
#   scripts/influxdb.sh try               the same on a free port with a temporary folder
#
# INFLUXD names another binary to use. Authentication is on. Create the first user with
#   curl -X POST http://127.0.0.1:PORT/query --data-urlencode "q=CREATE USER admin WITH PASSWORD 'secret' WITH ALL PRIVILEGES"
set -eu

version=1.8.10
cache="${XDG_CACHE_HOME:-$HOME/.cache}/autotrascale"
binary="${INFLUXD:-$cache/influxd-$version}"

build() {
    if [ ! -x "$binary" ]; then
        if [ -n "${INFLUXD:-}" ]; then
            echo "influxdb.sh: INFLUXD is not an executable file: $INFLUXD" >&2
            return 1
        fi
        if ! command -v go >/dev/null 2>&1; then
            echo "influxdb.sh: Go is needed to build InfluxDB $version, as there is no binary at $binary" >&2
            return 1
        fi
        mkdir -p "$cache"
        work=$(mktemp -d "$cache/build.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        echo "influxdb.sh: building InfluxDB $version, a few minutes, once" >&2
        # One compiler at a time: the linker alone needs a gigabyte.
        (cd "$work" && GOBIN="$work" GOFLAGS="${GOFLAGS:-} -p=1" nice \
            go install "github.com/influxdata/influxdb/cmd/influxd@v$version") >&2
        mv "$work/influxd" "$binary" # a rename, so that no process sees half a binary
        rm -rf "$work"
    fi
    echo "$binary"
}

run() {
    build >/dev/null
    mkdir -p "$2"
    INFLUXDB_META_DIR="$2/meta" INFLUXDB_DATA_DIR="$2/data" INFLUXDB_DATA_WAL_DIR="$2/wal" \
        INFLUXDB_BIND_ADDRESS=127.0.0.1:0 INFLUXDB_HTTP_BIND_ADDRESS="127.0.0.1:$1" \
        INFLUXDB_HTTP_FLUX_ENABLED=true INFLUXDB_HTTP_AUTH_ENABLED=true INFLUXDB_HTTP_LOG_ENABLED=false \
        INFLUXDB_REPORTING_DISABLED=true INFLUXDB_MONITOR_STORE_ENABLED=false \
        exec "$binary" run -config /dev/null
}

case "${1:-}:$#" in
    build:1) build ;;
    run:3) run "$2" "$3" ;;
    try:1)
        port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        echo "influxdb.sh: http://127.0.0.1:$port" >&2
        run "$port" "$(mktemp -d)" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
