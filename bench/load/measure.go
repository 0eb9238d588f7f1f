package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// schedule is when a run begins, when its measured part begins (what comes before is warm-up), and when it ends.
type schedule struct{ begin, from, end time.Time }

func (s *schedule) measures(at time.Time) bool { return !at.Before(s.from) && at.Before(s.end) }

// bench is one call of the measure command.
type bench struct {
	c       *cluster
	p       procs
	secs    time.Duration
	warm    time.Duration
	settle  time.Duration
	mbps    float64
	backlog float64 // MB
	topics  int     // made so far, for names that are never used twice
	full    *topic  // what the consume workloads read; made by the first of them
}

func measureCommand(ctx context.Context, f *flag.FlagSet, args []string) error {
	bootstrap := f.String("bootstrap", "", "brokers, host:port separated by commas")
	pids := f.String("pids", "", "the servers' process ids, separated by commas; all are added up")
	out := f.String("json", "", "also write every run to this file")
	only := f.String("only", "", "workloads to run, separated by commas (default: all that end by themselves, in this order)")
	repeat := f.Int("repeat", 1, "runs of each workload")
	seconds := f.Duration("seconds", 15*time.Second, "measured time of a run")
	warm := f.Duration("warm", 3*time.Second, "load before the measured time of each run")
	settle := f.Duration("settle", 4*time.Second, "pause after a topic was deleted, until its files are gone")
	prime := f.Duration("prime", 20*time.Second, "load before the first run, so that a JVM has compiled its code; 0: none")
	mbps := f.Float64("rate", 100, "offered load of produce and produce-lz4 in MB/s; consume gets four times this")
	backlog := f.Float64("backlog", 4000, "MB that the workload cold writes before it reads them")
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "flags:")
		f.PrintDefaults()
		fmt.Fprintln(f.Output(), "workloads:")
		for _, w := range workloads {
			fmt.Fprintf(f.Output(), "  %-12s %s\n", w.name, w.what)
		}
	}
	_ = f.Parse(args)
	if *bootstrap == "" {
		return fmt.Errorf("-bootstrap is needed")
	}
	todo, err := chosen(*only)
	if err != nil {
		return err
	}
	p, err := parsePIDs(*pids)
	if err != nil {
		return err
	}
	c, err := connect(ctx, splitSeeds(*bootstrap))
	if err != nil {
		return err
	}
	b := &bench{c: c, p: p, secs: *seconds, warm: *warm, settle: *settle, mbps: *mbps, backlog: *backlog}
	if *prime > 0 {
		if err := b.prime(ctx, *prime); err != nil {
			return fmt.Errorf("priming load: %w", err)
		}
	}
	results, err := b.all(ctx, todo, *repeat)
	if *out != "" {
		err = errors.Join(err, writeJSON(*out, results))
	}
	return err
}

// chosen are the workloads with these names.
func chosen(names string) ([]workload, error) {
	if names == "" {
		return workloads, nil
	}
	var todo []workload
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no workload named %q", name)
		}
		todo = append(todo, workloads[i])
	}
	return todo, nil
}

func (b *bench) all(ctx context.Context, todo []workload, repeat int) (results []result, err error) {
	for range repeat {
		for _, w := range todo {
			r := result{Workload: w.name, Figures: map[string]float64{}}
			if failed := w.run(b, ctx, &r); failed != nil {
				r.Error = failed.Error()
				err = errors.New("some workloads failed")
			}
			fmt.Fprintln(os.Stderr, line(r))
			results = append(results, r)
		}
	}
	if b.full != nil {
		err = errors.Join(err, b.remove(ctx, b.full))
	}
	return results, err
}

// fresh makes a topic that has never been used. Configs go in pairs.
func (b *bench) fresh(ctx context.Context, partitions int, configs ...string) (*topic, error) {
	b.topics++
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	// Files of a deleted topic go at once, not after a minute, so that the page cache has room for the next load.
	configs = append(configs, "file.delete.delay.ms", "1000")
	t, err := b.c.create(ctx, fmt.Sprintf("load-%d-%d", os.Getpid(), b.topics), partitions, b.c.replication(), configs...)
	if err != nil {
		return nil, err
	}
	// A broker may tell of a new leader before that leader serves.
	return t, b.c.answers(ctx, t)
}

// timed runs a load: warm-up, then the measured time.
func (b *bench) timed(load func(*schedule) (tally, error)) (tally, cost, error) {
	begin := time.Now().Add(100 * time.Millisecond)
	clock := &schedule{begin, begin.Add(b.warm), begin.Add(b.warm + b.secs)}
	type outcome struct {
		t   tally
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		t, err := load(clock)
		done <- outcome{t, err}
	}()
	time.Sleep(time.Until(clock.from))
	s := b.p.start()
	time.Sleep(time.Until(clock.end))
	c, err := s.stop()
	o := <-done
	if o.err == nil && o.t.records == 0 {
		o.err = errors.New("nothing came through in the measured time")
	}
	return o.t, c, errors.Join(err, o.err)
}

// entered runs a load as timed does and enters what came of it.
func (b *bench) entered(r *result, load func(*schedule) (tally, error)) error {
	t, c, err := b.timed(load)
	r.spent(c)
	r.came(t, c)
	return err
}

// remove deletes a topic and gives the brokers the time to let its files go.
func (b *bench) remove(ctx context.Context, t *topic) error {
	err := b.c.remove(ctx, t)
	time.Sleep(b.settle)
	return err
}

// quiet measures while nothing is asked of the brokers by this client.
func (b *bench) quiet(r *result) error {
	time.Sleep(3 * time.Second)
	s := b.p.start()
	time.Sleep(b.secs)
	c, err := s.stop()
	r.spent(c)
	return err
}
