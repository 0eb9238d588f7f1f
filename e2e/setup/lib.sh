# shellcheck shell=bash
# Where the tests' clients lie (sourced, bash). Everything is under one cache, never in the clone; each part's folder is
# named after what it is made from, so a changed pin or source makes a new one. Used by install, ../clients and ../cases.
E2E=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TAFFRAIL_CACHE=${TAFFRAIL_CACHE:-$HOME/.cache/taffrail}
export TAFFRAIL_CACHE

# made_from FILE...: a short name for the contents of the files.
made_from() { cat "$@" | sha256sum | cut -c1-12; }

PYTHON_ENV=$TAFFRAIL_CACHE/python-$(made_from "$E2E/clients/python/requirements.txt")
NODE_ENV=$TAFFRAIL_CACHE/node-$(made_from "$E2E/clients/node/package-lock.json")
GO_BIN=$TAFFRAIL_CACHE/go-$(made_from "$E2E"/clients/go/go.sum "$E2E"/clients/go/*.go)
LIBRDKAFKA=$TAFFRAIL_CACHE/librdkafka-$(made_from "$E2E"/clients/librdkafka/Cargo.*)
JAVA_CLASSES=$TAFFRAIL_CACHE/java-$(made_from "$E2E"/clients/java/*/*.java "$E2E"/clients/java/*.pom "$E2E/peer/pom.xml")

# The client matrix: every name that ../clients/run takes, with the part of the set-up that it needs.
CLIENTS='
java-4.4 java
java-2.8 java
java-2.1 java
kafka-tools java
confluent-kafka python
kafka-python python
aiokafka python
kcat kcat
librdkafka-1.9.2 librdkafka
kafkajs node
platformatic node
franz-go go
kafka-go go
sarama-0.11.0.0 go
sarama-1.0.0 go
sarama-2.1.0 go
sarama-3.6.0 go
sarama-max go
'

# part_dir PART: the folder of a part; it is complete when it holds the file .complete.
part_dir() {
  case $1 in
    python) echo "$PYTHON_ENV" ;;
    node) echo "$NODE_ENV" ;;
    go) echo "$GO_BIN" ;;
    java) echo "$JAVA_CLASSES" ;;
    librdkafka) echo "$LIBRDKAFKA" ;;
  esac
}

# missing PART: prints why a part cannot be used; nothing, and status 1, if it can.
missing() {
  if [ "$1" = kcat ]; then
    if command -v kcat >/dev/null; then return 1; fi
    echo 'no command kcat (package kcat)'
  else
    if [ -e "$(part_dir "$1")/.complete" ]; then return 1; fi
    if [ -s "$(part_dir "$1").why" ]; then cat "$(part_dir "$1").why"; else echo 'not installed: run e2e/setup/install'; fi
  fi
}

# node_command: the Node of the part node (the npm registry has it as a package), else the one in PATH.
node_command() {
  local own
  for own in "$NODE_ENV"/node_modules/node-*/bin/node; do if [ -x "$own" ]; then echo "$own"; return; fi; done
  echo node
}

# node_sources: a copy of the Node clients' sources beside their node_modules, as imports are looked up from there.
node_sources() {
  local copy; copy=$NODE_ENV/sources-$(made_from "$E2E"/clients/node/*.mjs)
  if [ ! -d "$copy" ]; then
    local new; new=$(mktemp -d "$NODE_ENV/new.XXXXXX")
    cp "$E2E"/clients/node/*.mjs "$new/"
    mv -T "$new" "$copy" 2>/dev/null || rm -rf "$new" # another run was quicker
  fi
  echo "$copy"
}
