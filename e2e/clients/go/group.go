package main

import (
	"fmt"
	"slices"
	"time"
)

// groupRun is one group with its topic while its members come and go.
type groupRun struct {
	s           *scenario
	name        string // of the group and of its topic
	assignor    string
	serial      int
	outstanding map[string]bool
}

func (g *groupRun) join() (member, error) { return g.s.client.member(g.name, g.name, g.assignor) }

// send produces count records over all partitions; collect will want them.
func (g *groupRun) send(count int) error {
	g.outstanding = map[string]bool{}
	var records []record
	for i := range count {
		value := fmt.Sprintf("%s %d", g.assignor, g.serial+i)
		g.outstanding[value] = true
		records = append(records, record{int32(i % partitions), nil, []byte(value), nil, g.s.clock})
	}
	g.serial += count
	return g.s.send(g.name, records, -1, "none", false)
}

// collect polls the members until the records that were sent last have come, each of them once.
func (g *groupRun) collect(members ...member) error {
	wanted := len(g.outstanding)
	return until(fmt.Sprintf("%d records for %d members", wanted, len(members)), func() (bool, error) {
		for _, m := range members {
			polled, err := m.poll(50 * time.Millisecond)
			if err != nil {
				return false, err
			}
			for _, f := range polled {
				if !g.outstanding[string(f.record.value)] {
					return false, fmt.Errorf("came twice, or is before the committed offset: %s", f.record)
				}
				delete(g.outstanding, string(f.record.value))
			}
		}
		return len(g.outstanding) == 0, nil
	})
}

// settle waits until each member owns partitions and together they own each one once.
func (g *groupRun) settle(members ...member) error {
	return until(fmt.Sprintf("%d members own the partitions", len(members)), func() (bool, error) {
		var owned []int32
		every := true
		for _, m := range members {
			if polled, err := m.poll(50 * time.Millisecond); err != nil || len(polled) > 0 {
				return false, fmt.Errorf("though all are read and committed: %v, error %w", polled, err)
			}
			own, err := m.assignment()
			if err != nil {
				return false, err
			}
			every = every && len(own) > 0
			owned = append(owned, own...)
		}
		slices.Sort(owned)
		return every && slices.Equal(owned, []int32{0, 1, 2}), nil
	})
}

// group: two members share the partitions, one leaves, a later member resumes at the committed offsets.
func (s *scenario) group(assignor string) error {
	g := &groupRun{s: s, name: s.topic + "-" + assignor, assignor: assignor}
	if err := s.client.createTopic(g.name, partitions); err != nil {
		return err
	}
	s.groups = append(s.groups, g.name)
	first, err := g.join()
	if err != nil {
		return err
	}
	second, err := g.join()
	if err != nil {
		return err
	}
	var third member
	return inOrder(
		func() error { return g.settle(first, second) },
		func() error { return g.send(30) },
		func() error { return g.collect(first, second) },
		first.commit, second.commit, second.close,
		func() error { return g.settle(first) },
		func() error { return g.send(30) },
		func() error { return g.collect(first) },
		first.commit,
		// These are read by the first member, which leaves without a commit, and so again by the third.
		func() error { return g.send(9) },
		func() error { return g.collect(first) },
		first.close,
		func() error {
			for p := range 9 {
				g.outstanding[fmt.Sprintf("%s %d", assignor, g.serial-9+p)] = true
			}
			third, err = g.join()
			return err
		},
		func() error { return g.collect(third) },
		func() error { return third.commit() },
		func() error { return third.close() },
	)
}

// inOrder runs the actions up to the first that fails.
func inOrder(actions ...func() error) error {
	for i, action := range actions {
		if err := action(); err != nil {
			return fmt.Errorf("action %d: %w", i, err)
		}
	}
	return nil
}

func (s *scenario) listGroups() error { return s.listed(true, s.client.groups, s.groups...) }

func (s *scenario) describeGroup() error {
	group := s.groups[0]
	described := func(state string, members int) error {
		var last string
		err := until("described as "+state, func() (bool, error) {
			haveState, have, err := s.client.describeGroup(group)
			last = fmt.Sprintf("last %s with %d members", haveState, have)
			return haveState == state && have == members, err
		})
		if err != nil {
			return fmt.Errorf("%w, %s", err, last)
		}
		return nil
	}
	if err := described("Empty", 0); err != nil {
		return err
	}
	g := &groupRun{s: s, name: group, assignor: "range"}
	only, err := g.join()
	if err != nil {
		return err
	}
	return inOrder(
		func() error { return g.settle(only) },
		func() error { return described("Stable", 1) },
		only.close,
		func() error { return described("Empty", 0) },
	)
}

func (s *scenario) deleteGroup() error {
	for _, group := range s.groups {
		if err := s.client.deleteGroup(group); err != nil {
			return err
		}
	}
	return s.listed(false, s.client.groups, s.groups...)
}

func (s *scenario) deleteTopic() error {
	topics := append([]string{s.topic}, s.groups...)
	for _, topic := range topics {
		if err := s.client.deleteTopic(topic); err != nil {
			return err
		}
	}
	return s.listed(false, s.client.topics, topics...)
}
