package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

const (
	earliest, latest = int64(-2), int64(-1)
	partitions       = 3
	// callTimeout bounds one call of a client, stepTimeout what a step waits for.
	callTimeout = 15 * time.Second
	stepTimeout = 15 * time.Second
)

type header struct {
	key   string
	value []byte // nil is a null value
}

// record is what a client must send and bring back; nil keys and values are nulls.
type record struct {
	partition  int32
	key, value []byte
	headers    []header
	timestamp  int64
}

func (r record) String() string {
	value := r.value
	if len(value) > 24 {
		value = value[:24]
	}
	return fmt.Sprintf("%d key=%s value=%s (%d bytes) headers=%v ts=%d", r.partition, show(r.key), show(value), len(r.value), r.headers, r.timestamp)
}

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// same tells whether two byte strings are equal, null and empty being different.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

func (r record) equals(o record) bool {
	return r.partition == o.partition && r.timestamp == o.timestamp && same(r.key, o.key) && same(r.value, o.value) &&
		slices.EqualFunc(r.headers, o.headers, func(a, b header) bool { return a.key == b.key && same(a.value, b.value) })
}

// fetched is a record at the offset where it lay.
type fetched struct {
	offset int64
	record record
}

type producer interface {
	// produce sends all records and returns when each is acknowledged (with acks=0: written to the socket).
	produce(topic string, records []record) error
	close() error
}

type reader interface {
	// poll gives what has come, waiting up to the timeout for the first record.
	poll(timeout time.Duration) ([]fetched, error)
	close() error
}

type member interface {
	reader
	assignment() ([]int32, error)
	// commit commits the offsets after the records polled so far.
	commit() error
}

// replicas is how many of each partition topics are made with: REPLICAS of the environment, or 1.
func replicas() int16 {
	count, err := strconv.ParseInt(os.Getenv("REPLICAS"), 10, 16)
	if err != nil {
		return 1
	}
	return int16(count)
}

// client is what an adapter offers.
type client interface {
	// cannot names the steps that the client has no way to do, with the reason.
	cannot() map[string]string
	createTopic(topic string, partitions int) error
	deleteTopic(topic string) error
	topics() ([]string, error)
	producer(acks int, codec string, idempotent bool) (producer, error)
	// offsets looks up where each partition stands at `earliest`, `latest` or a timestamp in ms.
	offsets(topic string, at int64) (map[int32]int64, error)
	reader(topic string, offsets map[int32]int64) (reader, error)
	member(group, topic, assignor string) (member, error)
	groups() ([]string, error)
	describeGroup(group string) (state string, members int, err error)
	deleteGroup(group string) error
}

// showsEmptyAsNull marks a client whose consumer gives null for an empty key, value or header.
type showsEmptyAsNull interface{ showsEmptyAsNull() }
