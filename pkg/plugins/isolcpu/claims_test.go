package isolcpu_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestFreedCPUsGoToWhoPaid nominates a few pods with strict policies to one node, and adds others with strict policies while
// the victims end one by one: in the end all nominated pods are placed. In the first histories one was not, when ids were
// chosen without regard to the nominations.
func TestFreedCPUsGoToWhoPaid(t *testing.T) {
	seeds := []uint64{1447, 4858, 9583}
	for seed := range uint64(150) {
		seeds = append(seeds, seed)
	}
	promised := 0
	for _, seed := range seeds {
		y := &yard{house: newHouse(t), random: rand.New(rand.NewPCG(seed, 5))}
		y.node("20", "6-11", "12-17", isolated.Included)
		holders := y.promise()
		if len(holders) == 0 {
			continue
		}
		promised++
		leaving := y.leaving()
		y.disturb(len(leaving))
		for _, pod := range leaving {
			y.remove(pod)
			y.disturb(len(leaving))
		}
		if placed := y.redeem(holders); len(placed) != len(holders) {
			t.Errorf("history %d: %q were promised capacity, %v were placed", seed, holders, placed)
		}
	}
	if promised < 50 {
		t.Errorf("only in %d of %d histories another was promised capacity", promised, len(seeds))
	}
}

// yard is a house with pods of strict policies.
type yard struct {
	*house
	random *rand.Rand
}

// particular is a pod of up to so many isolated CPUs, with a strict policy in three cases of four.
func (y *yard) particular(name string, most int, priority int32) *corev1.Pod {
	pod := newPod(name, fmt.Sprint(1+y.random.IntN(most)), isolated.RequestAnnotation, "true")
	pod.Spec.Priority = &priority
	smt, numa := "", ""
	switch y.random.IntN(4) {
	case 0:
		numa = string(isolated.NUMARequired)
	case 1:
		smt = string(isolated.RequireFullCore)
	case 2:
		numa, smt = string(isolated.NUMARequired), string([]isolated.SMT{isolated.RequireFullCore, isolated.OnePerCore}[y.random.IntN(2)])
	}
	for key, value := range map[string]string{isolated.SMTAnnotation: smt, isolated.NUMAAnnotation: numa} {
		if value != "" {
			pod.Annotations[key] = value
		}
	}
	return pod
}

// confirmAll sends the watch events of all binds.
func (y *yard) confirmAll() {
	for _, uid := range slices.Sorted(maps.Keys(y.coming)) {
		y.confirm(uid)
	}
}

// task returns the only task of a pod's job.
func task(snapshot *model.Snapshot, name string) *model.Task {
	return snapshot.Job(model.JobKey{Namespace: "default", Name: name, Source: model.SourcePod}).Tasks[0]
}

// promise fills the node, and nominates up to three other pods to the capacity of evicted ones. It returns them; none when
// one of them needed no eviction.
func (y *yard) promise() (holders []string) {
	for i := range 8 {
		y.tell(y.particular(fmt.Sprintf("v-%d", i), 3, 0))
	}
	y.place()
	y.confirmAll()
	for i := range 3 {
		y.tell(y.particular(fmt.Sprintf("p-%d", i), 5, 5))
	}
	y.session(func(s *engine.Session) {
		node := s.Snapshot.Nodes[0]
		for i := range 3 {
			holder := task(s.Snapshot, fmt.Sprintf("p-%d", i))
			refusal := s.Try(func(statement *engine.Statement) *model.Refusal {
				for _, victim := range slices.Clone(node.Tasks) {
					if victim.Priority == 0 && victim.Status == model.Running && y.random.IntN(3) > 0 {
						statement.Evict(victim)
					}
				}
				if holder.Invalid != nil || !s.Ask(s.Snapshot.Job(holder.Job), model.FutureIdle).Fits(holder, node) {
					return &model.Refusal{}
				}
				return statement.Put(s.Ask(s.Snapshot.Job(holder.Job), model.FutureIdle), holder, node)
			})
			if refusal == nil {
				holders = append(holders, holder.Name)
			}
		}
	})
	snapshot := y.state.Snapshot(y.now)
	if slices.ContainsFunc(holders, func(name string) bool { return task(snapshot, name).Nominated == "" }) {
		return nil
	}
	return holders
}

// leaving returns the evicted pods, in any order.
func (y *yard) leaving() []*corev1.Pod {
	var leaving []*corev1.Pod
	for _, victim := range y.state.Snapshot(y.now).Node("a").Tasks {
		if victim.Status == model.Releasing {
			leaving = append(leaving, y.pods[victim.UID])
		}
	}
	y.random.Shuffle(len(leaving), func(i, j int) { leaving[i], leaving[j] = leaving[j], leaving[i] })
	return leaving
}

// disturb adds a few pods that start on idle capacity, if they may.
func (y *yard) disturb(round int) {
	for i := range y.random.IntN(3) {
		y.tell(y.particular(fmt.Sprintf("s-%d-%d-%d", round, i, len(y.pods)), 3, 1))
	}
	y.placeOnly(func(t *model.Task) bool { return t.Priority == 1 })
	y.confirmAll()
}

// placeOnly places those of the pending pods that fit, and returns them.
func (y *yard) placeOnly(which func(*model.Task) bool) map[string]bool {
	placed := map[string]bool{}
	y.session(func(s *engine.Session) {
		for _, job := range s.Snapshot.Jobs {
			for _, waiting := range job.Pending() {
				if !which(waiting) || waiting.Invalid != nil {
					continue
				}
				refusal := s.Try(func(statement *engine.Statement) *model.Refusal {
					node, tally := s.Ask(s.Snapshot.Job(waiting.Job), model.Idle).BestOrWhy(waiting, nil)
					if node == nil {
						return tally.Refusal(1, 0, "")
					}
					return statement.Put(s.Ask(s.Snapshot.Job(waiting.Job), model.Idle), waiting, node)
				})
				if refusal == nil {
					placed[waiting.Name] = true
				}
			}
		}
	})
	return placed
}

// redeem places the nominated pods; one that does not fit before the others are placed is tried again.
func (y *yard) redeem(holders []string) map[string]bool {
	ours := func(t *model.Task) bool { return slices.Contains(holders, t.Name) }
	placed := y.placeOnly(ours)
	maps.Copy(placed, y.placeOnly(ours))
	return placed
}
