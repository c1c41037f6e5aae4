package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file is how a story shows its cluster to the judges of package invariants.

// shown is the cluster as the story has it, with the effect of what was decided so far.
func (s *environment) shown() *invariants.View {
	v := &invariants.View{
		Queues: s.world.queues, Namespace: func(name string) *corev1.Namespace { return s.world.namespaces[name] },
		JobOf: s.jobOf, Group: s.groupOfJob, Shares: s.sharedBy, Level: levelOf, Place: s.nodeOf, Overstays: s.overstays,
		TakesOthers: bytes.Contains(s.configuration, []byte("victims: all")),
		Leaves:      func(pod *corev1.Pod) bool { return s.ending[pod.UID] },
		Nominated: func(pod *corev1.Pod) string {
			if node, decided := s.nominated[pod.UID]; decided {
				return node
			}
			return pod.Status.NominatedNodeName
		},
		Mark: func(pod *corev1.Pod, name string) string {
			if text, given := s.given[pod.UID][name]; given {
				return text
			}
			return pod.Annotations[name]
		},
		Class: func(name string) (value int32, known bool) {
			if class := s.world.classes[name]; class != nil {
				return class.Value, true
			}
			return 0, false
		},
		Uncounted: func(node *corev1.Node, name corev1.ResourceName) bool {
			amount := node.Status.Allocatable[name]
			return amount.IsZero() && s.byClass(name)
		},
	}
	v.Parts = func(job model.JobKey) []invariants.Part {
		group := s.groupOfJob(job)
		if group == nil || job.IsPod() {
			return nil
		}
		members := slices.DeleteFunc(slices.Clone(v.Pods), func(pod *corev1.Pod) bool { return s.jobOf(pod) != job })
		return []invariants.Part{{PodGroup: group, Job: job, Pods: members, Runs: members}}
	}
	v.Elsewhere = func(decision model.Decision, _ model.JobKey) bool { return len(v.Limits(decision.Job)) > 0 }
	for _, name := range slices.Sorted(maps.Keys(s.world.pods)) {
		v.Pods = append(v.Pods, s.world.pods[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.world.nodes)) {
		v.Nodes = append(v.Nodes, s.world.nodes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.world.budgets)) {
		v.Budgets = append(v.Budgets, s.world.budgets[name])
	}
	return v
}

// The invariants to which a configuration may say that it does not keep: without filters, or where pods of a source start singly.
const (
	ofFilters = "I4"
	ofMembers = "I26"
)

// judge holds one of the decisions of a cycle to the invariants, when it and those before it were taken.
func (s *environment) judge(o *outcome, at int) error {
	var broken []error
	v, decision := s.shown(), o.decisions[at]
	v.Violated = func(invariant, format string, words ...any) {
		switch {
		case invariant == ofFilters && !bytes.Contains(s.configuration, []byte("name: predicates")),
			invariant == ofMembers && s.profile != nil && len(s.profile.SourcesOff) > 0: // the configuration has it so
			return
		}
		broken = append(broken, fmt.Errorf("invariant "+invariant+": "+format, words...))
	}
	v.Begun = func(key model.JobKey) int32 {
		if job := o.snapshot.Job(key); job != nil && job.LostMembers {
			return math.MaxInt32 // what has begun is completed in any queue
		}
		return o.snapshot.Begun[key].MinMember
	}
	v.Keeps = func(pod *corev1.Pod, node string) bool {
		later := func(d model.Decision) bool { // one cannot see since when others could have what it gives back
			return slices.ContainsFunc(d.Nominations, func(n model.Nomination) bool { return n.Pod.UID == pod.UID })
		}
		starts := func(d model.Decision) bool { return d.Job == s.jobOf(pod) && len(d.Binds) > 0 }
		_, fresh := s.nominated[pod.UID]
		fresh = fresh || len(decision.Binds) == 0 // a job gives back first what others get in the same cycle
		return v.Nominated(pod) == node && s.nodeOf(pod) == "" && pod.Status.Phase == corev1.PodPending &&
			!(fresh && slices.ContainsFunc(o.decisions[at+1:], later)) && !slices.ContainsFunc(o.decisions, starts)
	}
	v.Judge(decision)
	v.CheckNominated(decision)
	if all, last := o.bindsOf(decision.Job, at); last && bytes.Contains(s.configuration, []byte("name: "+gang.Name)) {
		v.CheckMinimum(all)
	}
	return errors.Join(broken...)
}

// bindsOf is all that a job is given in a cycle, and whether a decision is the last that gives it something.
func (o *outcome) bindsOf(job model.JobKey, at int) (all model.Decision, last bool) {
	all, last = model.Decision{Job: job}, true
	for i, decision := range o.decisions {
		if decision.Job == job {
			all.Binds = append(all.Binds, decision.Binds...)
			last = last && (i <= at || len(decision.Binds) == 0)
		}
	}
	return all, last
}

// levelOf returns the tree of a level and its labels, from the widest on; none for single nodes.
func levelOf(level string) (tree string, labels []string, known bool) {
	label, is := strings.CutPrefix(level, "label:")
	switch {
	case is:
		return "", []string{label}, true
	case level == "host":
		return "", nil, true
	case level == "rack":
		return "fabric", []string{"block", "rack"}, true
	case level == "block":
		return "fabric", []string{"block"}, true
	case level == "clique":
		return "nvlink", []string{"clique"}, true
	}
	return "", []string{level}, true
}

// queueOf returns the name of a job's queue as the objects are now.
func (s *environment) queueOf(job model.JobKey) string { return s.shown().QueueOf(job) }

// above returns the names of the queue and of those above it, up to the first that does not exist.
func (w *world) above(name string) []string {
	path, _, _ := invariants.Tree(w.queues).Path(name)
	return path
}

// severalQueues reports whether there are, with the one that exists without an object.
func (s *environment) severalQueues() bool { return invariants.Tree(s.world.queues).Several() }

// priorityOfJob is the priority of a job by its pods, and no more than what its group's class says.
func (s *environment) priorityOfJob(job model.JobKey) int32 { return s.shown().PriorityOf(job, nil) }
