package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Pauses of the probe. They stand in place of a client's back-off, which would hide how soon the brokers serve again.
const (
	probePace  = time.Millisecond      // between an acknowledgement and the next record, and between two tries
	probeDoubt = 10 * time.Millisecond // a try that takes longer makes the probe ask who leads
)

// leadership is who leads the probe's partition, as far as is known.
type leadership struct{ leader, epoch int32 }

// prober sends one record after the other to one partition with acks=all, each again and again until it is acknowledged.
// While it is in doubt it asks all brokers who leads, and leaves a leader that does not answer as soon as there is a newer.
type prober struct {
	c     *cluster
	topic *topic
	batch []byte

	mu       sync.Mutex
	wake     *sync.Cond // doubt has come up
	known    leadership
	current  *conn // where the leader's answer is waited for
	inDoubt  bool
	acked    []ack
	giveUp   error
	finished bool
}

// ack is an acknowledged record: when it was due, when the try that succeeded was sent, and in which leader epoch.
type ack struct {
	due, sent, at time.Time
	epoch         int32
}

// probe starts to send; cancel ctx to end it.
func probe(ctx context.Context, c *cluster, t *topic) (*prober, error) {
	batch, err := encodeBatch(batchSpec{records: 1, valueSize: 100}, -1, -1, time.Now())
	if err != nil {
		return nil, err
	}
	setSequence(batch, -1)
	p := &prober{c: c, topic: t, batch: batch, known: leadership{t.leaders[0], -1}, inDoubt: true}
	p.wake = sync.NewCond(&p.mu)
	for _, addr := range c.brokers {
		go p.watch(ctx, addr)
	}
	go p.send(ctx)
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.finished = true
		p.wake.Broadcast()
		if p.current != nil {
			p.current.Close()
		}
	})
	return p, nil
}

// send sends records until the probe ends.
func (p *prober) send(ctx context.Context) {
	for ctx.Err() == nil {
		due := time.Now()
		for ctx.Err() == nil {
			sent := time.Now()
			epoch, err := p.try(sent)
			if err == nil {
				p.acknowledged(ack{due, sent, time.Now(), epoch})
				break
			}
			p.doubt()
			time.Sleep(probePace)
		}
		time.Sleep(probePace)
	}
}

// try sends the record once to the leader that is known, and says in which epoch it was.
func (p *prober) try(sent time.Time) (int32, error) {
	p.mu.Lock()
	known, c := p.known, p.current
	addr := p.c.brokers[known.leader]
	p.mu.Unlock()
	if c == nil {
		var err error
		if c, err = dial(addr); err != nil {
			return 0, err
		}
		p.mu.Lock()
		if p.known != known {
			p.mu.Unlock()
			c.Close()
			return 0, errors.New("there is a newer leader")
		}
		p.current = c
		p.mu.Unlock()
	}
	doubt := time.AfterFunc(probeDoubt, p.doubt)
	defer doubt.Stop()
	err := p.produce(c)
	if err != nil && !errors.As(err, new(*kerr.Error)) {
		p.leave(c)
	}
	return known.epoch, err
}

// produce sends the record over a connection and waits for the answer.
func (p *prober) produce(c *conn) error {
	req := kmsg.NewPtrProduceRequest()
	req.Version = p.c.version(req)
	req.Acks, req.TimeoutMillis = -1, 30_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = p.topic.name, p.topic.id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = p.batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	if err := c.send(c.encode(req)); err != nil {
		return err
	}
	return (&pipeline{c: c, version: req.Version}).acknowledge()
}

// leave closes a connection that is of no use any more.
func (p *prober) leave(c *conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == c {
		p.current = nil
	}
}

func (p *prober) doubt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inDoubt = true
	p.wake.Broadcast()
}

func (p *prober) acknowledged(a ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Without an epoch the metadata have not been seen yet.
	p.inDoubt = a.epoch < 0
	p.acked = append(p.acked, a)
}

// watch asks one broker who leads whenever the probe is in doubt.
func (p *prober) watch(ctx context.Context, addr string) {
	var c *conn
	for ctx.Err() == nil {
		p.mu.Lock()
		for !p.inDoubt && !p.finished {
			p.wake.Wait()
		}
		p.mu.Unlock()
		var err error
		if c == nil {
			c, err = dial(addr)
		}
		if err == nil {
			var told *kmsg.MetadataResponseTopicPartition
			if told, err = p.ask(c); err == nil {
				p.learn(leadership{told.Leader, told.LeaderEpoch})
			}
		}
		if err != nil && c != nil {
			c.Close()
			c = nil
		}
		time.Sleep(2 * probePace)
	}
}

// ask asks for the partition's metadata over a connection.
func (p *prober) ask(c *conn) (*kmsg.MetadataResponseTopicPartition, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = p.c.version(req)
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(p.topic.name)
	req.Topics = append(req.Topics, rt)
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return nil, err
	}
	if err := c.send(c.encode(req)); err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = req.Version
	if _, err := c.receive(resp); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the broker does not know the topic")
	}
	return &resp.Topics[0].Partitions[0], nil
}

// learn takes note of a leader, and leaves the one before.
func (p *prober) learn(told leadership) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if told.leader < 0 || told.epoch <= p.known.epoch {
		return
	}
	moved := p.known.leader != told.leader
	p.known = told
	if moved && p.current != nil {
		p.current.Close()
		p.current = nil
	}
}

// now is who leads as far as is known, and how many records were acknowledged.
func (p *prober) now() (leadership, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known, len(p.acked)
}

// until waits for what found says of the acknowledgements.
func (p *prober) until(ctx context.Context, what string, found func([]ack) bool) error {
	for {
		p.mu.Lock()
		ok := found(p.acked)
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// resumed waits for the first acknowledgement in a later leader epoch than `before`, and says when it came.
func (p *prober) resumed(ctx context.Context, before int32) (at time.Time, err error) {
	err = p.until(ctx, "no acknowledgement of another leader", func(acked []ack) bool {
		i := slices.IndexFunc(acked, func(a ack) bool { return a.epoch > before })
		if i >= 0 {
			at = acked[i].at
		}
		return i >= 0
	})
	return at, err
}

// longest is the longest that a record waited which was acknowledged at `from` or later.
func (p *prober) longest(from time.Time) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.acked {
		if !a.at.Before(from) {
			longest = max(longest, a.at.Sub(a.due))
		}
	}
	return longest
}

// forget drops what is known of the acknowledgements so far.
func (p *prober) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked = nil
}
