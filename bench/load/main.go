// Command load puts a cheap, repeatable load on any broker that speaks the Kafka protocol and
// reports what the load costs the server's processes. It is meant to be pointed at Apache Kafka
// and at its rivals alike, on the same machine, over loopback.
//
// Produce and fetch workloads send requests that were encoded beforehand, over plain sockets, so
// that the client takes little of the machine. End-to-end latency, groups and administration go
// through franz-go, a real client.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

const help = `usage: load COMMAND [flags]
  measure   run the workloads and report costs, rates and latencies
  ack       wait until a produce is acknowledged; print the seconds since -since and the time
  fill      create a topic and put the same amount into each partition
  create    create a topic; print the seconds until every partition has a leader and answers
  ready     wait until every partition of a topic answers ListOffsets; print the seconds since -since and the time
  failover  produce steadily to one partition, kill its leader, print how long acks were away
  faults    keep a probe without back-off running; take orders (settle, resumed NS, move, change NS) from the input
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, help)
		os.Exit(2)
	}
	commands := map[string]func(context.Context, *flag.FlagSet, []string) error{
		"measure": measureCommand, "ack": ackCommand, "fill": fillCommand, "create": createCommand, "ready": readyCommand, "failover": failoverCommand, "faults": faultsCommand,
	}
	run, ok := commands[os.Args[1]]
	if !ok {
		fmt.Fprint(os.Stderr, help)
		os.Exit(2)
	}
	if err := run(context.Background(), flag.NewFlagSet(os.Args[1], flag.ExitOnError), os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "load %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func splitSeeds(s string) []string { return strings.Split(s, ",") }

// sinceFlag turns Unix nanoseconds into a time; zero means now.
func sinceFlag(ns int64) time.Time {
	if ns == 0 {
		return time.Now()
	}
	return time.Unix(0, ns)
}
