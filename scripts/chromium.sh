#!/bin/sh
# A real browser for the tests of the web pages: Debian's package chromium, without a screen.
#
#   scripts/chromium.sh install      install it if it is missing (needs root and apt), and print its path
#   scripts/chromium.sh find         print its path, or fail
#
# CHROMIUM names another binary to use. On failure the script prints one sentence on stderr and exits with 1.
set -eu

fail() {
    echo "chromium.sh: $1" >&2
    exit 1
}

find() {
    if [ -n "${CHROMIUM:-}" ]; then
        [ -x "$CHROMIUM" ] || fail "CHROMIUM is not an executable file: $CHROMIUM"
        echo "$CHROMIUM"
        return
    fi
    command -v chromium || command -v chromium-browser ||
        fail "chromium is not installed: run scripts/chromium.sh install"
}

install() {
    if [ -z "${CHROMIUM:-}" ] && ! command -v chromium >/dev/null 2>&1 && ! command -v chromium-browser >/dev/null 2>&1; then
        command -v apt-get >/dev/null 2>&1 || fail "chromium is not installed, and there is no apt-get to install it"
        [ "$(id -u)" = 0 ] || fail "chromium is not installed, and only root can install it: apt-get install chromium"
        echo "chromium.sh: installing Debian's package chromium" >&2
        get install || { get update && get install; } || fail "apt-get could not install chromium: see above"
    fi
    find
}

get() {
    set -- "$1" $([ "$1" = update ] || echo chromium fonts-dejavu-core)
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=120 --no-install-recommends "$@" \
        >/dev/null </dev/null
}

case "${1:-}:$#" in
    install:1) install ;;
    find:1) find ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
