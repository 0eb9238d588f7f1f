package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is an administrative view of the brokers under test.
type cluster struct {
	client  *kgo.Client
	seeds   []string
	id      string // the cluster's; empty if the brokers do not tell
	brokers map[int32]string
	// versions holds, for each API key, the highest version that the first broker offers.
	versions map[int16]int16
}

// topic is a topic whose partitions all have leaders.
type topic struct {
	name    string
	id      [16]byte
	leaders []int32 // by partition
}

// quick are client options that notice changes at once; meant for tests on loopback.
func quick(seeds []string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 2 * time.Millisecond }),
		kgo.DialTimeout(time.Second),
	}
}

func connect(ctx context.Context, seeds []string) (*cluster, error) {
	client, err := kgo.NewClient(append(quick(seeds), kgo.RetryTimeout(20*time.Second))...)
	if err != nil {
		return nil, err
	}
	c := &cluster{client: client, seeds: seeds, brokers: map[int32]string{}, versions: map[int16]int16{}}
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("metadata from %v: %w", seeds, err)
	}
	if meta.ClusterID != nil {
		c.id = *meta.ClusterID
	}
	for _, b := range meta.Brokers {
		c.brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	offered, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("api versions: %w", err)
	}
	for _, k := range offered.ApiKeys {
		c.versions[k.ApiKey] = k.MaxVersion
	}
	return c, nil
}

// version is the newest version of an API that both sides know.
func (c *cluster) version(req kmsg.Request) int16 {
	return min(req.MaxVersion(), c.versions[req.Key()])
}

// replication is the replication factor to ask for: three where there are three brokers.
func (c *cluster) replication() int16 { return int16(min(3, len(c.brokers))) }

// create makes a topic, waits until each partition has a leader, and returns it. Configs go in pairs; a broker that
// does not take them fails the run, as the two sides would not do the same.
func (c *cluster) create(ctx context.Context, name string, partitions int, rf int16, configs ...string) (*topic, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 60_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), rf
	for kv := range slices.Chunk(configs, 2) {
		tc := kmsg.NewCreateTopicsRequestTopicConfig()
		tc.Name, tc.Value = kv[0], kmsg.StringPtr(kv[1])
		t.Configs = append(t.Configs, tc)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	return c.await(ctx, name, partitions)
}

// await waits until a topic has that many partitions, each with a leader.
func (c *cluster) await(ctx context.Context, name string, partitions int) (*topic, error) {
	for {
		req := kmsg.NewPtrMetadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(ctx, c.client)
		if err == nil && len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0 && (partitions == 0 || len(resp.Topics[0].Partitions) == partitions) {
			t := &topic{name: name, id: resp.Topics[0].TopicID, leaders: make([]int32, len(resp.Topics[0].Partitions))}
			led := true
			for _, p := range resp.Topics[0].Partitions {
				led = led && p.ErrorCode == 0 && p.Leader >= 0
				t.leaders[p.Partition] = p.Leader
			}
			if led {
				for _, b := range resp.Brokers {
					c.brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
				}
				return t, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("topic %s has no leader for each partition: %w", name, errors.Join(ctx.Err(), err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// answers waits until the leader of every partition answers ListOffsets.
func (c *cluster) answers(ctx context.Context, t *topic) error {
	left := map[int32]bool{}
	for p := range t.leaders {
		left[int32(p)] = true
	}
	for len(left) > 0 {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = t.name
		for p := range left {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, -1, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(ctx, c.client)
		if err == nil {
			for _, rt := range resp.Topics {
				for _, rp := range rt.Partitions {
					if rp.ErrorCode == 0 {
						delete(left, rp.Partition)
					}
				}
			}
		}
		if len(left) > 0 {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%d partitions of %s do not answer: %w", len(left), t.name, errors.Join(ctx.Err(), err))
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

// remove deletes a topic.
func (c *cluster) remove(ctx context.Context, t *topic) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 60_000
	req.TopicNames = []string{t.name}
	rt := kmsg.NewDeleteTopicsRequestTopic()
	if c.version(req) >= 6 {
		rt.Topic = kmsg.StringPtr(t.name)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// byLeader groups some partitions by the broker that leads them, brokers in order of their ids.
func (t *topic) byLeader(partitions []int32) (ids []int32, groups map[int32][]int32) {
	groups = map[int32][]int32{}
	for _, p := range partitions {
		groups[t.leaders[p]] = append(groups[t.leaders[p]], p)
	}
	for id := range groups {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	return ids, groups
}

// producerID asks for a fresh producer id, so that the load is idempotent as clients' is by default.
func (c *cluster) producerID(ctx context.Context) (id int64, epoch int16, err error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = 60_000
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return 0, 0, fmt.Errorf("producer id: %w", err)
	}
	return resp.ProducerID, resp.ProducerEpoch, kerr.ErrorForCode(resp.ErrorCode)
}
