package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

func withUID(n *corev1.Node, uid types.UID) *corev1.Node {
	n.UID = uid
	return n
}

func TestOneIncarnationOfAName(t *testing.T) {
	first := func(n int, options ...podOption) *corev1.Pod {
		return pod("p", append(options, uid("first"), revised(n))...)
	}
	second := func(n int, options ...podOption) *corev1.Pod {
		return pod("p", append(options, uid("second"), revised(n))...)
	}
	unversioned := func(id string) *corev1.Pod { return pod("p", uid(id)) }
	for name, c := range map[string]struct {
		events []Event
		want   string // UID, and the node it is on
	}{
		"late update":               {[]Event{seen(first(9, on("n"))), seen(first(8))}, "first n"},
		"update after deletion":     {[]Event{seen(first(5)), gone(first(8)), seen(first(7))}, ""},
		"deletion before addition":  {[]Event{gone(first(8)), seen(first(5))}, ""},
		"guessed deletion":          {[]Event{seen(first(9)), gone(first(5)), seen(first(10))}, ""},
		"older one after a guess":   {[]Event{seen(first(9)), gone(first(5)), seen(second(7))}, ""},
		"replaced":                  {[]Event{seen(first(5)), seen(second(9))}, "second "},
		"late deletion of the old":  {[]Event{seen(first(5)), seen(second(9)), gone(first(8))}, "second "},
		"late update of the old":    {[]Event{seen(second(9)), seen(first(7))}, "second "},
		"deletion of a later one":   {[]Event{seen(first(5)), gone(second(12)), seen(second(9))}, ""},
		"deletion of an older one":  {[]Event{seen(second(9)), gone(first(8))}, "second "},
		"both gone, both late":      {[]Event{gone(first(8)), gone(second(12)), seen(second(9)), seen(first(5))}, ""},
		"recreated after deletion":  {[]Event{seen(first(5)), gone(first(8)), seen(second(9))}, "second "},
		"no versions, replaced":     {[]Event{seen(unversioned("first")), seen(unversioned("second"))}, "second "},
		"no versions, old deletion": {[]Event{seen(unversioned("second")), gone(unversioned("first"))}, "second "},
		"no versions, deleted":      {[]Event{seen(unversioned("first")), gone(unversioned("first")), seen(unversioned("first"))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(node("n"))
			for _, event := range c.events {
				s.Apply(event)
			}
			got := ""
			for _, job := range snap(t, s, start).Jobs {
				for _, task := range job.Tasks {
					got += fmt.Sprintf("%s %s", task.UID, task.Node)
				}
			}
			if got != c.want {
				t.Errorf("state holds %q, want %q", got, c.want)
			}
		})
	}
}

func TestTombstonesAreBounded(t *testing.T) {
	s := newState(pod("alive", revised(1)))
	for i := range 3 * maxTombstones {
		name := fmt.Sprintf("p%d", i)
		s.Apply(seen(pod(name, revised(2*i+1))))
		s.Apply(gone(pod(name, revised(2*i+2))))
	}
	if len(s.incarnations.newest[kindPod]) != maxTombstones+1 || len(s.incarnations.tombstones) != maxTombstones {
		t.Errorf("%d names and %d tombstones are remembered, want %d", len(s.incarnations.newest[kindPod]), len(s.incarnations.tombstones), maxTombstones)
	}
	snapshot := snap(t, s, start)
	if len(snapshot.Jobs) != 1 || len(s.pods.entries) != 1 || len(s.pods.members) != 1 || len(s.pods.held) != 0 {
		t.Errorf("I8: state still holds %d jobs, %d pods", len(snapshot.Jobs), len(s.pods.entries))
	}
}

func TestNodeIsReplaced(t *testing.T) {
	s := newState(node("n"), pod("p", on("n")), pod("q", on("n")))
	snap(t, s, start)
	s.Apply(gone(node("n")))
	if snapshot := snap(t, s, start); len(snapshot.Nodes) != 0 || s.view.String() != newState().view.String() {
		t.Errorf("nodes after the only one went: %v", snapshot.Nodes)
	}
	s.Apply(gone(pod("q")))
	s.Apply(seen(withUID(node("n", "cpu", "3"), "n2")))
	if n := snap(t, s, start).Node("n"); n.Idle(model.CPU) != 2000 || len(n.Tasks) != 1 {
		t.Errorf("the new node has %v idle and %d tasks", n.Amounts().Idle, len(n.Tasks))
	}
}
