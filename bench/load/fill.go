package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"
)

// pairs are topic settings given as -config name=value, any number of times.
type pairs []string

func (p *pairs) String() string { return strings.Join(*p, " ") }

func (p *pairs) Set(s string) error {
	name, value, found := strings.Cut(s, "=")
	if !found {
		return fmt.Errorf("%q is not name=value", s)
	}
	*p = append(*p, name, value)
	return nil
}

// fillCommand makes a topic and puts the same amount into each of its partitions, in rounds that are each
// acknowledged before the next is sent.
func fillCommand(ctx context.Context, f *flag.FlagSet, args []string) error {
	bootstrap := f.String("bootstrap", "", "brokers, host:port separated by commas")
	name := f.String("topic", "", "its name")
	partitions := f.Int("partitions", 1, "how many partitions")
	rounds := f.Int("rounds", 1, "batches for each partition")
	records := f.Int("records", 1, "records in a batch")
	size := f.Int("size", 100, "bytes in a record's value")
	step := f.Int64("step", 0, "milliseconds by which timestamps go up from batch to batch")
	timeout := f.Duration("timeout", 5*time.Minute, "give up on the topic after this")
	var configs pairs
	f.Var(&configs, "config", "a setting of the topic, name=value; may be given again")
	_ = f.Parse(args)
	c, err := connect(ctx, splitSeeds(*bootstrap))
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	begin := time.Now()
	t, err := c.create(within, *name, *partitions, c.replication(), configs...)
	if err != nil {
		return err
	}
	if err := c.answers(within, t); err != nil {
		return err
	}
	created := time.Since(begin)
	l := produceLoad{batch: batchSpec{records: *records, valueSize: *size}, producers: 1, step: *step}
	if _, _, err := l.rounds(ctx, c, t, *rounds); err != nil {
		return err
	}
	fmt.Printf("answers_s %.4f filled_s %.4f\n", created.Seconds(), time.Since(begin).Seconds())
	return nil
}
