package audit

import (
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/test/invariants"
)

// Check is something that must not be found.
type Check string

// The checks, in the order in which they are shown.
const (
	// Partial is a gang with some pods on nodes, but fewer than its minimum.
	Partial Check = "partial gangs"
	// Overcommitted is a node whose pods ask for more of a resource than it offers, the number of pods included.
	Overcommitted Check = "overcommitted nodes"
	// Misplaced is a pod on a node that does not exist or that its selector, affinity or tolerations forbid.
	Misplaced Check = "misplaced pods"
	// Unexplained is a waiting gang that does not say why, or one that says the opposite of what is the case.
	Unexplained Check = "gangs without a true word"
	// Overlooked is a waiting gang that would fit the idle capacity.
	Overlooked Check = "waiting gangs that would fit"
)

// Checks are all of them.
func Checks() []Check { return []Check{Partial, Overcommitted, Misplaced, Unexplained, Overlooked} }

// Report is what an audit found.
type Report struct {
	// Nodes, Gangs and Pods are how many there are; a pod without a group counts as a gang too.
	Nodes, Gangs, Pods int
	// Started is how many gangs have their minimum on nodes, Placed how many pods have a node.
	Started, Placed int
	// Waiting is how many gangs have no pod on a node; Reasons is what they say, with how many say it.
	Waiting int
	Reasons map[string]int
	// Incomplete is how many of the waiting have fewer members than they need.
	Incomplete int
	// Unjudged is how many of the waiting have members whose placement this audit does not understand.
	Unjudged int
	// Idle and Offered are the whole cluster's resources.
	Idle, Offered map[corev1.ResourceName]int64
	// Found is what must not be: an explanation each.
	Found map[Check][]string
}

// Audit judges the pods of one scheduler, and all nodes.
func Audit(c *Cluster, schedulerName string) *Report {
	r := &Report{
		Nodes: len(c.Nodes), Reasons: map[string]int{}, Found: map[Check][]string{},
		Idle: invariants.Amounts{}, Offered: invariants.Amounts{},
	}
	space := r.rooms(c)
	for _, g := range gangs(c, schedulerName) {
		r.Gangs++
		r.Pods += g.placed + len(g.waiting)
		r.Placed += g.placed
		r.explained(g)
		switch {
		case g.started():
			r.Started++
		case g.placed > 0:
			r.found(Partial, "%s: %d of at least %d members are on nodes", g.name, g.placed, g.minimum)
		default:
			r.Waiting++
			r.Reasons[g.reason]++
			r.overlooked(g, space)
		}
	}
	return r
}

func (r *Report) found(check Check, format string, args ...any) {
	r.Found[check] = append(r.Found[check], fmt.Sprintf(format, args...))
}

// rooms works out what is idle on each node, and checks what is there.
func (r *Report) rooms(c *Cluster) *room {
	byName := map[string]int{}
	nodes, idle := make([]*corev1.Node, len(c.Nodes)), make([]invariants.Amounts, len(c.Nodes))
	for i := range c.Nodes {
		nodes[i] = &c.Nodes[i]
		idle[i] = invariants.AmountsOf(nodes[i].Status.Allocatable)
		invariants.Amounts(r.Offered).Add(idle[i], 1)
		byName[nodes[i].Name] = i
	}
	for i := range c.Pods {
		pod := &c.Pods[i]
		if pod.Spec.NodeName == "" || invariants.Finished(pod) {
			continue
		}
		n, ok := byName[pod.Spec.NodeName]
		switch {
		case !ok:
			r.found(Misplaced, "%s/%s: its node %s does not exist", pod.Namespace, pod.Name, pod.Spec.NodeName)
			continue
		case !invariants.Takes(nodes[n], pod):
			r.found(Misplaced, "%s/%s: may not be on %s", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
		idle[n].Add(invariants.RequestOf(pod), -1)
	}
	for i, left := range idle {
		for _, name := range slices.Sorted(maps.Keys(left)) {
			if overdrawn(left, name) {
				r.found(Overcommitted, "%s: %d of %s too much", nodes[i].Name, -left[name], name)
			}
		}
		invariants.Amounts(r.Idle).Add(left, 1)
	}
	return newRoom(nodes, idle)
}

// explained checks that the gang's condition exists, has a reason and says what is the case.
func (r *Report) explained(g *gang) {
	switch {
	case g.status == "":
		r.found(Unexplained, "%s: no condition says whether it is scheduled", g.name)
	case g.reason == "":
		r.found(Unexplained, "%s: its condition has no reason", g.name)
	case g.started() != (g.status == metav1.ConditionTrue):
		r.found(Unexplained, "%s: %d of at least %d members are on nodes, and scheduled is said to be %s",
			g.name, g.placed, g.minimum, g.status)
	}
}

// overlooked checks that a waiting gang could not start.
func (r *Report) overlooked(g *gang, space *room) {
	switch {
	case !g.complete():
		r.Incomplete++
	case slices.ContainsFunc(g.waiting, func(pod *corev1.Pod) bool { return !invariants.Judged(pod) }):
		r.Unjudged++
	case space.fits(g):
		r.found(Overlooked, "%s: waits (%s), although its %d members would fit", g.name, g.reason, g.minimum)
	}
}

// Err says that something was found that must not be; nil when all is well.
func (r *Report) Err() error {
	for _, check := range Checks() {
		if found := r.Found[check]; len(found) > 0 {
			return fmt.Errorf("audit: %d %s, the first: %s", len(found), check, found[0])
		}
	}
	return nil
}

// Write prints the findings as a Markdown table, with the first few examples of what must not be.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "| audit | |\n|---|---:|\n")
	row := func(name string, value int) { fmt.Fprintf(w, "| %s | %d |\n", name, value) }
	row("gangs", r.Gangs)
	row("gangs started", r.Started)
	row("gangs waiting", r.Waiting)
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		name := reason
		if name == "" {
			name = "(none)"
		}
		row("… with the reason "+name, r.Reasons[reason])
	}
	row("… with too few members", r.Incomplete)
	row("… this audit cannot judge", r.Unjudged)
	row("pods on nodes", r.Placed)
	for _, check := range Checks() {
		row("**"+string(check)+"**", len(r.Found[check]))
	}
	const examples = 5
	for _, check := range Checks() {
		found := r.Found[check]
		if len(found) > 0 {
			fmt.Fprintf(w, "\n%s:\n\n", check)
		}
		for _, text := range found[:min(examples, len(found))] {
			fmt.Fprintf(w, "- %s\n", text)
		}
	}
}
