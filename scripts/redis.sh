#!/bin/sh
# A real Redis for the Yahoo job and its tests: Debian's package redis-server, on loopback, without files.
#
#   scripts/redis.sh install         install it if it is missing (needs root and apt), and print its path
#   scripts/redis.sh start FOLDER    start a server on a free port, with log and pid in FOLDER, and print its URL
#   scripts/redis.sh stop FOLDER     stop the server of FOLDER, and wait until it has ended
#   scripts/redis.sh try             run a server in the foreground; Ctrl-C ends it
#
# REDIS_SERVER names another binary to use. On failure the script prints one sentence on stderr and exits with 1.
set -eu

seconds=10

fail() {
    echo "redis.sh: $1" >&2
    exit 1
}

install() {
    if [ -n "${REDIS_SERVER:-}" ]; then
        [ -x "$REDIS_SERVER" ] || fail "REDIS_SERVER is not an executable file: $REDIS_SERVER"
        echo "$REDIS_SERVER"
        return
    fi
    if ! command -v redis-server >/dev/null 2>&1; then
        command -v apt-get >/dev/null 2>&1 || fail "redis-server is not installed, and there is no apt-get to install it"
        [ "$(id -u)" = 0 ] || fail "redis-server is not installed, and only root can install it: apt-get install redis-server"
        echo "redis.sh: installing Debian's package redis-server" >&2
        # RUNLEVEL=1 keeps the package from starting its own server.
        get install || { get update && get install; } || fail "apt-get could not install redis-server: see above"
        command -v redis-server >/dev/null 2>&1 || fail "apt-get installed redis-server, but it is not on PATH"
    fi
    command -v redis-server
}

get() {
    set -- "$1" $([ "$1" = update ] || echo redis-server)
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=120 --no-install-recommends "$@" \
        >/dev/null </dev/null
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

serve() { # PORT FOLDER …: run the server in this process
    port=$1 folder=$2
    shift 2
    exec "$binary" --bind 127.0.0.1 --port "$port" --dir "$folder" --save '' --appendonly no --protected-mode yes "$@"
}

alive() { # FOLDER: does its server still run? Its process id may belong to another process by now.
    [ -f "$1/redis.pid" ] && [ -f "$1/redis.port" ] &&
        tr '\0' ' ' <"/proc/$(cat "$1/redis.pid")/cmdline" 2>/dev/null | grep -q ":$(cat "$1/redis.port")"
}

start() {
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    if alive "$folder"; then
        fail "a server runs already, with its pid in $folder/redis.pid: stop it first"
    fi
    binary=$(install)
    # Another process may take the free port first: then try another port.
    for _ in 1 2 3; do
        port=$(free_port)
        (serve "$port" "$folder" --logfile "$folder/redis.log" --pidfile "$folder/redis.pid" --daemonize yes) >/dev/null ||
            continue
        if answers "$port"; then
            echo "$port" >"$folder/redis.port"
            echo "redis://127.0.0.1:$port/0"
            return
        fi
    done
    fail "redis-server did not come up on 127.0.0.1: see $folder/redis.log"
}

answers() { # PORT: does it answer PONG within `seconds`?
    PORT=$1 SECONDS_LEFT=$seconds python3 - <<'PYTHON'
import os, socket, sys, time
until = time.monotonic() + float(os.environ["SECONDS_LEFT"])
while time.monotonic() < until:
    try:
        with socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 1) as peer:
            peer.sendall(b"PING\r\n")
            sys.exit(not peer.recv(16).startswith(b"+PONG"))
    except OSError:
        time.sleep(0.05)
sys.exit(1)
PYTHON
}

stop() {
    alive "$1" || fail "no redis-server was started in $1, or it has ended"
    pid=$(cat "$1/redis.pid")
    kill "$pid" # TERM: it closes its connections and removes its pid file
    left=$((seconds * 10))
    while alive "$1"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "redis-server, process $pid, does not end: run kill -9 $pid"
        sleep 0.1
    done
    rm -f "$1/redis.pid" "$1/redis.port"
}

case "${1:-}:$#" in
    install:1) install ;;
    start:2) start "$2" ;;
    stop:2) stop "$2" ;;
    try:1)
        binary=$(install)
        port=$(free_port)
        echo "redis.sh: redis://127.0.0.1:$port/0" >&2
        serve "$port" "$(mktemp -d)" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
