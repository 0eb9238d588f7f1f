package main

import (
	"context"
	"errors"
	"time"
)

// workload is a named way to load the brokers.
type workload struct {
	name, what string
	run        func(*bench, context.Context, *result) error
}

var workloads = []workload{
	{"idle", "no client but this one", (*bench).idle},
	{"idle-1000", "the same with a topic of 1,000 partitions", (*bench).idleThousand},
	{"produce", "1 KiB records in batches of 128, acks=all, 8 partitions, at the offered rate", (*bench).produce},
	{"produce-lz4", "the same records, batches compressed with LZ4; MB/s and GB are before compression", (*bench).produceLZ4},
	{"produce-max", "as produce, as fast as acks return", (*bench).produceMax},
	{"produce-100", "1 KiB records in batches of 16 to 100 partitions, 10 connections, at the offered rate", (*bench).produceHundred},
	{"single", "100 B records in batches of one, pipelined (5 on the way, no linger), 4 producers, as fast as acks return", (*bench).single},
	{"single-10k", "the same at 10,000 records/s", (*bench).singleFixed},
	{"fsync", "the same from 64 producers to 100 partitions with flush.messages=1", (*bench).fsync},
	{"consume", "Fetch of 1 KiB records from the page cache, 1 MiB a partition, at four times the offered rate", (*bench).consume},
	{"consume-max", "the same as fast as answers return", (*bench).consumeMax},
	{"e2e", "1,000 records/s of 100 B, 4 partitions, from due time to read; franz-go on both ends", (*bench).e2e},
	{"fanout", "batches of 10 x 100 B to each of 1,000 partitions, 10 rounds a second", (*bench).fanout},
	{"groups", "200 idle consumers in 20 groups, 20 partitions, nothing produced", (*bench).groups},
	{"cold", "produce at 20 MB/s, alone and while a reader goes through a backlog (-backlog) at full speed", (*bench).cold},
}

var (
	kibibyte     = batchSpec{records: 128, valueSize: 1024}
	kibibyte16   = batchSpec{records: 16, valueSize: 1024}
	hundredBytes = batchSpec{records: 1, valueSize: 100}
	tenHundreds  = batchSpec{records: 10, valueSize: 100}
)

func (b *bench) idle(_ context.Context, r *result) error { return b.quiet(r) }

func (b *bench) idleThousand(ctx context.Context, r *result) error {
	t, err := b.fresh(ctx, 1000)
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	return errors.Join(b.quiet(r), b.remove(ctx, t))
}

// produceWith runs a load on a fresh topic, which goes afterwards. Configs go in pairs.
func (b *bench) produceWith(ctx context.Context, r *result, partitions int, l produceLoad, configs ...string) error {
	begin := time.Now()
	t, err := b.fresh(ctx, partitions, configs...)
	if err != nil {
		return err
	}
	r.Figures["create_s"] = time.Since(begin).Seconds()
	// Before the rest a few rounds to each partition, enough to bring each past 4 KiB: a partition's first
	// batch, and its first index entry, may cost the server far more than the next.
	first, six, err := l.rounds(ctx, b.c, t, 6)
	if err != nil {
		return err
	}
	r.Figures["first_round_ms"] = float64(first) / float64(time.Millisecond)
	r.Figures["first_six_rounds_ms"] = float64(six) / float64(time.Millisecond)
	err = b.entered(r, func(s *schedule) (tally, error) { return l.run(ctx, b.c, t, s) })
	return errors.Join(err, b.remove(ctx, t))
}

func (b *bench) produce(ctx context.Context, r *result) error {
	return b.produceWith(ctx, r, 8, produceLoad{batch: kibibyte, producers: 2, rate: b.mbps * 1e6})
}

func (b *bench) produceLZ4(ctx context.Context, r *result) error {
	spec := kibibyte
	spec.lz4 = true
	return b.produceWith(ctx, r, 8, produceLoad{batch: spec, producers: 2, rate: b.mbps * 1e6})
}

func (b *bench) produceMax(ctx context.Context, r *result) error {
	return b.produceWith(ctx, r, 8, produceLoad{batch: kibibyte, producers: 2})
}

func (b *bench) produceHundred(ctx context.Context, r *result) error {
	return b.produceWith(ctx, r, 100, produceLoad{batch: kibibyte16, producers: 10, rate: b.mbps * 1e6})
}

func (b *bench) single(ctx context.Context, r *result) error {
	return b.produceWith(ctx, r, 8, produceLoad{batch: hundredBytes, producers: 4, each: true})
}

func (b *bench) singleFixed(ctx context.Context, r *result) error {
	return b.produceWith(ctx, r, 8, produceLoad{batch: hundredBytes, producers: 4, each: true, rate: 10_000 * 100})
}

func (b *bench) fsync(ctx context.Context, r *result) error {
	return b.produceWith(ctx, r, 100, produceLoad{batch: hundredBytes, producers: 64, each: true}, "flush.messages", "1")
}

func (b *bench) fanout(ctx context.Context, r *result) error {
	rate := float64(10 * 1000 * tenHundreds.payload())
	return b.produceWith(ctx, r, 1000, produceLoad{batch: tenHundreds, producers: 2, rate: rate})
}

func (b *bench) consume(ctx context.Context, r *result) error {
	return b.consumeWith(ctx, r, 4*b.mbps*1e6)
}

func (b *bench) consumeMax(ctx context.Context, r *result) error { return b.consumeWith(ctx, r, 0) }

func (b *bench) consumeWith(ctx context.Context, r *result, rate float64) error {
	if b.full == nil {
		t, err := b.filled(ctx, 600e6)
		if err != nil {
			return err
		}
		b.full = t
	}
	return b.entered(r, func(s *schedule) (tally, error) {
		return consumeLoad{consumers: 2, rate: rate}.run(ctx, b.c, b.full, s)
	})
}

// filled is a topic of eight partitions with about so many bytes in it.
func (b *bench) filled(ctx context.Context, size float64) (*topic, error) {
	t, err := b.fresh(ctx, 8)
	if err != nil {
		return nil, err
	}
	const rate = 200e6
	begin := time.Now()
	clock := &schedule{begin, begin, begin.Add(time.Duration(size / rate * float64(time.Second)))}
	_, err = produceLoad{batch: kibibyte, producers: 2, rate: rate}.run(ctx, b.c, t, clock)
	return t, err
}

func (b *bench) e2e(ctx context.Context, r *result) error {
	t, err := b.fresh(ctx, 4)
	if err != nil {
		return err
	}
	err = b.entered(r, func(s *schedule) (tally, error) { return endToEnd(ctx, b.c, t, 1000, 100, s) })
	return errors.Join(err, b.remove(ctx, t))
}

func (b *bench) groups(ctx context.Context, r *result) error {
	t, err := b.fresh(ctx, 20)
	if err != nil {
		return err
	}
	leave, err := idleConsumers(ctx, b.c, t, 20, 10)
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	err = b.quiet(r)
	leave()
	return errors.Join(err, b.remove(ctx, t))
}

// cold is meant for brokers whose memory is limited to less than the backlog: what is read is then never in memory.
func (b *bench) cold(ctx context.Context, r *result) error {
	backlog, err := b.filled(ctx, b.backlog*1e6)
	if err != nil {
		return err
	}
	t, err := b.fresh(ctx, 8)
	if err != nil {
		return err
	}
	l := produceLoad{batch: kibibyte16, producers: 2, rate: 20e6}
	produce := func(s *schedule) (tally, error) { return l.run(ctx, b.c, t, s) }
	quiet, _, err := b.timed(produce)
	if err != nil {
		return err
	}
	r.waited("quiet_", quiet.latency)
	var read tally
	busy, c, err := b.timed(func(s *schedule) (tally, error) {
		reader := make(chan error, 1)
		go func() {
			var err error
			read, err = consumeLoad{consumers: 1}.run(ctx, b.c, backlog, s)
			reader <- err
		}()
		t, err := produce(s)
		return t, errors.Join(err, <-reader)
	})
	r.spent(c)
	r.waited("", busy.latency)
	r.Figures["read_mb_per_s"] = float64(read.payload) / 1e6 / c.seconds
	r.Figures["p99_ratio"] = r.Figures["p99_ms"] / r.Figures["quiet_p99_ms"]
	return errors.Join(err, b.remove(ctx, t), b.remove(ctx, backlog))
}

// prime puts a mixed load on the brokers for a while and measures nothing.
func (b *bench) prime(ctx context.Context, d time.Duration) error {
	t, err := b.fresh(ctx, 8)
	if err != nil {
		return err
	}
	lz4 := kibibyte
	lz4.lz4 = true
	loads := []produceLoad{
		{batch: kibibyte, producers: 2, rate: b.mbps * 1e6},
		{batch: lz4, producers: 2, rate: b.mbps * 1e6},
		{batch: hundredBytes, producers: 4, each: true},
	}
	part := d / time.Duration(len(loads)+1)
	until := func() *schedule { now := time.Now(); return &schedule{now, now, now.Add(part)} }
	for _, l := range loads {
		if _, err := l.run(ctx, b.c, t, until()); err != nil {
			return err
		}
	}
	if _, err := (consumeLoad{consumers: 2}).run(ctx, b.c, t, until()); err != nil {
		return err
	}
	return b.remove(ctx, t)
}
