package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkaGo is segmentio/kafka-go: Writer and Reader, and Client for what an admin does.
type kafkaGo struct {
	addr   net.Addr
	client *kafka.Client
	serial atomic.Int64 // numbers the members of groups
}

func newKafkaGo(bootstrap string) client {
	addr := kafka.TCP(bootstrap)
	return &kafkaGo{addr: addr, client: &kafka.Client{Addr: addr, Timeout: callTimeout}}
}

func (k *kafkaGo) cannot() map[string]string {
	return map[string]string{
		"idempotent":        "the Writer has no idempotent mode",
		"group-cooperative": "no cooperative balancer",
	}
}

func (k *kafkaGo) showsEmptyAsNull() {}

// firstOf gives an error of a map that has one, perhaps nil, for each name.
func firstOf(byName map[string]error) error {
	for name, err := range byName {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (k *kafkaGo) createTopic(topic string, partitions int) error {
	topics := []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: int(replicas())}}
	answer, err := k.client.CreateTopics(call(), &kafka.CreateTopicsRequest{Topics: topics})
	if err != nil {
		return err
	}
	return firstOf(answer.Errors)
}

func (k *kafkaGo) deleteTopic(topic string) error {
	answer, err := k.client.DeleteTopics(call(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return firstOf(answer.Errors)
}

func (k *kafkaGo) topics() ([]string, error) {
	answer, err := k.client.Metadata(call(), &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range answer.Topics {
		names = append(names, t.Name)
	}
	return names, nil
}

type kafkaGoProducer struct{ *kafka.Writer }

// byPartition sends each message to the partition that the scenario put into it.
var byPartition = kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) })

func (k *kafkaGo) producer(acks int, codec string, _ bool) (producer, error) {
	codecs := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	return kafkaGoProducer{&kafka.Writer{
		Addr: k.addr, Balancer: byPartition, RequiredAcks: kafka.RequiredAcks(acks), Compression: codecs[codec], BatchTimeout: 5 * time.Millisecond,
	}}, nil
}

func (p kafkaGoProducer) produce(topic string, records []record) error {
	var out []kafka.Message
	for _, r := range records {
		m := kafka.Message{Topic: topic, WriterData: int(r.partition), Key: r.key, Value: r.value, Time: time.UnixMilli(r.timestamp)}
		for _, h := range r.headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.key, Value: h.value})
		}
		out = append(out, m)
	}
	return p.WriteMessages(call(), out...)
}

func (p kafkaGoProducer) close() error { return p.Close() }

func (k *kafkaGo) offsets(topic string, at int64) (map[int32]int64, error) {
	var requests []kafka.OffsetRequest
	for p := range partitions {
		requests = append(requests, kafka.OffsetRequest{Partition: p, Timestamp: at})
	}
	answer, err := k.client.ListOffsets(call(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: requests}})
	if err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	for _, p := range answer.Topics[topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		switch at {
		case earliest:
			found[int32(p.Partition)] = p.FirstOffset
		case latest:
			found[int32(p.Partition)] = p.LastOffset
		default:
			for offset := range p.Offsets {
				found[int32(p.Partition)] = offset
			}
		}
	}
	return found, nil
}

// kafkaGoReader gathers what Readers bring: one for each partition, or one that is a member of a group.
type kafkaGoReader struct {
	readers  []*kafka.Reader
	messages chan kafka.Message
	errs     chan error
	cancel   context.CancelFunc
}

func (k *kafkaGo) config(topic string) kafka.ReaderConfig {
	return kafka.ReaderConfig{Brokers: []string{k.addr.String()}, Topic: topic, MinBytes: 1, MaxBytes: 10 << 20, MaxWait: 100 * time.Millisecond}
}

// isTemporary tells whether to try again, as while the coordinator of a first group is being made: kafka-go leaves that
// to its caller.
func isTemporary(err error) bool {
	var refused kafka.Error
	return errors.As(err, &refused) && refused.Temporary()
}

func gather(readers ...*kafka.Reader) *kafkaGoReader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &kafkaGoReader{readers: readers, messages: make(chan kafka.Message, 4096), errs: make(chan error, 8), cancel: cancel}
	for _, reader := range readers {
		go func() {
			for {
				m, err := reader.FetchMessage(ctx)
				if ctx.Err() != nil {
					return
				}
				if isTemporary(err) {
					continue
				}
				if err != nil {
					r.errs <- err
					return
				}
				r.messages <- m
			}
		}()
	}
	return r
}

func (k *kafkaGo) reader(topic string, offsets map[int32]int64) (reader, error) {
	var readers []*kafka.Reader
	for p, offset := range offsets {
		c := k.config(topic)
		c.Partition = int(p)
		reader := kafka.NewReader(c)
		if err := reader.SetOffset(offset); err != nil {
			return nil, err
		}
		readers = append(readers, reader)
	}
	return gather(readers...), nil
}

func (r *kafkaGoReader) take(timeout time.Duration) ([]kafka.Message, error) {
	var taken []kafka.Message
	deadline := time.After(timeout)
	for {
		select {
		case m := <-r.messages:
			taken = append(taken, m)
			if len(r.messages) == 0 {
				return taken, nil
			}
		case err := <-r.errs:
			return nil, err
		case <-deadline:
			return taken, nil
		}
	}
}

func (r *kafkaGoReader) poll(timeout time.Duration) ([]fetched, error) {
	taken, err := r.take(timeout)
	return toFetched(taken), err
}

func toFetched(messages []kafka.Message) []fetched {
	var polled []fetched
	for _, m := range messages {
		got := record{int32(m.Partition), m.Key, m.Value, nil, m.Time.UnixMilli()}
		for _, h := range m.Headers {
			got.headers = append(got.headers, header{h.Key, h.Value})
		}
		polled = append(polled, fetched{m.Offset, got})
	}
	return polled
}

func (r *kafkaGoReader) close() error {
	r.cancel()
	var errs []error
	for _, reader := range r.readers {
		errs = append(errs, reader.Close())
	}
	return errors.Join(errs...)
}

// kafkaGoMember is a Reader in a group. It does not tell what it owns, so its member is found by client id.
type kafkaGoMember struct {
	*kafkaGoReader
	k           *kafkaGo
	group       string
	clientID    string
	uncommitted []kafka.Message
}

func (k *kafkaGo) member(group, topic, _ string) (member, error) {
	m := &kafkaGoMember{k: k, group: group, clientID: fmt.Sprintf("member-%d", k.serial.Add(1))}
	c := k.config(topic)
	c.GroupID, c.StartOffset = group, kafka.FirstOffset
	c.GroupBalancers = []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}
	c.HeartbeatInterval, c.SessionTimeout, c.JoinGroupBackoff = 300*time.Millisecond, 10*time.Second, 100*time.Millisecond
	c.Dialer = &kafka.Dialer{ClientID: m.clientID, Timeout: callTimeout}
	m.kafkaGoReader = gather(kafka.NewReader(c))
	return m, nil
}

func (m *kafkaGoMember) poll(timeout time.Duration) ([]fetched, error) {
	taken, err := m.take(timeout)
	m.uncommitted = append(m.uncommitted, taken...)
	return toFetched(taken), err
}

func (m *kafkaGoMember) assignment() ([]int32, error) {
	described, err := m.k.describe(m.group)
	if isTemporary(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var owned []int32
	for _, one := range described.Members {
		if one.ClientID != m.clientID {
			continue
		}
		for _, topic := range one.MemberAssignments.Topics {
			for _, p := range topic.Partitions {
				owned = append(owned, int32(p))
			}
		}
	}
	return owned, nil
}

func (m *kafkaGoMember) commit() error {
	err := m.readers[0].CommitMessages(call(), m.uncommitted...)
	m.uncommitted = nil
	return err
}

func (k *kafkaGo) groups() ([]string, error) {
	answer, err := k.client.ListGroups(call(), &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range answer.Groups {
		names = append(names, g.GroupID)
	}
	return names, answer.Error
}

func (k *kafkaGo) describe(group string) (kafka.DescribeGroupsResponseGroup, error) {
	answer, err := k.client.DescribeGroups(call(), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return kafka.DescribeGroupsResponseGroup{}, err
	}
	return answer.Groups[0], answer.Groups[0].Error
}

func (k *kafkaGo) describeGroup(group string) (string, int, error) {
	described, err := k.describe(group)
	return described.GroupState, len(described.Members), err
}

func (k *kafkaGo) deleteGroup(group string) error {
	answer, err := k.client.DeleteGroups(call(), &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return firstOf(answer.Errors)
}
