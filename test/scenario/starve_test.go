package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// stream is small jobs that come and go without end.
type stream struct {
	*random
	*environment
	// longest is the longest that one of them runs, in seconds.
	longest int
	// spans is how long each runs, by pod.
	spans map[string]time.Duration
	// lies reports that what they say is any time.
	lies bool
	// largest is how many members the gangs among them have at most.
	largest int
	// queues are those whose jobs they are; empty for the default one.
	queues []string
	// again is for how many seconds a gang may wait once its reservation has given way; gaveWay reports that one has.
	again   int
	gaveWay bool
}

// come lets some jobs come, single pods and small gangs. Some say how long they run, and some of these say the truth.
func (s *stream) come() error {
	for range s.n(0, 4) {
		s.names++
		name, span := fmt.Sprintf("small%04d", s.names), s.n(1, s.longest)
		size := s.n(1, s.largest)
		known, said := s.n(0, 1) == 1, span
		if s.lies {
			said = s.n(1, s.longest)
		}
		lines, rest := "", ""
		queue := s.queue()
		if known {
			rest = fmt.Sprintf(" deadline=%ds", said)
		}
		if size > 1 {
			lines = fmt.Sprintf("group %s min=%d", name, size)
			if known {
				lines, rest = fmt.Sprintf("%s expected=%ds", lines, said), ""
			}
			rest += " group=" + name
		}
		rest += queue
		for i := range size {
			pod := fmt.Sprintf("%s-%d", name, i)
			lines += fmt.Sprintf("\npod %s cpu=%d priority=%d%s", pod, s.n(1, 2), s.n(-1, 0), rest)
			s.spans[pod] = time.Duration(span) * time.Second
		}
		if err := s.world.apply(lines); err != nil {
			return err
		}
	}
	return nil
}

// queue draws the queue of a job, as its pods name it.
func (s *stream) queue() string {
	if len(s.queues) == 0 {
		return ""
	}
	return " labels=scheduling.tutti.dev/queue=" + s.one(s.queues...)
}

// second is a tick in which others come.
func (s *stream) second() error {
	if err := s.come(); err != nil {
		return err
	}
	return s.tick()
}

// tick ends the pods that are done or were evicted, and lets those that got a node begin to run.
func (s *stream) tick() error {
	s.world.now = s.world.now.Add(time.Second)
	done := s.world.podNames(func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodRunning && s.spans[pod.Name] > 0 &&
			!s.world.now.Before(pod.Status.StartTime.Add(s.spans[pod.Name]))
	})
	if err := s.world.remove("pod", done); err != nil {
		return err
	}
	if _, err := s.cycle(); err != nil {
		return err
	}
	if err := s.confirm(); err != nil {
		return err
	}
	return s.applyEvents("run", nil, nil)
}

// starts lets so many seconds pass at most until the member has started, and reports whether it has.
func (s *stream) starts(t *rapid.T, member string, patience int) bool {
	began := func() bool { return s.world.pods[member].Spec.NodeName != "" }
	for i := 0; i < patience && !began(); i++ {
		if err := s.second(); err != nil {
			t.Fatal(err)
		}
		if held := s.world.groups["big"].Status.Reservation; !s.gaveWay && held != nil && held.GaveWay != nil {
			s.gaveWay, patience = true, i+s.again
		}
	}
	return began()
}

// mustStart fails the test when the member has not started after so many seconds.
func (s *stream) mustStart(t *rapid.T, member string, patience, reserveAfter int) {
	if !s.starts(t, member, patience) {
		o := s.session(engine.Options{})
		t.Fatalf("it waits for %d s, reserveAfter is %d s, the longest runs for %d s:\n%s", patience, reserveAfter, s.longest, o)
	}
}

// fits reports whether so many members of so much CPU fit nodes of these sizes.
func fits(members, cpu int, nodes []int) bool {
	for _, size := range nodes {
		members -= size / cpu
	}
	return members <= 0
}

// TestALargeGangDoesNotStarve is invariant I16: under an endless stream of small jobs of its priority or below, a gang that
// fits the empty cluster starts no later than reserveAfter after it came, plus as long as the longest of them runs; plus as
// long again, if they do not tell the truth about it, since one of them may have borrowed its capacity.
//
// Seed 13016589420121609349 is a pod that is bound on a node in the cycle in which others are evicted there.
func TestALargeGangDoesNotStarve(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		s := &stream{random: &random{t: t}, environment: newStage(), spans: map[string]time.Duration{}, largest: 1}
		s.longest, s.lies = s.n(2, 20), s.n(0, 1) == 1
		reserveAfter := s.n(0, 10)
		s.environment.configuration = reservingAfter(reserveAfter)
		var nodes []int
		for i := range s.n(1, 4) {
			nodes = append(nodes, s.n(2, 6))
			if err := s.world.apply(fmt.Sprintf("node n%d cpu=%d", i, nodes[i])); err != nil {
				t.Fatal(err)
			}
		}
		for range s.n(0, s.longest) {
			if err := s.second(); err != nil {
				t.Fatal(err)
			}
		}
		members, cpu := s.n(1, 6), s.n(1, 6)
		if !fits(members, cpu, nodes) {
			return
		}
		big := fmt.Sprintf("group big min=%d\npods big-{1..%d} group=big cpu=%d", members, members, cpu)
		if err := s.world.apply(big); err != nil {
			t.Fatal(err)
		}
		s.largest = 2                            // gangs that came before it would have the one reservation before it
		patience := reserveAfter + s.longest + 1 // it is first looked at a second after it came
		if s.lies {
			patience += s.longest
		}
		s.mustStart(t, "big-1", patience, reserveAfter)
	})
}

// TestALimitDoesNotStarveAGang: under the same stream in a queue with a limit, a gang that fits below it starts no later than
// reserveAfter after it came, plus as long as the longest of the others runs; plus as long again where nodes are scarce, too: it
// may find capacity for its members only once it may use it.
func TestALimitDoesNotStarveAGang(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		s := &stream{random: &random{t: t}, environment: newStage(), spans: map[string]time.Duration{}, largest: 1, lies: true}
		s.longest = s.n(2, 20)
		reserveAfter, limit, scarce := s.n(1, 10), s.n(2, 8), s.n(0, 1) == 1
		s.environment.configuration = reservingAfter(reserveAfter)
		size := 64
		if scarce {
			size = limit + 1
		}
		members := s.n(1, limit)
		lines := fmt.Sprintf("node n cpu=%d\nqueue above limit=cpu:%d\nqueue default parent=above", size, limit)
		if s.n(0, 1) == 1 {
			lines = fmt.Sprintf("node n cpu=%d\nqueue default limit=cpu:%d", size, limit)
		}
		if err := s.world.apply(lines); err != nil {
			t.Fatal(err)
		}
		for range s.n(0, s.longest) {
			if err := s.second(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.world.apply(fmt.Sprintf("group big min=%d\npods big-{1..%d} group=big cpu=1", members, members)); err != nil {
			t.Fatal(err)
		}
		s.largest = 2                            // gangs that came before it would be the first to have headroom
		patience := reserveAfter + s.longest + 2 // it is first looked at a second after it came, and waits from then on
		if scarce {
			patience += s.longest
		}
		s.mustStart(t, "big-1", patience, reserveAfter)
	})
}

// amongQueues plays a stream of pods in several queues, and reports whether a gang of one of them starts in time that fits an
// empty cluster and below its limit: after reserveAfter, and as long as the longest of the others runs; plus as long again where
// they do not tell the truth about it, since one of them may have borrowed its capacity, and as long again where a limit is full
// as well as nodes, since nodes are reserved once the jobs of its queue that fill the limit have ended. With both, the second may
// begin when the first ends (seed 20797260). With evictions it is as long again, too: a job that takes by share starts in the
// place of its victim, also where the gang waits for the end of the victim, or has lent the place to it (seeds 1430876293,
// 1406597698).
//
// Where the reservation gives way, it may wait for as long again from then on, and until the jobs that come before the
// reservation is planned again have started.
func amongQueues(t *rapid.T, stage *environment, evicts bool) (starts, gaveWay bool, story string) {
	s := &stream{random: &random{t: t}, environment: stage, spans: map[string]time.Duration{}, largest: 1}
	defer func() { s.close() }()
	s.longest, s.lies = s.n(2, 20), s.n(0, 1) == 1
	reserveAfter := s.n(0, 10)
	s.environment.configuration = reservingAfter(reserveAfter)
	s.again = reserveAfter + 2*s.longest + 3
	if evicts {
		s.environment.configuration = bytes.ReplaceAll(s.environment.configuration, []byte("configurations: ["),
			[]byte("configurations: [{name: reclaim, arguments: {minRunSeconds: 0}}, "))
	}
	lines := ""
	var nodes []int
	for i := range s.n(1, 4) {
		nodes = append(nodes, s.n(2, 6))
		lines += fmt.Sprintf("node n%d cpu=%d\n", i, nodes[i])
	}
	members, cpu := s.n(1, 6), s.n(1, 6)
	if !fits(members, cpu, nodes) {
		return true, false, ""
	}
	limited := s.n(0, 1) == 1
	for i := range s.n(2, 3) {
		s.queues = append(s.queues, fmt.Sprintf("q%d", i))
		lines += fmt.Sprintf("queue q%d selector=* weight=%d", i, s.n(1, 3))
		if i == 0 && limited {
			lines += fmt.Sprintf(" limit=cpu:%d", members*cpu+s.n(0, 4))
		}
		lines += "\n"
	}
	if err := s.world.apply(lines); err != nil {
		t.Fatal(err)
	}
	for range s.n(0, s.longest) {
		if err := s.second(); err != nil {
			t.Fatal(err)
		}
	}
	big := fmt.Sprintf("group big min=%d queue=q0\npods big-{1..%d} group=big cpu=%d", members, members, cpu)
	if err := s.world.apply(big); err != nil {
		t.Fatal(err)
	}
	patience := reserveAfter + s.longest + 2
	for _, longer := range []bool{s.lies, limited, evicts} {
		if longer {
			patience += s.longest
			s.again += s.longest
		}
	}
	story = fmt.Sprintf("%s%s\nit waits for %d s, reserveAfter is %d s, the longest runs for %d s", lines, big, patience, reserveAfter, s.longest)
	starts = s.starts(t, "big-1", patience)
	return starts, s.gaveWay, fmt.Sprintf("%s; its reservation gave way: %t", story, s.gaveWay)
}

// TestNoQueueStarvesAGang is invariant Q17: under an endless stream of small jobs of all queues, a gang starts within a time that
// is bounded, whatever the weights.
func TestNoQueueStarvesAGang(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		if starts, _, story := amongQueues(t, newStage(), false); !starts {
			t.Fatal(story)
		}
	})
}

// TestNoTakersStarveAGang: the same where pods are evicted by share, and a reservation gives way to jobs that come all the time.
func TestNoTakersStarveAGang(t *testing.T) {
	newStage := openLister(t)
	gave := 0
	rapid.Check(t, func(t *rapid.T) {
		starts, gaveWay, story := amongQueues(t, newStage(), true)
		if gaveWay {
			gave++
		}
		if !starts {
			t.Fatal(story)
		}
	})
	t.Logf("%d reservations gave way", gave)
	if gave == 0 {
		t.Error("no reservation gave way")
	}
}

// TestTakersDoNotTakeTurnsWithOthersOfTheQueue is the abuse: what jobs of another queue leave, jobs of the gang's own queue use,
// and so the others, always within their share, use what is reserved instead. A reservation that gave way each time would keep
// nothing.
func TestTakersDoNotTakeTurnsWithOthersOfTheQueue(t *testing.T) {
	newStage := openLister(t)
	const longest = 8
	for nodes := 2; nodes <= 3; nodes++ {
		for streams := 4; streams <= 2*nodes; streams++ {
			for every := streams; every <= longest; every++ {
				for reserveAfter := every; reserveAfter <= longest; reserveAfter++ {
					s := &stream{environment: newStage(), spans: map[string]time.Duration{}}
					s.environment.configuration = reservingAfter(reserveAfter)
					if err := s.takeTurns(nodes, streams, every, reserveAfter); err != nil {
						t.Errorf("%d nodes, %d streams, reserveAfter is %d s, a taker comes to each stream every %d s: %v",
							nodes, streams, reserveAfter, every, err)
					}
					s.close()
				}
			}
		}
	}
}

// takeTurns plays a gang that needs all of the cluster but one place, and fails unless it starts in time once its reservation has
// given way. The takers are within the share of their queue. They come in four streams or more, in each of them one second after
// the last one has ended, and no two streams pause at once. So three takers run at any time while the reservation gives way, and
// at most one of them does not use what is reserved.
func (s *stream) takeTurns(nodes, streams, every, reserveAfter int) error {
	lines := fmt.Sprintf("node n{1..%d} cpu=4\nqueue a selector=*\nqueue b selector=*", nodes)
	come := func(name, queue string, runs int) {
		if s.world.pods[name] == nil {
			s.spans[name] = time.Duration(runs) * time.Second
			lines += fmt.Sprintf("\npod %s cpu=1 labels=scheduling.tutti.dev/queue=%s", name, queue)
		}
	}
	members := 4*nodes - 1
	for i := range members - streams {
		come(fmt.Sprintf("first%d", i), "a", every+2*reserveAfter)
	}
	reserved, due := false, 0
	for i := range 10 * (every + reserveAfter) {
		for j := range streams {
			if i%every == j*every/streams {
				come(fmt.Sprintf("other%d", j), "b", every-1)
			}
		}
		come("own0", "a", every)
		if reserved {
			come("own1", "a", every) // and so one of the two waits
		}
		if i == every {
			lines += fmt.Sprintf("\ngroup big min=%d queue=a\npods big-{1..%d} group=big cpu=1", members, members)
		}
		if err := s.world.apply(lines); err != nil {
			return err
		}
		lines = ""
		if err := s.tick(); err != nil {
			return err
		}
		if i < every {
			continue
		}
		held := s.world.groups["big"].Status.Reservation
		if reserved = held != nil; due == 0 && reserved && held.GaveWay != nil {
			due = i + reserveAfter + 2*every + 3
		}
		switch started := s.world.pods["big-1"].Spec.NodeName != ""; {
		case started && due > 0:
			return nil
		case started:
			return errors.New("the gang started before its reservation gave way")
		case due > 0 && i == due:
			return fmt.Errorf("the gang has not started in time after its reservation gave way:\n%s", s.session(engine.Options{}))
		}
	}
	return errors.New("the reservation does not give way")
}

// TestStarvationIsSeen: where capacity is not reserved, pods of another queue keep a gang from starting for as long as they come.
func TestStarvationIsSeen(t *testing.T) {
	newStage := openLister(t)
	for reserveAfter, want := range map[int]bool{5: true, 3600: false} {
		s := &stream{environment: newStage(), spans: map[string]time.Duration{}}
		s.environment.configuration = reservingAfter(reserveAfter)
		if err := s.world.apply("node n cpu=4\nqueue q0 selector=*\nqueue q1 selector=*"); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			name := fmt.Sprintf("small%02d", i)
			s.spans[name] = 4 * time.Second
			lines := fmt.Sprintf("pod %s cpu=1 labels=scheduling.tutti.dev/queue=q1", name)
			if i == 8 {
				lines += "\ngroup big min=4 queue=q0\npods big-{1..4} group=big cpu=1"
			}
			if err := s.world.apply(lines); err != nil {
				t.Fatal(err)
			}
			if err := s.tick(); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.world.pods["big-1"].Spec.NodeName != ""; got != want {
			t.Errorf("where capacity is reserved after %d s, the gang starts: %t, want %t", reserveAfter, got, want)
		}
		s.close()
	}
}

// reservingAfter is the built-in configuration, but that capacity is reserved after so many seconds.
func reservingAfter(seconds int) []byte {
	return fmt.Appendf(nil, "%s\nconfigurations: [{name: backfill, arguments: {reserveAfter: %ds, reserveShare: 100}}]\n", config.DefaultYAML(), seconds)
}

// TestALargeGangDoesNotStarveAmongOverrunningJobs: every job declares a much shorter run than is true. Then those that came
// last always seem to be the first to end, and must not drive the gang from node to node indefinitely.
func TestALargeGangDoesNotStarveAmongOverrunningJobs(t *testing.T) {
	const runs, says, every, nodes = 60, 15, 6, 10
	s := &stream{environment: openLister(t)(), spans: map[string]time.Duration{}}
	s.environment.configuration = reservingAfter(10)
	if err := s.world.apply(fmt.Sprintf("node n{1..%d} cpu=4\ngroup big min=2\npods big-{1..2} group=big cpu=4", nodes)); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		s.spans[fmt.Sprintf("first%d", i)] = time.Duration(runs-i*every) * time.Second
		if err := s.world.apply(fmt.Sprintf("group first%d min=1 expected=%ds\npod first%d group=first%d cpu=4 node=n%d phase=Running",
			i, says, i, i, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	patience := 10 + 4*runs
	for i := range patience {
		name := fmt.Sprintf("late%04d", i)
		if i%every == 0 {
			s.spans[name] = runs * time.Second
			if err := s.world.apply(fmt.Sprintf("group %s min=1 expected=%ds\npod %s group=%s cpu=4", name, says, name, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.tick(); err != nil {
			t.Fatal(err)
		}
		if s.world.pods["big-1"].Spec.NodeName != "" {
			return
		}
	}
	t.Fatalf("it waits for %d s, all others run for %d s", patience, runs)
}
