#!/usr/bin/env bash
# Check that there is a Java for Spark 4 (17 or newer), and install one as root where apt is available.
set -u

java_version() {
    local java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    command -v "$java" >/dev/null || return 1
    "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1
}

recent() { local found; found=$(java_version) && [ "${found:-0}" -ge 17 ]; }

recent && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing Java 17 (Debian's openjdk-17-jre-headless)" >&2
    apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless >/dev/null
    unset JAVA_HOME
    recent && exit 0
fi
echo "Spark needs Java 17 or newer, found: $(java_version || echo none). Install a JRE and put it on PATH, or set JAVA_HOME." >&2
exit 1
