package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const probeTopic = "bench-probe"

// ackCommand waits until one produce with acks=all is acknowledged.
func ackCommand(ctx context.Context, f *flag.FlagSet, args []string) error {
	bootstrap := f.String("bootstrap", "", "brokers, host:port separated by commas")
	since := f.Int64("since", 0, "start of the count, Unix time in nanoseconds; 0: now")
	timeout := f.Duration("timeout", time.Minute, "give up after this")
	name := f.String("topic", probeTopic, "topic to use; made with one partition if it is not there")
	brokers := f.Int("brokers", 1, "wait first until this many brokers are in the metadata")
	cluster := f.String("cluster", "", "touch no cluster but the one with this id; empty: any")
	_ = f.Parse(args)
	begin := sinceFlag(*since)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	for {
		err := acknowledged(ctx, splitSeeds(*bootstrap), *cluster, *name, *brokers)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no acknowledgement: %w", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	fmt.Printf("ack_s %.4f at_ns %d\n", time.Since(begin).Seconds(), time.Now().UnixNano())
	return nil
}

func acknowledged(ctx context.Context, seeds []string, cluster, name string, brokers int) error {
	c, err := connect(ctx, seeds)
	if err != nil {
		return err
	}
	defer c.client.Close()
	if cluster != "" && c.id != cluster {
		return fmt.Errorf("cluster %q answers, not %q", c.id, cluster)
	}
	if len(c.brokers) < brokers {
		return fmt.Errorf("%d of %d brokers are there", len(c.brokers), brokers)
	}
	if _, err := c.create(ctx, name, 1, c.replication()); err != nil {
		// A cluster whose brokers have not all registered yet cannot place the replicas: ask again.
		return err
	}
	producer, err := kgo.NewClient(append(quick(seeds), kgo.DefaultProduceTopic(name))...)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.ProduceSync(ctx, &kgo.Record{Value: []byte("ack")}).FirstErr()
}

// createCommand times the creation of a topic.
func createCommand(ctx context.Context, f *flag.FlagSet, args []string) error {
	bootstrap := f.String("bootstrap", "", "brokers, host:port separated by commas")
	name := f.String("topic", "", "its name")
	partitions := f.Int("partitions", 1, "how many partitions")
	rf := f.Int("replication", 0, "replication factor; 0: three where there are three brokers")
	timeout := f.Duration("timeout", 2*time.Minute, "give up after this")
	_ = f.Parse(args)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	c, err := connect(ctx, splitSeeds(*bootstrap))
	if err != nil {
		return err
	}
	if *rf == 0 {
		*rf = int(c.replication())
	}
	begin := time.Now()
	t, err := c.create(ctx, *name, *partitions, int16(*rf))
	if err != nil {
		return err
	}
	led := time.Since(begin)
	if err := c.answers(ctx, t); err != nil {
		return err
	}
	fmt.Printf("leaders_s %.4f answers_s %.4f\n", led.Seconds(), time.Since(begin).Seconds())
	return nil
}

// readyCommand waits until all partitions of a topic answer.
func readyCommand(ctx context.Context, f *flag.FlagSet, args []string) error {
	bootstrap := f.String("bootstrap", "", "brokers, host:port separated by commas")
	since := f.Int64("since", 0, "start of the count, Unix time in nanoseconds; 0: now")
	name := f.String("topic", "", "its name")
	timeout := f.Duration("timeout", 2*time.Minute, "give up after this")
	_ = f.Parse(args)
	begin := sinceFlag(*since)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	var c *cluster
	for {
		var err error
		if c, err = connect(ctx, splitSeeds(*bootstrap)); err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	t, err := c.await(ctx, *name, 0)
	if err != nil {
		return err
	}
	if err := c.answers(ctx, t); err != nil {
		return err
	}
	fmt.Printf("partitions %d ready_s %.4f at_ns %d\n", len(t.leaders), time.Since(begin).Seconds(), time.Now().UnixNano())
	return nil
}

// failoverCommand sends a signal to the leader of a partition under a steady produce of one record each 10 ms
// with acks=all. It tells how long it took from the signal to the first acknowledgement of a record sent after
// it, and the longest that any record then waited: after TERM the old leader may serve for a while.
func failoverCommand(ctx context.Context, f *flag.FlagSet, args []string) error {
	bootstrap := f.String("bootstrap", "", "brokers, host:port separated by commas")
	nodes := f.String("node-pids", "", "ids of the brokers and of their processes: 1=PID,2=PID,...")
	signal := f.String("signal", "KILL", "KILL, TERM or STOP")
	wait := f.Duration("wait", time.Minute, "give up after this")
	observe := f.Duration("observe", 0, "go on after the first acknowledgement (default: 0 after KILL, 10 s after TERM and STOP)")
	_ = f.Parse(args)
	if *observe == 0 && *signal != "KILL" {
		*observe = 10 * time.Second
	}
	signals := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "STOP": syscall.SIGSTOP}
	sig, ok := signals[*signal]
	if !ok {
		return fmt.Errorf("-signal %s is not known", *signal)
	}
	pids := map[int32]int{}
	for kv := range strings.SplitSeq(*nodes, ",") {
		id, pid, _ := strings.Cut(kv, "=")
		i, err := strconv.Atoi(id)
		p, err2 := strconv.Atoi(pid)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("-node-pids: %w", err)
		}
		pids[int32(i)] = p
	}
	c, err := connect(ctx, splitSeeds(*bootstrap))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("failover-%d", os.Getpid())
	t, err := c.create(ctx, name, 1, c.replication())
	if err != nil {
		return err
	}
	leader := t.leaders[0]
	pid, ok := pids[leader]
	if !ok {
		return fmt.Errorf("no process known of broker %d, which leads", leader)
	}
	producer, err := kgo.NewClient(append(quick(c.seeds), kgo.DefaultProduceTopic(name), kgo.ProducerLinger(0),
		kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second))...)
	if err != nil {
		return err
	}
	defer producer.Close()

	w := &outage{}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for now := range tick.C {
		producer.Produce(ctx, &kgo.Record{Value: []byte("x")}, func(_ *kgo.Record, err error) { w.answer(now, time.Now(), err) })
		if !w.signalled() && now.Sub(begin) > 3*time.Second {
			w.signal(time.Now())
			if err := syscall.Kill(pid, sig); err != nil {
				return fmt.Errorf("kill: %w", err)
			}
		}
		if over, err := w.over(now, *wait, *observe); over {
			if err != nil {
				return fmt.Errorf("broker %d was sent %s: %w", leader, *signal, err)
			}
			break
		}
	}
	after, err := c.await(ctx, name, 1)
	if err != nil {
		return err
	}
	fmt.Printf("leader %d new_leader %d failover_s %.3f longest_wait_s %.3f\n", leader, after.leaders[0], w.recovered.Sub(w.at).Seconds(), w.longest.Seconds())
	return nil
}

// outage follows the acknowledgements around a signal.
type outage struct {
	mu            sync.Mutex
	at, recovered time.Time
	longest       time.Duration
	lost          error
}

// answer takes the end of one record: when it was sent, when its answer came, and what it was.
func (w *outage) answer(sent, answered time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.lost = errors.Join(w.lost, err)
	case w.at.IsZero() || sent.Before(w.at):
	default:
		if w.recovered.IsZero() {
			w.recovered = answered
		}
		w.longest = max(w.longest, answered.Sub(sent))
	}
}

func (w *outage) signal(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = at
}

func (w *outage) signalled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.at.IsZero()
}

// over says whether enough was seen, and what went wrong if no acknowledgement came in time or a record was given up.
func (w *outage) over(now time.Time, wait, observe time.Duration) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.lost != nil:
		return true, fmt.Errorf("a record was given up: %w", w.lost)
	case w.at.IsZero():
		return false, nil
	case w.recovered.IsZero() && now.Sub(w.at) > wait:
		return true, fmt.Errorf("no acknowledgement in %v", wait)
	}
	return !w.recovered.IsZero() && now.Sub(w.recovered) >= observe, nil
}
