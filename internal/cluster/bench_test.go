package cluster

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// crowded returns a state of so many nodes with ten running pods each.
func crowded(nodes int) *State {
	s := newState()
	for i := range nodes {
		name := fmt.Sprintf("node%05d", i)
		s.Apply(seen(node(name)))
		for j := range 10 {
			s.Apply(seen(pod(fmt.Sprintf("%s-%d", name, j), on(name), phase("Running"), of(fmt.Sprintf("g%d", i/5)))))
		}
	}
	s.Snapshot(start)
	return s
}

// The cost must be that of the change: the same for every size of the cluster.
func BenchmarkSnapshot(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		s := crowded(nodes)
		b.Run(fmt.Sprintf("nodes=%d/unchanged", nodes), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				s.Snapshot(start.Add(time.Duration(i) * time.Second))
			}
		})
		b.Run(fmt.Sprintf("nodes=%d/bind", nodes), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprintf("p%d", i)
				s.Apply(seen(pod(name)))
				s.Snapshot(start)
				s.Assume(bind(name, "node00050"))
				s.Snapshot(start)
				s.Apply(seen(pod(name, on("node00050"))))
				s.Snapshot(start)
				s.Apply(gone(pod(name)))
				s.Snapshot(start)
			}
		})
	}
}

// Each event is a new version of a pod: read, translated, compared.
func BenchmarkApplyPod(b *testing.B) {
	s := crowded(1)
	p := StripPod(pod("p", func(p *corev1.Pod) { p.Generation = 1 }))
	for i := 0; b.Loop(); i++ {
		next := *p
		next.ResourceVersion = strconv.Itoa(i + 1)
		s.Apply(&PodSeen{Pod: &next})
	}
}
