# shellcheck shell=bash
# Common to the peer's scripts (sourced, bash). Writes only under $PEER_CACHE and $PEER_STATE.
PEER_HOME=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PEER_CACHE=${PEER_CACHE:-${TAFFRAIL_CACHE:-$HOME/.cache/taffrail}/peer}
PEER_STATE=${PEER_STATE:-/tmp/taffrail-peer}
PEER_LIBS=$PEER_CACHE/libs-$(sha256sum "$PEER_HOME/pom.xml" | cut -c1-16)

die() { echo "${0##*/}: $*" >&2; exit 1; }

# The JVM: PEER_JAVA_HOME, else the newest JDK that Debian's folder of JVMs holds, else JAVA_HOME or PATH.
peer_java() {
  if [ -n "${PEER_JAVA_HOME:-}" ]; then echo "$PEER_JAVA_HOME/bin/java"; return; fi
  local best=0 java='' home v
  for home in /usr/lib/jvm/*/; do
    [ -x "$home/bin/java" ] && [ -r "$home/release" ] || continue
    v=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
    if [ "${v:-0}" -gt "$best" ]; then best=$v java=${home%/}/bin/java; fi
  done
  [ -n "$java" ] || java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  echo "$java"
}

# Runs a command under an exclusive lock, so that parallel test processes fetch or build once.
with_lock() { local name=$1; shift; mkdir -p "$PEER_CACHE"; ( flock 9; "$@" ) 9>"$PEER_CACHE/$name.lock"; }

need_libs() { [ -e "$PEER_LIBS/.complete" ] || bash "$PEER_HOME/fetch" >&2 || die "the jars could not be fetched"; }

# node_pid NAME: the pid of a node that `up` started, if it still runs and is that very process.
node_pid() {
  local pid; [ -e "$PEER_STATE/$1/pid" ] || return 1; pid=$(cat "$PEER_STATE/$1/pid" 2>/dev/null) || return 1
  [ -e "/proc/$pid/cmdline" ] || return 1
  tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF -- "-Dpeer.node=$PEER_STATE/$1" || return 1
  echo "$pid"
}
node_names() { local d; for d in "$PEER_STATE"/node-*/; do [ -d "$d" ] && basename "$d"; done | sort -t- -k2n; }
