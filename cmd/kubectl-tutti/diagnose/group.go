package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// The scheduler's codes and reasons that this package handles specially.
const (
	groupNotFound = "GroupNotFound"
	degraded      = "Degraded"
)

// DiagnoseGroup diagnoses the PodGroup of that name; without one, the implicit groups of that name, those that wait first;
// else the pods that wait for such a PodGroup. It returns nil when there are none.
func DiagnoseGroup(namespace *Namespace, name string) *Diagnosis {
	gangs := namespace.gangs(name)
	if len(gangs) == 0 {
		return nil
	}
	var first *Diagnosis
	var others []string
	for i := range gangs {
		switch a := newDiagnosis(namespace, &gangs[i]); {
		case first == nil:
			first = a
		case first.State == Started || first.State == Ended:
			others = append(others, first.label())
			first = a
		default:
			others = append(others, a.label())
		}
	}
	if len(others) > 0 {
		first.Notes = append(first.Notes, fmt.Sprintf("of that name, each on its own: %s; kubectl tutti why pod/NAME tells of that pod's",
			few(others)))
	}
	return first
}

// label distinguishes gangs of one name.
func (a *Diagnosis) label() string {
	switch {
	case a.Kind == kindPodGroup:
		return "pods that wait for a PodGroup"
	case a.Kind != kindImplicit:
		return "a " + a.Kind
	case a.Owner == "":
		return "pods without a controller"
	}
	return "the pods of " + a.Owner
}

// newDiagnosis diagnoses one gang, with what else may matter to it.
func newDiagnosis(namespace *Namespace, g *gang) *Diagnosis {
	a := readGang(namespace, g)
	if g.group == nil && !g.byPods {
		return a
	}
	if g.byPods && a.State != Ended && a.Reason != groupNotFound && g.source >= model.SourceCoscheduling && g.spec == nil {
		a.Notes = append(a.Notes, fmt.Sprintf("its minimum is not known: there is no %s %q, or you may not list such objects", a.Kind, a.Name))
	}
	if a.State == Waiting || a.State == Unprocessed || a.State == Degraded {
		a.Notes = append(a.Notes, namespace.mayBeOff(g)...)
	}
	if a.State == Waiting || a.State == Degraded || a.State == Started {
		a.Notes = append(a.Notes, ownReasons(g)...)
	}
	if a.State == Waiting || a.State == Unprocessed {
		a.Notes = append(append(a.Notes, a.mislabelledPods(namespace)...), namespace.passedOver(g)...)
	}
	if a.State == Waiting && a.Members.Exist >= a.Members.Needs {
		a.Notes = append(a.Notes, queuePosition(namespace, g)...)
	}
	return a
}

// readGang says how one gang stands.
func readGang(namespace *Namespace, g *gang) *Diagnosis {
	a := &Diagnosis{Kind: g.kind(), Namespace: namespace.Name, Name: g.name, Members: countMembers(g)}
	switch {
	case g.group != nil:
		status := &g.group.Status
		a.Reservation, a.Topology, a.Queue = status.Reservation, status.Topology, status.Queue
		a.WaitingSince, a.DegradedSince = at(status.WaitingSince), at(status.DegradedSince)
		if evicted := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEvicted); evicted != nil && evicted.Status == metav1.ConditionTrue {
			a.Evicted, a.EvictedAt = evicted.Reason+": "+evicted.Message, at(&evicted.LastTransitionTime)
		}
		a.diagnose(g.group)
	case g.byPods:
		a.Owner = g.owner
		a.diagnoseByPods(g)
	default:
		a.diagnoseDegraded(namespace, g)
	}
	return a
}

// diagnose reads the PodGroup's status.
func (a *Diagnosis) diagnose(group *v1alpha1.PodGroup) {
	condition := sources.Explanation(group.Status.Conditions)
	ended := group.Status.Phase == v1alpha1.PodGroupSucceeded || group.Status.Phase == v1alpha1.PodGroupFailed
	switch {
	case ended:
		a.State, a.Reason = Ended, string(group.Status.Phase)
		a.Details = []string{fmt.Sprintf("%d members have succeeded, %d have failed", group.Status.Succeeded, group.Status.Failed)}
		return
	case condition == nil:
		a.State = Unprocessed
		a.Details = []string{"the scheduler has not said anything about it yet"}
		if own := group.Spec.SchedulerName; own != "" && own != usualReasons {
			a.Notes = append(a.Notes, fmt.Sprintf("its spec.schedulerName leaves it to %q; is the name misspelt, or does no scheduler of this name run?", own))
		}
		if a.HasNoPods() {
			a.Notes = append(a.Notes, fmt.Sprintf("no pod names it: a pod does by the label %s: %s", v1alpha1.LabelPodGroup, group.Name))
		}
		return
	case condition.Status == metav1.ConditionTrue && condition.Reason == degraded:
		a.State = Degraded
	case condition.Status == metav1.ConditionTrue:
		a.State = Started
	default:
		a.State = Waiting
	}
	a.Reason, a.Details = condition.Reason, conditions(condition.Message)
	if condition.ObservedGeneration < group.Generation {
		a.Notes = append(a.Notes, "the PodGroup has been changed since; the scheduler has not looked at it again yet")
	}
}

// conditions splits the scheduler's message, since one line for each part is easier to read.
func conditions(message string) []string {
	var lines []string
	for line := range strings.SplitSeq(message, "; ") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// diagnoseDegraded diagnoses pods that name a PodGroup which does not exist.
func (a *Diagnosis) diagnoseDegraded(namespace *Namespace, g *gang) {
	if len(a.Members.Waiting) == 0 && a.Members.Bound > 0 {
		a.State, a.Details = Started, []string{fmt.Sprintf("%d pods are bound", a.Members.Bound)}
		a.Notes = append(a.Notes, "there is no PodGroup of this name")
		return
	}
	a.State, a.Reason = Waiting, groupNotFound
	a.Details = []string{fmt.Sprintf("PodGroup %q does not exist in namespace %s, and its pods wait for it", g.name, a.Namespace)}
	switch nearest := Nearest(g.name, namespace.groupNames()); {
	case nearest != "":
		a.Notes = append(a.Notes, fmt.Sprintf("did you mean PodGroup %q?", nearest))
	case len(namespace.Groups) == 0:
		a.Notes = append(a.Notes, "there is no PodGroup in this namespace at all")
	}
}

// waits returns the condition with the reason why a pod waits, nil when it has none.
func waits(pod *corev1.Pod) *corev1.PodCondition {
	if pod.Spec.NodeName != "" {
		return nil
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return condition
		}
	}
	return nil
}

// ownReasons are reasons of single members that differ from the group's.
func ownReasons(g *gang) []string {
	byText := map[string][]string{}
	speaker := g.reportingPod()
	for _, pod := range g.pods {
		if foreign(pod) || pod == speaker || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if condition := waits(pod); condition != nil && !isRepeated(g, condition) {
			text := condition.Reason + ": " + condition.Message
			byText[text] = append(byText[text], pod.Name)
		}
	}
	var notes []string
	for text, names := range byText {
		slices.Sort(names)
		notes = append(notes, fmt.Sprintf("%s: %s", few(names), text))
	}
	slices.Sort(notes)
	return notes
}

// passedOver says which groups marks of the oldest pod name beside the one that it is in. What owns the group is none of them,
// nor what has the same owner: its operator puts both marks on each pod.
func (n *Namespace) passedOver(g *gang) (notes []string) {
	if len(g.pods) == 0 {
		return nil
	}
	job := n.jobOf(g.pods[0])
	for _, other := range n.On().PassedOver(g.pods[0], job) {
		if isOwner := g.owner == other.Source.Kind()+"/"+other.Name; isOwner {
			continue
		}
		spec := n.spec(other)
		if spec != nil && slices.ContainsFunc(spec.OwnerReferences, func(by metav1.OwnerReference) bool { return by.Kind+"/"+by.Name == g.owner }) {
			continue
		}
		if spec == nil || !spec.NoGang {
			notes = append(notes, fmt.Sprintf("%s: also names %s %q, which does not count", g.pods[0].Name, other.Source.Kind(), other.Name))
		}
	}
	return notes
}

// mislabelledPods are pods that were probably meant for the group: those for another scheduler, and those that name a group
// with a similar name which does not exist.
func (a *Diagnosis) mislabelledPods(namespace *Namespace) []string {
	var notes []string
	isSaid := slices.ContainsFunc(a.Details, func(detail string) bool {
		return strings.HasPrefix(detail, "pods with another schedulerName are no members")
	})
	if names := a.Members.Foreign; len(names) > 0 && !isSaid {
		notes = append(notes, fmt.Sprintf("%s: left to %s, since spec.schedulerName names no other", few(names), corev1.DefaultSchedulerName))
	}
	notes = append(notes, a.explainUnprocessed(namespace)...)
	if a.Members.Exist >= a.Members.Needs {
		return notes
	}
	lost := map[string][]string{}
	for i := range namespace.Pods {
		pod := &namespace.Pods[i]
		if kind, named := namespace.unknownGroup(pod); kind == a.Kind && named != a.Name {
			lost[named] = append(lost[named], pod.Name)
		}
	}
	named := make([]string, 0, len(lost))
	for name := range lost {
		named = append(named, name)
	}
	slices.Sort(named)
	if near := Nearest(a.Name, named); near != "" && !namespace.isNearer(near, a.Name) {
		slices.Sort(lost[near])
		notes = append(notes, fmt.Sprintf("%s: of %s %q, which does not exist; is the label misspelt?", few(lost[near]), a.Kind, near))
	}
	return notes
}

// isNearer reports whether the name of another PodGroup is more like a misspelt one than this.
func (n *Namespace) isNearer(misspelt, than string) bool {
	nearest := Nearest(misspelt, n.groupNames())
	return nearest != "" && distance(misspelt, nearest) < distance(misspelt, than)
}

// unknownGroup returns kind and name of the group that the pod names, where that does not exist; empty where it does, or that is
// not known: not every user may read groups of other projects, and the scheduler says it of their pods.
func (n *Namespace) unknownGroup(pod *corev1.Pod) (kind, name string) {
	key := n.jobOf(pod)
	switch condition := waits(pod); {
	case key.IsForeign() && condition != nil && condition.Reason == groupNotFound && n.spec(key) == nil:
		return key.Source.Kind(), key.Name
	case key.Source == model.SourcePodGroup && n.group(key.Name) == nil && n.On().Of(pod).Implicit() == nil:
		return kindPodGroup, key.Name
	}
	return "", ""
}

// usualReasons is the scheduler's default name.
const usualReasons = "tutti"

// explainUnprocessed lists pods of the group without any report, by the name of their scheduler: it may be misspelt. The
// names that are served are not known here.
func (a *Diagnosis) explainUnprocessed(namespace *Namespace) []string {
	byScheduler := map[string][]string{}
	for i := range namespace.Pods {
		pod := &namespace.Pods[i]
		name := pod.Spec.SchedulerName
		if !slices.Contains(a.Members.Waiting, pod.Name) || name == "" || name == usualReasons || mentioned(pod) {
			continue
		}
		byScheduler[name] = append(byScheduler[name], pod.Name)
	}
	var notes []string
	for name, pods := range byScheduler {
		slices.Sort(pods)
		notes = append(notes, leftTo(pods, name))
	}
	slices.Sort(notes)
	return notes
}

func leftTo(pods []string, scheduler string) string {
	return fmt.Sprintf("%s: left to %q by spec.schedulerName, and no scheduler has reported on it; is the name misspelt, or does no scheduler of this name run?",
		few(pods), scheduler)
}

// mentioned reports whether a scheduler has reported anything about a pod.
func mentioned(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// few lists up to a few names.
func few(names []string) string {
	const most = 4
	if len(names) > most+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func at(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
