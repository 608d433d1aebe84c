#!/usr/bin/env bash
# Print a Python 3.11 or newer that can make virtual environments. Install one as root where apt is available.
set -u

usable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if command -v "$name" >/dev/null && usable "$name"; then command -v "$name"; return 0; fi
    done
    return 1
}

find_python && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-venv; } >&2 && find_python && exit 0
fi
echo "Python 3.11 or newer with venv is missing: install it, or set PYTHON=/path/to/python." >&2
exit 1
