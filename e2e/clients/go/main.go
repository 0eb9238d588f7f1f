// Command clients runs the scenario of the client matrix with a Go client: `clients CLIENT BOOTSTRAP PREFIX`.
//
// CLIENT is franz-go, kafka-go or sarama-VERSION (the version of Kafka that sarama is configured for, or `max`). Prints
// one line a step; exits 0 only if none failed. The steps are those of every language, see ../README.md.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

func (s *scenario) step(name string, action func() error) {
	if reason, ok := s.client.cannot()[name]; ok {
		fmt.Printf("step %s n/a %s\n", name, reason)
		return
	}
	began := time.Now()
	if err := action(); err != nil {
		s.failed = true
		fmt.Printf("step %s FAIL %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Printf("step %s ok %.2f s\n", name, time.Since(began).Seconds())
}

func (s *scenario) run() bool {
	s.step("create-topic", s.createTopic)
	// acks=0 last: a broker may still be learning of a new topic, and what it refuses then nobody sends again.
	s.step("produce-acks-all", func() error { return s.produceAcks(-1) })
	s.step("produce-acks-1", func() error { return s.produceAcks(1) })
	s.step("produce-acks-0", func() error { return s.produceAcks(0) })
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		s.step("codec-"+codec, func() error { return s.codec(codec) })
	}
	s.step("headers", s.headers)
	s.step("header-null", s.headerNull)
	s.step("header-same-key", s.headerSameKey)
	s.step("nulls", s.nulls)
	s.step("null-record", s.nullRecord)
	s.step("large", s.large)
	s.step("idempotent", s.idempotent)
	s.step("consume-start", s.consumeStart)
	s.step("consume-end", s.consumeEnd)
	s.step("consume-timestamp", s.consumeTimestamp)
	s.step("group-eager", func() error { return s.group("range") })
	s.step("group-cooperative", func() error { return s.group("cooperative-sticky") })
	s.step("list-groups", s.listGroups)
	s.step("describe-group", s.describeGroup)
	s.step("delete-group", s.deleteGroup)
	s.step("delete-topic", s.deleteTopic)
	return !s.failed
}

func open(name, bootstrap string) (client, error) {
	switch {
	case name == "franz-go":
		return newFranz(bootstrap)
	case name == "kafka-go":
		return newKafkaGo(bootstrap), nil
	case strings.HasPrefix(name, "sarama-"):
		return newSarama(bootstrap, strings.TrimPrefix(name, "sarama-"))
	}
	return nil, fmt.Errorf("no client named %s", name)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: clients CLIENT BOOTSTRAP PREFIX")
		os.Exit(2)
	}
	client, err := open(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	s := &scenario{client: client, topic: os.Args[3], clock: time.Now().Add(-50 * time.Minute).UnixMilli()}
	if !s.run() {
		os.Exit(1)
	}
}
