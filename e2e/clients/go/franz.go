package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is franz-go, with its admin package.
type franz struct {
	bootstrap string
	admin     *kadm.Client
}

func newFranz(bootstrap string) (client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return nil, err
	}
	return &franz{bootstrap, kadm.NewClient(cl)}, nil
}

// call gives a context for one call.
func call() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	time.AfterFunc(callTimeout, cancel)
	return ctx
}

func (f *franz) cannot() map[string]string { return nil }

func (f *franz) createTopic(topic string, partitions int) error {
	_, err := f.admin.CreateTopic(call(), int32(partitions), replicas(), nil, topic)
	return err
}

func (f *franz) deleteTopic(topic string) error {
	_, err := f.admin.DeleteTopic(call(), topic)
	return err
}

func (f *franz) topics() ([]string, error) {
	topics, err := f.admin.ListTopics(call())
	return topics.Names(), err
}

type franzProducer struct{ *kgo.Client }

func (f *franz) producer(acks int, codec string, idempotent bool) (producer, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	levels := map[int]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}
	options := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap), kgo.RequiredAcks(levels[acks]), kgo.ProducerBatchCompression(codecs[codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(options...)
	return franzProducer{cl}, err
}

func (p franzProducer) produce(topic string, records []record) error {
	var out []*kgo.Record
	for _, r := range records {
		to := &kgo.Record{Topic: topic, Partition: r.partition, Key: r.key, Value: r.value, Timestamp: time.UnixMilli(r.timestamp)}
		for _, h := range r.headers {
			to.Headers = append(to.Headers, kgo.RecordHeader{Key: h.key, Value: h.value})
		}
		out = append(out, to)
	}
	return p.ProduceSync(call(), out...).FirstErr()
}

func (p franzProducer) close() error {
	p.Client.Close()
	return nil
}

func (f *franz) offsets(topic string, at int64) (map[int32]int64, error) {
	var listed kadm.ListedOffsets
	var err error
	switch at {
	case earliest:
		listed, err = f.admin.ListStartOffsets(call(), topic)
	case latest:
		listed, err = f.admin.ListEndOffsets(call(), topic)
	default:
		listed, err = f.admin.ListOffsetsAfterMilli(call(), at, topic)
	}
	if err == nil {
		err = listed.Error()
	}
	found := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { found[o.Partition] = o.Offset })
	return found, err
}

// franzReader is a consumer, of a group or not; for a group it keeps account of what it owns.
type franzReader struct {
	*kgo.Client
	mu    sync.Mutex
	owned map[int32]bool
}

func (f *franz) reader(topic string, offsets map[int32]int64) (reader, error) {
	at := map[int32]kgo.Offset{}
	for p, offset := range offsets {
		at[p] = kgo.NewOffset().At(offset)
	}
	consume := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at})
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap), consume, kgo.FetchMaxWait(100*time.Millisecond))
	return &franzReader{Client: cl}, err
}

func (f *franz) member(group, topic, assignor string) (member, error) {
	m := &franzReader{owned: map[int32]bool{}}
	account := func(own bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range changed[topic] {
				if own {
					m.owned[p] = true
				} else {
					delete(m.owned, p)
				}
			}
		}
	}
	balancer := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()}[assignor]
	var err error
	m.Client, err = kgo.NewClient(
		kgo.SeedBrokers(f.bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.SessionTimeout(10*time.Second), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(account(true)), kgo.OnPartitionsRevoked(account(false)), kgo.OnPartitionsLost(account(false)),
	)
	return m, err
}

func (r *franzReader) poll(timeout time.Duration) ([]fetched, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	fetches := r.PollFetches(ctx)
	for _, e := range fetches.Errors() {
		if ctx.Err() == nil {
			return nil, fmt.Errorf("fetch of partition %d: %w", e.Partition, e.Err)
		}
	}
	var polled []fetched
	fetches.EachRecord(func(k *kgo.Record) {
		got := record{k.Partition, k.Key, k.Value, nil, k.Timestamp.UnixMilli()}
		for _, h := range k.Headers {
			got.headers = append(got.headers, header{h.Key, h.Value})
		}
		polled = append(polled, fetched{k.Offset, got})
	})
	return polled, nil
}

func (r *franzReader) assignment() ([]int32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var owned []int32
	for p := range r.owned {
		owned = append(owned, p)
	}
	return owned, nil
}

func (r *franzReader) commit() error { return r.CommitUncommittedOffsets(call()) }

func (r *franzReader) close() error {
	r.Client.Close()
	return nil
}

func (f *franz) groups() ([]string, error) {
	groups, err := f.admin.ListGroups(call())
	return groups.Groups(), err
}

func (f *franz) describeGroup(group string) (string, int, error) {
	described, err := f.admin.DescribeGroups(call(), group)
	return described[group].State, len(described[group].Members), err
}

func (f *franz) deleteGroup(group string) error {
	_, err := f.admin.DeleteGroup(call(), group)
	return err
}
