package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// change is something that a watch has delivered: a pod or a group as it is now, or an event.
type change struct {
	pod   *corev1.Pod
	group *v1alpha1.PodGroup
	event *eventsv1.Event
	// gone reports that it was deleted.
	gone bool
	at   time.Time
}

// gang is what the board knows of one PodGroup.
type gang struct {
	name    string
	min     int
	roles   map[string]int
	status  v1alpha1.PodGroupStatus
	pods    map[string]*corev1.Pod // by name
	bound   map[string]string      // pod → node, until the pod is gone
	evicted map[string]bool        // pods that were, also those that are gone
	members time.Time              // when the minimum was there
	first   time.Time              // first bind
	whole   time.Time              // the bind with which the minimum was bound
	starts  int                    // how often it was
	kept    []string               // the nodes on which capacity was reserved for it
}

// progress is what a spectator of the API server has seen. It believes nothing but the objects themselves: a member is
// bound when its pod has a node, whatever the group's status says. One goroutine owns it.
type progress struct {
	say   func(who, format string, args ...any)
	racks map[string]string // node → rack
	gangs map[string]*gang
}

func newBoard(racks map[string]string, say func(who, format string, args ...any)) *progress {
	return &progress{say: say, racks: racks, gangs: map[string]*gang{}}
}

// gang is the gang of a name, which need not have been seen yet.
func (b *progress) gang(name string) *gang {
	g := b.gangs[name]
	if g == nil {
		g = &gang{name: name, pods: map[string]*corev1.Pod{}, bound: map[string]string{}, evicted: map[string]bool{}}
		b.gangs[name] = g
	}
	return g
}

// see takes a change in and says what is new about it.
func (b *progress) see(c change) {
	switch {
	case c.group != nil:
		b.seeGroup(b.gang(c.group.Name), c.group, c.at)
	case c.pod != nil && c.pod.Labels[v1alpha1.LabelPodGroup] != "":
		g := b.gang(c.pod.Labels[v1alpha1.LabelPodGroup])
		if c.gone {
			b.seeGone(g, c.pod)
			return
		}
		b.seePod(g, c.pod, c.at)
	case c.event != nil && c.event.Reason == preempting && !c.gone:
		b.say(c.event.Regarding.Name, "EVICTS    %s", c.event.Note)
	}
}

// preempting is the reason of the event that tells for whom pods were evicted.
const preempting = "Preempting"

// seeGone takes a pod out. A gang that is left with less than its minimum has ended, and may start again.
func (b *progress) seeGone(g *gang, pod *corev1.Pod) {
	delete(g.pods, pod.Name)
	delete(g.bound, pod.Name)
	if !g.whole.IsZero() && !g.isWhole() {
		g.members, g.first, g.whole = time.Time{}, time.Time{}, time.Time{}
	}
}

func (b *progress) seeGroup(g *gang, group *v1alpha1.PodGroup, at time.Time) {
	g.min, g.roles = int(group.Spec.MinMember), map[string]int{}
	for _, role := range group.Spec.Roles {
		g.roles[role.Name] = int(role.MinMember)
	}
	before, phase := g.scheduled(), g.status.Phase
	g.status = *group.Status.DeepCopy()
	now := g.scheduled()
	if now != nil && now.Status == metav1.ConditionFalse &&
		(before == nil || before.Reason != now.Reason || before.Message != now.Message) {
		b.say(g.name, "waits     %s: %s", now.Reason, now.Message)
	}
	if r := g.status.Reservation; r != nil {
		b.seeReservation(g, r)
	}
	if g.status.Phase != phase && g.status.Phase != v1alpha1.PodGroupPending {
		b.say(g.name, "%-9s %s", strings.ToLower(string(g.status.Phase)), counts(g.status))
	}
	b.count(g, at)
}

func (b *progress) seeReservation(g *gang, r *v1alpha1.Reservation) {
	var nodes []string
	for _, node := range r.Nodes {
		nodes = append(nodes, node.Name)
	}
	if slices.Equal(nodes, g.kept) {
		return
	}
	g.kept = nodes
	until := "it is not known when the last of them is free"
	if r.ExpectedStart != nil {
		until = "expected to start " + r.ExpectedStart.UTC().Format(time.TimeOnly)
	}
	b.say(g.name, "RESERVED  %s; %s", strings.Join(nodes, " "), until)
}

func counts(s v1alpha1.PodGroupStatus) string {
	text := fmt.Sprintf("%d members, %d running", s.Members, s.Running)
	if s.Succeeded > 0 {
		text += fmt.Sprintf(", %d succeeded", s.Succeeded)
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	return text
}

func (b *progress) seePod(g *gang, pod *corev1.Pod, at time.Time) {
	g.pods[pod.Name] = pod
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			g.evicted[pod.Name] = true
		}
	}
	if pod.Spec.NodeName != "" && g.bound[pod.Name] == "" {
		g.bound[pod.Name] = pod.Spec.NodeName
		if g.first.IsZero() {
			g.first = at
		}
		if cpus := cpusOf(pod); cpus != "" {
			b.say(g.name, "HOLDS     %s: %s", pod.Name, cpus)
		}
	}
	b.count(g, at)
}

// count notices when the minimum is there, and when it is bound.
func (b *progress) count(g *gang, at time.Time) {
	everyone := func(string) bool { return true }
	if g.members.IsZero() && g.reached(everyone) {
		g.members = at
	}
	if g.whole.IsZero() && g.isWhole() {
		g.whole = at
		g.starts++
		b.say(g.name, "STARTS    %d of %d bound, %s from first to last: %s",
			len(g.bound), g.min, short(g.spread()), b.where(g))
		if domains := g.domains(); domains != "" {
			b.say(g.name, "DOMAIN    %s: %s", v1alpha1.AnnotationDomain, domains)
		}
	}
}

// isWhole reports whether the minimum, and that of every role, has been bound.
func (g *gang) isWhole() bool {
	return g.reached(func(pod string) bool { return g.bound[pod] != "" })
}

// reached reports whether enough pods of the group and of every role count.
func (g *gang) reached(counts func(pod string) bool) bool {
	all, byRole := 0, map[string]int{}
	for name, pod := range g.pods {
		if counts(name) {
			all++
			byRole[pod.Labels[v1alpha1.LabelRole]]++
		}
	}
	for role, needs := range g.roles {
		if byRole[role] < needs {
			return false
		}
	}
	return g.min > 0 && all >= g.min
}

// scheduled is the condition that says why the gang waits, nil when there is none yet.
func (g *gang) scheduled() *metav1.Condition {
	return meta.FindStatusCondition(g.status.Conditions, v1alpha1.ConditionScheduled)
}

// waitsFor reports whether the group's condition says that it waits, for this reason.
func (g *gang) waitsFor(reason string) bool {
	c := g.scheduled()
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && c.Message != ""
}

// spread is the time between the first bind and the one that made the gang whole, as they were seen.
func (g *gang) spread() time.Duration { return g.whole.Sub(g.first) }

// short is a time in whole milliseconds.
func short(d time.Duration) string {
	if d < time.Millisecond {
		return "<1ms"
	}
	return d.Round(time.Millisecond).String()
}

// where says on which nodes the members of a gang are, rack by rack: "rack a: gpu-a-0 gpu-a-1 ×2; cpu-0".
func (b *progress) where(g *gang) string {
	perNode := map[string]int{}
	for _, node := range g.bound {
		perNode[node]++
	}
	nodes := slices.SortedFunc(maps.Keys(perNode), func(x, y string) int {
		return cmp.Or(cmp.Compare(b.racks[x], b.racks[y]), cmp.Compare(x, y))
	})
	var text strings.Builder
	rack := "none yet"
	for _, node := range nodes {
		if b.racks[node] != rack {
			if rack != "none yet" {
				text.WriteString(";")
			}
			if rack = b.racks[node]; rack != "" {
				text.WriteString(" rack " + rack + ":")
			}
		}
		text.WriteString(" " + node)
		if perNode[node] > 1 {
			fmt.Fprintf(&text, " ×%d", perNode[node])
		}
	}
	return strings.TrimSpace(text.String())
}

// domains says which domains the members of a gang have in their annotations: "fabric=a on 8 pods"; empty when they have none.
func (g *gang) domains() string {
	pods := map[string]int{}
	for name := range g.bound {
		if domain := g.pods[name].Annotations[v1alpha1.AnnotationDomain]; domain != "" {
			pods[domain]++
		}
	}
	var text []string
	for _, domain := range slices.Sorted(maps.Keys(pods)) {
		text = append(text, fmt.Sprintf("%s on %d pods", domain, pods[domain]))
	}
	return strings.Join(text, ", ")
}

// onRacks are the racks that members of a gang are in.
func (b *progress) onRacks(g *gang) string {
	racks := map[string]bool{}
	for _, node := range g.bound {
		racks[cmp.Or(b.racks[node], "-")] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(racks)), " ")
}
