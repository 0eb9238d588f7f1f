package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ticksPerSecond is the unit of the times in /proc/PID/stat: USER_HZ, 100 on every Linux architecture.
const ticksPerSecond = 100

// procs are the server's processes.
type procs []int

func parsePIDs(s string) (procs, error) {
	var p procs
	for f := range strings.SplitSeq(s, ",") {
		if f == "" {
			continue
		}
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("-pids: %w", err)
		}
		p = append(p, pid)
	}
	return p, nil
}

// usage is what the processes had used, taken together, at one moment.
type usage struct {
	cpuSeconds float64 // user and system time of all threads, ended ones too
	rss, anon  int64   // bytes resident; of these not backed by files
	threads    int64
	written    int64 // bytes sent to the disk
}

func (p procs) usage() (u usage, err error) {
	for _, pid := range p {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return u, fmt.Errorf("server process: %w", err)
		}
		// The second field, the command, is in brackets and may hold blanks.
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		u.cpuSeconds += float64(user+system) / ticksPerSecond
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return u, fmt.Errorf("server process: %w", err)
		}
		u.rss += statusField(status, "VmRSS:") << 10
		u.anon += statusField(status, "RssAnon:") << 10
		u.threads += statusField(status, "Threads:")
		if io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid)); err == nil {
			u.written += statusField(io, "write_bytes:")
		}
	}
	return u, nil
}

func statusField(status []byte, name string) int64 {
	i := bytes.Index(status, []byte("\n"+name))
	if i < 0 {
		return 0
	}
	f := bytes.Fields(status[i+1+len(name):])
	v, _ := strconv.ParseInt(string(f[0]), 10, 64)
	return v
}

// ownCPU is what this client has used so far, in seconds.
func ownCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// span measures from start to stop what the servers and this client use.
type span struct {
	p      procs
	begin  time.Time
	before usage
	own    float64
	quit   chan struct{}
	wait   sync.WaitGroup
	peak   usage
	err    error
}

func (p procs) start() *span {
	s := &span{p: p, quit: make(chan struct{})}
	s.before, s.err = p.usage()
	s.peak, s.own, s.begin = s.before, ownCPU(), time.Now()
	if len(p) > 0 {
		s.wait.Go(s.watch)
	}
	return s
}

// watch follows the resident set, five times a second.
func (s *span) watch() {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
			u, err := s.p.usage()
			if err != nil {
				return
			}
			s.peak.rss, s.peak.anon = max(s.peak.rss, u.rss), max(s.peak.anon, u.anon)
		}
	}
}

// stop ends the span and says what it has cost.
func (s *span) stop() (cost, error) {
	c := cost{seconds: time.Since(s.begin).Seconds(), clientCPU: ownCPU() - s.own}
	after, err := s.p.usage()
	close(s.quit)
	s.wait.Wait()
	c.serverCPU = after.cpuSeconds - s.before.cpuSeconds
	c.written = after.written - s.before.written
	c.after, c.peak = after, s.peak
	return c, errors.Join(s.err, err)
}
