package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// result is one run of one workload: named numbers, whose units are at the end of their names.
type result struct {
	Workload string             `json:"workload"`
	Error    string             `json:"error,omitempty"`
	Figures  map[string]float64 `json:"figures"`
}

// cost is what the servers and this client used between two moments.
type cost struct {
	seconds              float64
	serverCPU, clientCPU float64 // seconds
	after                usage   // what the servers hold at the end
	peak                 usage
	written              int64 // bytes that the servers sent to the disk
}

// spent enters what a span has cost.
func (r *result) spent(c cost) {
	const mb = 1e6
	r.Figures["seconds"] = c.seconds
	r.Figures["server_cpu_s"] = c.serverCPU
	r.Figures["server_cores"] = c.serverCPU / c.seconds
	r.Figures["client_cores"] = c.clientCPU / c.seconds
	r.Figures["rss_mb"] = float64(c.after.rss) / mb
	r.Figures["peak_rss_mb"] = float64(max(c.peak.rss, c.after.rss)) / mb
	r.Figures["anon_mb"] = float64(c.after.anon) / mb
	r.Figures["disk_mb"] = float64(c.written) / mb
	r.Figures["threads"] = float64(c.after.threads)
}

// came enters what came through, and what each part of it cost.
func (r *result) came(t tally, c cost) {
	r.Figures["records"] = float64(t.records)
	r.Figures["records_per_s"] = float64(t.records) / c.seconds
	r.Figures["requests_per_s"] = float64(t.requests) / c.seconds
	r.Figures["mb_per_s"] = float64(t.payload) / 1e6 / c.seconds
	if t.records > 0 {
		r.Figures["cpu_us_per_record"] = c.serverCPU * 1e6 / float64(t.records)
	}
	if t.requests > 0 {
		r.Figures["cpu_us_per_request"] = c.serverCPU * 1e6 / float64(t.requests)
	}
	if t.payload > 0 {
		r.Figures["cpu_s_per_gb"] = c.serverCPU * 1e9 / float64(t.payload)
		r.Figures["client_cpu_s_per_gb"] = c.clientCPU * 1e9 / float64(t.payload)
	}
	r.waited("", t.latency)
}

// waited enters the percentiles of latencies, which it sorts, in milliseconds.
func (r *result) waited(prefix string, latency []time.Duration) {
	if len(latency) == 0 {
		return
	}
	slices.Sort(latency)
	for name, part := range map[string]float64{"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1} {
		at := min(len(latency)-1, int(part*float64(len(latency))))
		r.Figures[prefix+name] = float64(latency[at]) / float64(time.Millisecond)
	}
}

// line is a run for people to read.
func line(r result) string {
	if r.Error != "" {
		return fmt.Sprintf("%s: error: %s", r.Workload, r.Error)
	}
	var parts []string
	for name, value := range r.Figures {
		parts = append(parts, fmt.Sprintf("%s=%.4g", name, value))
	}
	slices.Sort(parts)
	return r.Workload + ": " + strings.Join(parts, " ")
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
