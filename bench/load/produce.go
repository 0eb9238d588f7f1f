package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// window is how many requests a connection has on the way, as clients have by default.
const window = 5

// produceLoad is a stream of encoded batches to a topic.
type produceLoad struct {
	batch     batchSpec
	producers int
	// each makes a request hold one batch; otherwise it holds one for each partition of its leader.
	each bool
	// step is how many milliseconds timestamps go up from send to send; 0: they stay.
	step int64
	// rate is the offered load in payload bytes a second, all producers together; 0: as fast as acks return.
	rate float64
}

// tally is what came back within the measured time.
type tally struct {
	records, payload, wire, requests int64
	latency                          []time.Duration
}

func (t *tally) add(o tally) {
	t.records += o.records
	t.payload += o.payload
	t.wire += o.wire
	t.requests += o.requests
	t.latency = append(t.latency, o.latency...)
}

// frame is an encoded Produce request whose batches are patched in place before each send.
type frame struct {
	bytes    []byte
	batches  [][]byte // parts of bytes
	sequence int32
	step     int64 // milliseconds by which timestamps go up from send to send
	records  int32 // in each batch
	payload  int64 // in the request
}

// number gives the frame's batches their next sequence, which after 2^31-1 goes on with 0.
func (f *frame) number() {
	for _, b := range f.batches {
		if f.step > 0 {
			advanceTimestamps(b, f.step)
		}
		setSequence(b, f.sequence)
	}
	f.sequence = (f.sequence + f.records) & 0x7fffffff
}

// pipeline is one connection of one producer to one broker.
type pipeline struct {
	c       *conn
	frames  []*frame
	version int16
}

// run offers the load until the measured time is over; only what is acknowledged within it counts.
func (l produceLoad) run(ctx context.Context, c *cluster, t *topic, clock *schedule) (tally, error) {
	pipelines, err := l.pipelines(ctx, c, t)
	if err != nil {
		return tally{}, err
	}
	interval := time.Duration(0)
	if l.rate > 0 {
		var perRound float64 // payload if every pipeline sends once
		for _, p := range pipelines {
			perRound += float64(p.frames[0].payload)
		}
		interval = time.Duration(perRound / l.rate * float64(time.Second))
	}
	var total tally
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	for i, p := range pipelines {
		wg.Go(func() {
			defer p.c.Close()
			got, err := p.run(clock, interval, interval*time.Duration(i)/time.Duration(len(pipelines)))
			mu.Lock()
			defer mu.Unlock()
			total.add(got)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return total, failed
}

// rounds sends each request n times and waits each time for its answer. It says how long the first round took and
// how long all of them took.
func (l produceLoad) rounds(ctx context.Context, c *cluster, t *topic, n int) (first, all time.Duration, err error) {
	pipelines, err := l.pipelines(ctx, c, t)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		for _, p := range pipelines {
			p.c.Close()
		}
	}()
	begin := time.Now()
	if err := together(pipelines, func(p *pipeline) error { return p.rounds(1) }); err != nil {
		return 0, 0, err
	}
	first = time.Since(begin)
	err = together(pipelines, func(p *pipeline) error { return p.rounds(n - 1) })
	return first, time.Since(begin), err
}

// together does the same with all pipelines at once.
func together(pipelines []*pipeline, do func(*pipeline) error) (err error) {
	failed := make(chan error, len(pipelines))
	for _, p := range pipelines {
		go func() { failed <- do(p) }()
	}
	for range pipelines {
		err = errors.Join(err, <-failed)
	}
	return err
}

func (p *pipeline) rounds(n int) error {
	for range n {
		for _, f := range p.frames {
			f.number()
			if err := p.c.send(f.bytes); err != nil {
				return err
			}
			if err := p.acknowledge(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l produceLoad) pipelines(ctx context.Context, c *cluster, t *topic) ([]*pipeline, error) {
	var out []*pipeline
	for producer := range l.producers {
		var mine []int32
		for p := range t.leaders {
			if p%l.producers == producer {
				mine = append(mine, int32(p))
			}
		}
		ids, groups := t.byLeader(mine)
		for _, id := range ids {
			p, err := l.pipeline(ctx, c, t, c.brokers[id], groups[id])
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

func (l produceLoad) pipeline(ctx context.Context, c *cluster, t *topic, addr string, partitions []int32) (*pipeline, error) {
	pid, epoch, err := c.producerID(ctx)
	if err != nil {
		return nil, err
	}
	batch, err := encodeBatch(l.batch, pid, epoch, time.Now())
	if err != nil {
		return nil, err
	}
	p := &pipeline{}
	if p.c, err = dial(addr); err != nil {
		return nil, err
	}
	groups := [][]int32{partitions}
	if l.each {
		groups = nil
		for _, q := range partitions {
			groups = append(groups, []int32{q})
		}
	}
	for _, g := range groups {
		req := kmsg.NewPtrProduceRequest()
		req.Version = c.version(req)
		req.Acks, req.TimeoutMillis = -1, 30_000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic, rt.TopicID = t.name, t.id
		for _, q := range g {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = q, batch
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		p.version = req.Version
		f := &frame{bytes: p.c.encode(req), step: l.step, records: int32(l.batch.records), payload: l.batch.payload() * int64(len(g))}
		for at := 0; len(f.batches) < len(g); {
			i := bytes.Index(f.bytes[at:], batch)
			if i < 0 {
				return nil, fmt.Errorf("a batch got lost in its own request")
			}
			f.batches = append(f.batches, f.bytes[at+i:at+i+len(batch)])
			at += i + len(batch)
		}
		p.frames = append(p.frames, f)
	}
	return p, nil
}

type sent struct {
	due     time.Time
	records int64
	payload int64
	wire    int64
}

func (p *pipeline) run(clock *schedule, interval, phase time.Duration) (tally, error) {
	var got tally
	inFlight := make(chan sent, window) // its capacity is the window: a send waits for room
	var broken atomic.Bool
	var wg sync.WaitGroup
	var readErr error
	wg.Go(func() {
		for s := range inFlight {
			if readErr == nil {
				if readErr = p.acknowledge(); readErr != nil {
					broken.Store(true)
					p.c.Close()
				}
			}
			if at := time.Now(); readErr == nil && clock.measures(at) {
				got.records += s.records
				got.payload += s.payload
				got.wire += s.wire
				got.requests++
				got.latency = append(got.latency, at.Sub(s.due))
			}
		}
	})
	var err error
	due := clock.begin.Add(phase)
	for i := 0; !broken.Load(); i++ {
		now := time.Now()
		if interval > 0 {
			time.Sleep(due.Sub(now))
		} else {
			due = now
		}
		if !due.Before(clock.end) || !time.Now().Before(clock.end) {
			break
		}
		f := p.frames[i%len(p.frames)]
		f.number()
		inFlight <- sent{due, int64(f.records) * int64(len(f.batches)), f.payload, int64(len(f.bytes))}
		if err = p.c.send(f.bytes); err != nil {
			break
		}
		due = due.Add(interval)
	}
	close(inFlight)
	wg.Wait()
	if readErr != nil {
		return got, readErr
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		err = nil
	}
	return got, err
}

// acknowledge reads the answer to one Produce request; any error code in it is an error.
func (p *pipeline) acknowledge() error {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = p.version
	if _, err := p.c.receive(resp); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for _, t := range resp.Topics {
		for _, q := range t.Partitions {
			if err := kerr.ErrorForCode(q.ErrorCode); err != nil {
				return fmt.Errorf("produce to partition %d: %w", q.Partition, err)
			}
		}
	}
	return nil
}
