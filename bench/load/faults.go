package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// calm is how long the leader must have been the same before the next fault.
	calm = 300 * time.Millisecond
	// around is how long after a planned move acknowledgements are watched.
	around = 300 * time.Millisecond
	// nearly is how many records a controller may be behind and still counts as caught up: there are always some on the way.
	nearly = 20
)

// watcher is what goes on while somebody else kills and halts processes: a probe, and a real client beside it.
type watcher struct {
	c       *cluster
	t       *topic
	p       *prober
	before  leadership            // when all was settled
	refused atomic.Pointer[error] // what a real client was told in the end
	changes int
}

// faultsCommand keeps a probe running and takes orders from its input, a line each; it answers each with a line.
func faultsCommand(ctx context.Context, f *flag.FlagSet, args []string) error {
	bootstrap := f.String("bootstrap", "", "brokers, host:port separated by commas")
	timeout := f.Duration("timeout", 2*time.Minute, "give up on an order after this")
	_ = f.Parse(args)
	c, err := connect(ctx, splitSeeds(*bootstrap))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := c.create(ctx, fmt.Sprintf("faults-%d", os.Getpid()), 1, c.replication())
	if err != nil {
		return err
	}
	w := &watcher{c: c, t: t}
	if w.p, err = probe(ctx, c, t); err != nil {
		return err
	}
	orders := map[string]func(context.Context, int64) (string, error){
		"settle": w.settle, "resumed": w.resumed, "move": w.move, "change": w.change,
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, number, _ := strings.Cut(lines.Text(), " ")
		at, _ := strconv.ParseInt(number, 10, 64)
		do, ok := orders[verb]
		if !ok {
			return fmt.Errorf("no order %q", verb)
		}
		limited, cancel := context.WithTimeout(ctx, *timeout)
		answer, err := do(limited, at)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
		fmt.Println(answer)
	}
	if err := lines.Err(); err != nil && err != io.EOF {
		return err
	}
	return c.remove(ctx, t)
}

// settle waits until every replica is in sync, as each broker tells it, every controller has caught up, and nobody has
// changed the leader for a while. It tells the leader and the active controller.
func (w *watcher) settle(ctx context.Context, _ int64) (string, error) {
	var since time.Time
	var last leadership
	controller, why := int32(-1), error(nil)
	for since.IsZero() || time.Since(since) < calm {
		leads, err := w.inSync()
		if err == nil {
			controller, err = w.quorum(ctx)
		}
		if why = err; err != nil || leads != last {
			since, last = time.Time{}, leads
		}
		if err == nil && since.IsZero() {
			since = time.Now()
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("not settled: %v: %w", why, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	w.p.learn(last)
	w.p.forget()
	w.before = last
	// The probe is on its way again, with this leader.
	err := w.p.until(ctx, "no acknowledgement", func(acked []ack) bool { return len(acked) > 20 })
	if known, _ := w.p.now(); err == nil && known != last {
		return w.settle(ctx, 0)
	}
	return fmt.Sprintf("leader %d controller %d", last.leader, controller), err
}

// inSync says who leads if all brokers agree that all replicas are in sync.
func (w *watcher) inSync() (leadership, error) {
	var agreed leadership
	for _, addr := range w.c.brokers {
		c, err := dial(addr)
		if err != nil {
			return agreed, err
		}
		told, err := w.p.ask(c)
		c.Close()
		if err != nil {
			return agreed, err
		}
		leads := leadership{told.Leader, told.LeaderEpoch}
		if len(told.ISR) < len(w.c.brokers) || len(told.ISR) < len(told.Replicas) || (agreed != leadership{} && agreed != leads) {
			return agreed, fmt.Errorf("%s: leader %d, in sync %v", addr, told.Leader, told.ISR)
		}
		agreed = leads
	}
	return agreed, nil
}

// quorum says who the active controller is, if all voters have what it has.
func (w *watcher) quorum(ctx context.Context) (int32, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	rt := kmsg.NewDescribeQuorumRequestTopic()
	rt.Topic = "__cluster_metadata"
	rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, rt)
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	resp, err := req.RequestWith(limited, w.c.client)
	if err != nil {
		return -1, err
	}
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, fmt.Errorf("the quorum is not told: %w", kerr.ErrorForCode(resp.ErrorCode))
	}
	q := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(q.ErrorCode); err != nil {
		return -1, err
	}
	for _, v := range q.CurrentVoters {
		if v.LogEndOffset < q.HighWatermark-nearly {
			return -1, fmt.Errorf("controller %d is at %d of %d", v.ReplicaID, v.LogEndOffset, q.HighWatermark)
		}
	}
	return q.LeaderID, nil
}

// resumed waits for the first acknowledgement of another leader and tells how long after `at` it came.
func (w *watcher) resumed(ctx context.Context, at int64) (string, error) {
	first, err := w.p.resumed(ctx, w.before.epoch)
	return fmt.Sprintf("resumed_ms %.3f", float64(first.UnixNano()-at)/1e6), err
}

// move has the next replica lead, and tells how long the probe's records waited at most around that. A real client that
// produces meanwhile must not be told of any error.
func (w *watcher) move(ctx context.Context, _ int64) (string, error) {
	producer, err := kgo.NewClient(kgo.SeedBrokers(w.c.seeds...), kgo.DefaultProduceTopic(w.t.name), kgo.ProducerLinger(0))
	if err != nil {
		return "", err
	}
	defer producer.Close()
	clientCtx, stop := context.WithCancel(ctx)
	defer stop()
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		w.produce(clientCtx, producer)
	}()
	addr := w.c.brokers[w.before.leader]
	c, err := dial(addr)
	if err != nil {
		return "", err
	}
	told, err := w.p.ask(c)
	c.Close()
	if err != nil {
		return "", err
	}
	at := slices.Index(told.Replicas, w.before.leader)
	if at < 0 {
		return "", fmt.Errorf("the leader %d is none of %v", w.before.leader, told.Replicas)
	}
	next := append(slices.Clone(told.Replicas[at+1:]), told.Replicas[:at+1]...)
	// The order alone is changed first: the new first replica is to lead, and does not yet.
	w.p.forget()
	begin := time.Now()
	if err := w.reorder(ctx, next); err != nil {
		return "", err
	}
	if err := w.electPreferred(ctx); err != nil {
		return "", err
	}
	w.p.doubt()
	if _, err := w.p.resumed(ctx, w.before.epoch); err != nil {
		return "", err
	}
	time.Sleep(around)
	stop()
	<-produced
	if err := producer.Flush(ctx); err != nil {
		return "", err
	}
	if refused := w.refused.Load(); refused != nil {
		return "", fmt.Errorf("a client was told: %w", *refused)
	}
	return fmt.Sprintf("longest_ms %.3f", float64(w.p.longest(begin))/float64(time.Millisecond)), nil
}

// produce is a real client with its defaults, 100 records a second.
func (w *watcher) produce(ctx context.Context, producer *kgo.Client) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			producer.Produce(context.Background(), &kgo.Record{Value: []byte("x")}, func(_ *kgo.Record, err error) {
				if err != nil {
					w.refused.CompareAndSwap(nil, &err)
				}
			})
		}
	}
}

// reorder gives the partition the same replicas in another order, so that another one is preferred.
func (w *watcher) reorder(ctx context.Context, replicas []int32) error {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic = w.t.name
	rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rp.Replicas = replicas
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, w.c.client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// electPreferred has the first replica lead.
func (w *watcher) electPreferred(ctx context.Context) error {
	req := kmsg.NewPtrElectLeadersRequest()
	rt := kmsg.NewElectLeadersRequestTopic()
	rt.Topic, rt.Partitions = w.t.name, []int32{0}
	req.Topics = append(req.Topics, rt)
	for {
		resp, err := req.RequestWith(ctx, w.c.client)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		code := int16(0)
		if len(resp.Topics) > 0 && len(resp.Topics[0].Partitions) > 0 {
			code = resp.Topics[0].Partitions[0].ErrorCode
		}
		switch err := kerr.ErrorForCode(code); err {
		case nil, kerr.ElectionNotNeeded: // the brokers may have done it by themselves
			return nil
		case kerr.PreferredLeaderNotAvailable, kerr.EligibleLeadersNotAvailable:
			time.Sleep(probePace)
		default:
			return err
		}
	}
}

// change makes a topic, asking one broker after the other until one has done it, and tells how long after `at` that was.
func (w *watcher) change(ctx context.Context, at int64) (string, error) {
	w.changes++
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = w.c.version(req)
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic = fmt.Sprintf("%s-change-%d", w.t.name, w.changes)
	rt.NumPartitions, rt.ReplicationFactor = 1, w.c.replication()
	req.Topics = append(req.Topics, rt)
	addrs := []string{}
	for _, addr := range w.c.brokers {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	for i := 0; ; i++ {
		err := createOver(addrs[i%len(addrs)], req)
		if err == nil || err == kerr.TopicAlreadyExists {
			return fmt.Sprintf("changed_ms %.3f", float64(time.Now().UnixNano()-at)/1e6), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(2 * probePace):
		}
	}
}

// createOver asks one broker once.
func createOver(addr string, req *kmsg.CreateTopicsRequest) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		return err
	}
	if err := c.send(c.encode(req)); err != nil {
		return err
	}
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = req.Version
	if _, err := c.receive(resp); err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("an answer for %d topics", len(resp.Topics))
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}
