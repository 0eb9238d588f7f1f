package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// saramaClient is sarama, told the version of Kafka that it shall speak to: it picks its request versions by that alone.
type saramaClient struct {
	bootstrap string
	version   sarama.KafkaVersion
	client    sarama.Client
	admin     sarama.ClusterAdmin
}

func newSarama(bootstrap, version string) (client, error) {
	s := &saramaClient{bootstrap: bootstrap, version: sarama.MaxVersion}
	var err error
	if version != "max" {
		if s.version, err = sarama.ParseKafkaVersion(version); err != nil {
			return nil, err
		}
	}
	if s.client, err = sarama.NewClient([]string{bootstrap}, s.config()); err != nil {
		return nil, err
	}
	s.admin, err = sarama.NewClusterAdminFromClient(s.client)
	return s, err
}

func (s *saramaClient) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = s.version
	c.Net.DialTimeout, c.Net.ReadTimeout = callTimeout, callTimeout
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	c.Consumer.Return.Errors = true
	return c
}

func (s *saramaClient) cannot() map[string]string {
	no := map[string]string{"group-cooperative": "no cooperative assignor"}
	if !s.version.IsAtLeast(sarama.V2_1_0_0) {
		no["codec-zstd"] = "needs the version 2.1.0"
	}
	if !s.version.IsAtLeast(sarama.V1_1_0_0) {
		no["delete-group"] = "needs the version 1.1.0"
	}
	return no
}

func (s *saramaClient) createTopic(topic string, partitions int) error {
	return s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: replicas()}, false)
}

func (s *saramaClient) deleteTopic(topic string) error { return s.admin.DeleteTopic(topic) }

func (s *saramaClient) topics() ([]string, error) {
	// Not the admin's ListTopics: it also asks for configurations, at versions below 1.1.0 in a way that Kafka 4 refuses.
	if err := s.client.RefreshMetadata(); err != nil {
		return nil, err
	}
	return s.client.Topics()
}

type saramaProducer struct{ sarama.SyncProducer }

func (s *saramaClient) producer(acks int, codec string, idempotent bool) (producer, error) {
	c := s.config()
	c.Producer.RequiredAcks = sarama.RequiredAcks(acks)
	if err := c.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return nil, err
	}
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Return.Successes = true
	c.Producer.Flush.Frequency = 5 * time.Millisecond
	if idempotent {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	p, err := sarama.NewSyncProducer([]string{s.bootstrap}, c)
	return saramaProducer{p}, err
}

// encoder keeps null apart from empty: a nil Encoder is a null.
func encoder(b []byte) sarama.Encoder {
	if b == nil {
		return nil
	}
	return sarama.ByteEncoder(b)
}

func (p saramaProducer) produce(topic string, records []record) error {
	var out []*sarama.ProducerMessage
	for _, r := range records {
		m := &sarama.ProducerMessage{
			Topic: topic, Partition: r.partition, Key: encoder(r.key), Value: encoder(r.value), Timestamp: time.UnixMilli(r.timestamp),
		}
		for _, h := range r.headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.key), Value: h.value})
		}
		out = append(out, m)
	}
	return p.SendMessages(out)
}

func (p saramaProducer) close() error { return p.Close() }

func (s *saramaClient) offsets(topic string, at int64) (map[int32]int64, error) {
	found := map[int32]int64{}
	for p := range int32(partitions) {
		offset, err := s.client.GetOffset(topic, p, at)
		if err != nil {
			return nil, err
		}
		found[p] = offset
	}
	return found, nil
}

// saramaReader gathers in one channel what sarama hands out in one channel a partition.
type saramaReader struct {
	messages chan *sarama.ConsumerMessage
	errs     chan error
	closing  func() error
}

func newSaramaReader() *saramaReader {
	return &saramaReader{messages: make(chan *sarama.ConsumerMessage, 4096), errs: make(chan error, 64)}
}

func (s *saramaClient) reader(topic string, offsets map[int32]int64) (reader, error) {
	consumer, err := sarama.NewConsumer([]string{s.bootstrap}, s.config())
	if err != nil {
		return nil, err
	}
	r := newSaramaReader()
	var opened []sarama.PartitionConsumer
	r.closing = func() error {
		for _, pc := range opened {
			pc.AsyncClose()
		}
		return consumer.Close()
	}
	for p, offset := range offsets {
		pc, err := consumer.ConsumePartition(topic, p, offset)
		if err != nil {
			return nil, err
		}
		opened = append(opened, pc)
		go func() {
			for m := range pc.Messages() {
				r.messages <- m
			}
		}()
		go func() {
			for err := range pc.Errors() {
				r.errs <- err
			}
		}()
	}
	return r, nil
}

func (r *saramaReader) poll(timeout time.Duration) ([]fetched, error) {
	var polled []fetched
	deadline := time.After(timeout)
	for {
		select {
		case m := <-r.messages:
			got := record{m.Partition, m.Key, m.Value, nil, m.Timestamp.UnixMilli()}
			for _, h := range m.Headers {
				got.headers = append(got.headers, header{string(h.Key), h.Value})
			}
			polled = append(polled, fetched{m.Offset, got})
			if len(r.messages) == 0 {
				return polled, nil
			}
		case err := <-r.errs:
			return nil, err
		case <-deadline:
			return polled, nil
		}
	}
}

func (r *saramaReader) close() error { return r.closing() }

// saramaMember is a member of a group: sarama calls it back with a session for each generation.
type saramaMember struct {
	*saramaReader
	topic string

	mu      sync.Mutex
	session sarama.ConsumerGroupSession // nil between generations
	next    map[int32]int64             // offsets after the polled records
}

func (s *saramaClient) member(group, topic, assignor string) (member, error) {
	c := s.config()
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	c.Consumer.Group.Session.Timeout = 10 * time.Second
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	joined, err := sarama.NewConsumerGroup([]string{s.bootstrap}, group, c)
	if err != nil {
		return nil, err
	}
	m := &saramaMember{saramaReader: newSaramaReader(), topic: topic, next: map[int32]int64{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	m.closing = func() error {
		cancel()
		<-done
		return joined.Close()
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := joined.Consume(ctx, []string{topic}, m); err != nil && !errors.Is(err, context.Canceled) {
				m.errs <- err
				return
			}
		}
	}()
	return m, nil
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = session
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = nil
	return nil
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m.messages <- message
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *saramaMember) poll(timeout time.Duration) ([]fetched, error) {
	polled, err := m.saramaReader.poll(timeout)
	for _, f := range polled {
		m.next[f.record.partition] = f.offset + 1
	}
	return polled, err
}

func (m *saramaMember) assignment() ([]int32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return nil, nil
	}
	return m.session.Claims()[m.topic], nil
}

func (m *saramaMember) commit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return errors.New("commit between two generations")
	}
	for p, offset := range m.next {
		m.session.MarkOffset(m.topic, p, offset, "")
	}
	m.session.Commit()
	clear(m.next)
	return nil
}

func (s *saramaClient) groups() ([]string, error) {
	groups, err := s.admin.ListConsumerGroups()
	return slices.Collect(maps.Keys(groups)), err
}

func (s *saramaClient) describeGroup(group string) (string, int, error) {
	described, err := s.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return "", 0, err
	}
	if described[0].Err != sarama.ErrNoError {
		return "", 0, fmt.Errorf("describe: %w", described[0].Err)
	}
	return described[0].State, len(described[0].Members), nil
}

func (s *saramaClient) deleteGroup(group string) error { return s.admin.DeleteConsumerGroup(group) }
