package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// turns is equal queues, each with gangs that fill the cluster and all run for as long.
type turns struct {
	*random
	*environment
	// forgets lets a scheduler that takes over not know when jobs of each queue last started.
	forgets bool
	// started counts the gangs of each queue that have.
	started map[string]int
	played  string
}

// play returns what is wrong; empty when each queue has had its turn, whichever scheduler led.
func (s *turns) play() (string, error) {
	queues, rounds, runs, tick := s.n(2, 6), s.n(1, 3), s.n(1, 3), time.Duration(s.n(1, 300))*time.Second
	takeover := s.n(0, queues*rounds)
	nodes, cores := s.n(1, 2), s.n(1, 2)
	lines := fmt.Sprintf("node n{1..%d} cpu=%d\n", nodes, cores)
	equal := fmt.Sprintf("weight=%d", s.n(0, 5)) + s.seldom(2, fmt.Sprintf("guarantee=cpu:%d", s.n(1, 4)))
	s.started = map[string]int{}
	for i := range queues {
		queue := fmt.Sprintf("q%d", i)
		s.started[queue] = 0
		lines += fmt.Sprintf("queue %s selector=* %s\n", queue, equal)
		for j := range rounds {
			gang := fmt.Sprintf("%s-%d", queue, j)
			lines += fmt.Sprintf("group %s min=%d queue=%s\npods %s-{1..%d} group=%s cpu=1 age=%ds priority=%d\n",
				gang, nodes*cores, queue, gang, nodes*cores, gang, s.n(0, 99), s.n(0, 3))
		}
	}
	s.played = lines
	if err := s.world.apply(lines); err != nil {
		return "", err
	}
	for turn := range queues * rounds {
		for since := range runs {
			o, err := s.cycle()
			if err != nil {
				return "", err
			}
			s.played += o.String() + "\n"
			if wrong := s.count(o, turn, since); wrong != "" {
				return wrong, nil
			}
			if err := s.confirm(); err != nil {
				return "", err
			}
			s.world.now = s.world.now.Add(tick)
		}
		ran := s.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded })
		if err := s.applyEvents("finish", ran, nil); err != nil {
			return "", err
		}
		if turn == takeover {
			if err := s.takeOver(); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// count takes down what a cycle has decided: one gang starts in the first of each turn, and nothing else happens; no queue is
// ever more than one gang ahead of another.
func (s *turns) count(o *outcome, turn, since int) string {
	starts := 0
	for _, decision := range o.decisions {
		if len(decision.Evictions) > 0 {
			return fmt.Sprintf("turn %d: pods are evicted for %s", turn, decision.Job)
		}
		if len(decision.Binds) > 0 {
			starts++
			s.started[s.queueOf(decision.Job)]++
		}
	}
	if want := map[bool]int{true: 1}[since == 0]; starts != want {
		return fmt.Sprintf("turn %d: %d gangs start, want %d", turn, starts, want)
	}
	for ahead, most := range s.started {
		for behind, least := range s.started {
			if most > least+1 {
				return fmt.Sprintf("turn %d: %d gangs of queue %s have started, and %d of queue %s", turn, most, ahead, least, behind)
			}
		}
	}
	return ""
}

// takeOver lets another scheduler take over.
func (s *turns) takeOver() error {
	if s.forgets {
		for name, queue := range s.world.queues {
			queue = queue.DeepCopy()
			queue.Status.LastStart = nil
			s.world.queues[name] = queue
		}
	}
	return s.restart()
}

// TestEqualQueuesAreServedInTurn is invariant Q18: of equal queues of gangs as large as the cluster no queue is more than one
// gang ahead of another, whichever scheduler leads, and however long the gangs run.
func TestEqualQueuesAreServedInTurn(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		s := &turns{random: &random{t: t}, environment: newStage()}
		defer func() { s.close() }()
		wrong, err := s.play()
		if err != nil {
			t.Fatalf("%v\n%s", err, s.played)
		}
		if wrong != "" {
			t.Fatalf("%s\n%s", wrong, s.played)
		}
	})
}

// TestAForgottenStartIsSeen: when the last start of a queue is in no status, the next scheduler begins with the first queue
// again.
func TestAForgottenStartIsSeen(t *testing.T) {
	newStage := openLister(t)
	for seed := range 20 {
		wrong := rapid.Custom(func(t *rapid.T) string {
			s := &turns{random: &random{t: t}, environment: newStage(), forgets: true}
			defer func() { s.close() }()
			wrong, err := s.play()
			if err != nil {
				t.Fatal(err)
			}
			return wrong
		}).Example(seed)
		if strings.Contains(wrong, "have started") {
			return
		}
	}
	t.Error("not seen")
}
