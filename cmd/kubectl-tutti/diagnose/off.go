package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// turnedOff says of a pod without a group that the scheduler's configuration turns off the source by whose marks it would be in
// one; empty when it does not, or that is not known.
func (n *Namespace) turnedOff(pod *corev1.Pod) string {
	if n.Sources == nil || foreign(pod) || !n.jobOf(pod).IsPod() {
		return ""
	}
	for _, source := range sources.All() {
		m, marked := source.Of(pod)
		isOn := slices.ContainsFunc(n.Sources, func(on sources.Source) bool { return on == source })
		if marked && !isOn && !slices.Contains(config.SourcesOffByDefault(), source.Name()) {
			return fmt.Sprintf("the source %s is off in the scheduler's configuration: %s %q is no group, and each of its pods starts when it fits",
				source.Name(), m.Job.Source.Kind(), m.Job.Name)
		}
	}
	return ""
}

// mayBeOff says of a group that its source may be turned off: the configuration is not known, and nothing that the scheduler has
// written to the pods says that it takes them for a group.
func (n *Namespace) mayBeOff(g *gang) []string {
	if n.Sources != nil || g.source <= model.SourceImplicit || slices.ContainsFunc(g.pods, g.isReported) {
		return nil
	}
	for _, source := range n.On() {
		if m, marked := source.Of(g.pods[0]); marked && m.Job.Source == g.source {
			return []string{fmt.Sprintf(
				"the scheduler's configuration may not be read: if it turns the source %s off, each of these pods starts when it fits", source.Name())}
		}
	}
	return nil
}

// isReported reports whether the scheduler has bound the pod as one of the group, or says why it waits with it.
func (g *gang) isReported(pod *corev1.Pod) bool {
	membership := g.sources.Of(pod)
	for one := range membership.All() {
		if one.Job.Source == g.source && strings.HasPrefix(pod.Annotations[v1alpha1.AnnotationJob], one.Job.String()+" ") {
			return true
		}
	}
	condition := waits(pod)
	if condition == nil {
		return false
	}
	needs, isGang := strings.CutPrefix(condition.Message, "needs ")
	return isRepeated(g, condition) || condition.Reason == groupNotFound || isGang && !strings.HasPrefix(needs, "1,")
}
