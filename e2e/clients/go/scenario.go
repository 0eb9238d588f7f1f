package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"time"
)

// scenario runs the steps of the client matrix (../README.md) with one client.
type scenario struct {
	client client
	topic  string
	// groups are the groups made so far; each has a topic of its own name.
	groups []string
	// expected is what the topic must hold, in order of offsets, for each partition.
	expected [partitions][]record
	// clock gives every record a time of its own, so that a search by timestamp has one right answer.
	clock  int64
	failed bool
}

// until calls condition until it says yes or fails.
func until(what string, condition func() (bool, error)) error {
	for deadline := time.Now().Add(stepTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if done, err := condition(); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: not within %s", what, stepTimeout)
}

func (s *scenario) record(partition int, key, value []byte, headers ...header) record {
	s.clock += 1000
	return record{int32(partition), key, value, headers, s.clock}
}

func (s *scenario) send(topic string, records []record, acks int, codec string, idempotent bool) error {
	producer, err := s.client.producer(acks, codec, idempotent)
	if err != nil {
		return err
	}
	if err := producer.produce(topic, records); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return producer.close()
}

// produce sends, then reads back from the first new offset, so that a fault shows in the step that made it.
func (s *scenario) produce(records []record, acks int, codec string, idempotent bool) error {
	starts := map[int32]int64{}
	for _, r := range records {
		starts[r.partition] = int64(len(s.expected[r.partition]))
	}
	if err := s.send(s.topic, records, acks, codec, idempotent); err != nil {
		return err
	}
	for _, r := range records {
		s.expected[r.partition] = append(s.expected[r.partition], r)
	}
	return s.readAndCompare(starts)
}

// asSeen is a record as the client can show it.
func (s *scenario) asSeen(r record) record {
	if _, ok := s.client.(showsEmptyAsNull); !ok {
		return r
	}
	null := func(b []byte) []byte {
		if len(b) == 0 {
			return nil
		}
		return b
	}
	r.key, r.value, r.headers = null(r.key), null(r.value), slices.Clone(r.headers)
	for i := range r.headers {
		r.headers[i].value = null(r.headers[i].value)
	}
	return r
}

// readAndCompare reads from starts to the expected end of those partitions; offsets must be dense, every byte equal.
func (s *scenario) readAndCompare(starts map[int32]int64) error {
	position := maps.Clone(starts)
	reader, err := s.client.reader(s.topic, starts)
	if err != nil {
		return err
	}
	err = until("reading back", func() (bool, error) {
		polled, err := reader.poll(200 * time.Millisecond)
		if err != nil {
			return false, err
		}
		for _, got := range polled {
			p := got.record.partition
			if got.offset != position[p] {
				return false, fmt.Errorf("partition %d: offset %d, not %d", p, got.offset, position[p])
			}
			if got.offset >= int64(len(s.expected[p])) {
				return false, fmt.Errorf("more than was produced: %s", got.record)
			}
			if want := s.expected[p][got.offset]; !got.record.equals(s.asSeen(want)) {
				return false, fmt.Errorf("at offset %d: got %s, produced %s", got.offset, got.record, want)
			}
			position[p]++
		}
		for p, at := range position {
			if at < int64(len(s.expected[p])) {
				return false, nil
			}
		}
		return true, nil
	})
	return errors.Join(err, reader.close())
}

func (s *scenario) createTopic() error {
	if err := s.client.createTopic(s.topic, partitions); err != nil {
		return err
	}
	return s.listed(true, s.client.topics, s.topic)
}

// listed waits until all names are in a listing, or none is.
func (s *scenario) listed(want bool, list func() ([]string, error), names ...string) error {
	return until(fmt.Sprintf("listed %t: %v", want, names), func() (bool, error) {
		have, err := list()
		return !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(have, n) != want }), err
	})
}

func (s *scenario) produceAcks(acks int) error {
	var records []record
	for i := range 30 {
		records = append(records, s.record(i%partitions, fmt.Appendf(nil, "key-%d", i), fmt.Appendf(nil, "acks %d value %d", acks, i)))
	}
	return s.produce(records, acks, "none", false)
}

func (s *scenario) codec(codec string) error {
	var records []record
	for i := range 200 {
		records = append(records, s.record(1, fmt.Appendf(nil, "k%d", i), []byte(strings.Repeat(fmt.Sprintf("%s %d ", codec, i), 50))))
	}
	return s.produce(records, -1, codec, false)
}

func (s *scenario) plain(records ...record) error { return s.produce(records, -1, "none", false) }

func (s *scenario) headers() error {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	return s.plain(s.record(0, []byte("one"), []byte("v"), header{"a", []byte("1")}),
		s.record(0, []byte("several"), []byte("v"), header{"empty", []byte{}}, header{"bytes", all}))
}

func (s *scenario) headerNull() error {
	return s.plain(s.record(0, []byte("null header"), []byte("v"), header{"null", nil}, header{"empty", []byte{}}))
}

func (s *scenario) headerSameKey() error {
	first, second := header{"x", []byte("first")}, header{"x", []byte("second")}
	return s.plain(s.record(0, []byte("same key"), []byte("v"), first, second, first))
}

func (s *scenario) nulls() error {
	return s.plain(s.record(2, nil, []byte("null key")), s.record(2, []byte("null value"), nil),
		s.record(2, []byte("empty value"), []byte{}), s.record(2, []byte{}, []byte("empty key")))
}

func (s *scenario) nullRecord() error { return s.plain(s.record(2, nil, nil)) }

func (s *scenario) large() error {
	noise := rand.New(rand.NewSource(7))
	var records []record
	for p := range partitions {
		value := make([]byte, 900*1024)
		noise.Read(value)
		records = append(records, s.record(p, []byte("large"), value))
	}
	return s.plain(records...)
}

func (s *scenario) idempotent() error {
	var records []record
	for i := range 300 {
		records = append(records, s.record(i%partitions, fmt.Appendf(nil, "i%d", i), fmt.Appendf(nil, "idempotent %d", i)))
	}
	return s.produce(records, -1, "none", true)
}

// expectOffsets looks up offsets at a time and compares them.
func (s *scenario) expectOffsets(at int64, want func(p int32) int64) (map[int32]int64, error) {
	found, err := s.client.offsets(s.topic, at)
	if err != nil {
		return nil, err
	}
	for p := range int32(partitions) {
		if offset, ok := found[p]; !ok || offset != want(p) {
			return nil, fmt.Errorf("offsets at %d: got %v, expected %d in partition %d", at, found, want(p), p)
		}
	}
	return found, nil
}

func (s *scenario) consumeStart() error {
	starts, err := s.expectOffsets(earliest, func(int32) int64 { return 0 })
	if err != nil {
		return err
	}
	return s.readAndCompare(starts)
}

func (s *scenario) consumeEnd() error {
	ends, err := s.expectOffsets(latest, func(p int32) int64 { return int64(len(s.expected[p])) })
	if err != nil {
		return err
	}
	reader, err := s.client.reader(s.topic, ends)
	if err != nil {
		return err
	}
	if polled, err := reader.poll(200 * time.Millisecond); err != nil || len(polled) > 0 {
		return fmt.Errorf("past the end: %v, error %w", polled, err)
	}
	if err := reader.close(); err != nil {
		return err
	}
	var records []record
	for p := range partitions {
		records = append(records, s.record(p, []byte("end"), []byte("the only one")))
	}
	return s.plain(records...)
}

func (s *scenario) consumeTimestamp() error {
	// A time between two records of partition 1, in the middle of its compressed batches.
	middle := s.expected[1][len(s.expected[1])/2].timestamp - 500
	found, err := s.expectOffsets(middle, func(p int32) int64 {
		return int64(slices.IndexFunc(s.expected[p], func(r record) bool { return r.timestamp >= middle }))
	})
	if err != nil {
		return err
	}
	return s.readAndCompare(found)
}
