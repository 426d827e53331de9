#!/bin/sh
# Runs a program in a new LTTng session that records all its events to a temporary folder.
# usage: lttng.sh PROGRAM ARGUMENTS…
set -eu
folder=$(mktemp -d)
session=stopworld-bench-$$
daemon=
if ! lttng list >/dev/null 2>&1; then
    lttng-sessiond --daemonize --no-kernel --pidfile="$folder/daemon.pid" >/dev/null 2>&1
    daemon=$folder/daemon.pid
fi
finish() {
    lttng destroy "$session" >/dev/null 2>&1 || true
    if [ -n "$daemon" ]; then kill "$(cat "$daemon")" 2>/dev/null || true; fi
    rm -rf "$folder"
}
trap finish EXIT
lttng create "$session" --output="$folder/trace" >/dev/null
lttng enable-channel --userspace --session="$session" --subbuf-size=1M --num-subbuf=8 --tracefile-size=64M --tracefile-count=2 all >/dev/null
lttng enable-event --userspace --session="$session" --channel=all 'stopworld_bench:*' >/dev/null
lttng start "$session" >/dev/null
"$@"
