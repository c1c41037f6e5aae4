package start

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// domain is the nodes that share one value of a topology label.
type domain struct {
	key, value string
	// holds tells which tasks it is for; the others go anywhere.
	holds func(*model.Task) bool
}

// filter returns the condition that the domain puts on the task's node: none for nil, nor for a task that it is not for.
func (d *domain) filter(task *model.Task) func(*model.Node) bool {
	if d == nil || !d.holds(task) {
		return nil
	}
	return d.has
}

func (d *domain) has(node *model.Node) bool {
	value, ok := node.Object.Labels[d.key]
	return ok && value == d.value
}

// maxDomains is how many domains are tried for one job; past it a gang may wait although it could start.
const maxDomains = 32

// domains returns the domains that have room for as many of the members that must share one as the job cannot do without,
// the roomiest first; none when the members need not share any.
func (t *Trial) domains(room model.Room) []domain {
	task, key, of := t.tie()
	if task == nil {
		return nil
	}
	shares := func(task *model.Task) bool { return of[kindOf(task)] }
	fits := map[string]int64{}
	var domains []domain
	for _, node := range t.session.Candidates(task) {
		value, ok := node.Object.Labels[key]
		if !ok {
			continue
		}
		if _, known := fits[value]; !known {
			domains = append(domains, domain{key: key, value: value, holds: shares})
		}
		fits[value] = min(model.MaxAmount, fits[value]+node.Fits(task.Request, room))
	}
	needed := t.needed(shares)
	domains = slices.DeleteFunc(domains, func(d domain) bool { return fits[d.value] < needed })
	slices.SortStableFunc(domains, func(a, b domain) int { return cmp.Compare(fits[b.value], fits[a.value]) })
	return domains[:min(len(domains), maxDomains)]
}

// needed returns how many of the members that must share a domain the job cannot do without. When they differ in shape that
// says little about room, so one will do.
func (t *Trial) needed(shares func(*model.Task) bool) int64 {
	var sharing []*model.Task
	for _, task := range t.members {
		if shares(task) {
			sharing = append(sharing, task)
		}
	}
	if !sameShape(sharing) {
		return 1
	}
	others := len(t.members) - len(sharing) + t.job.Count(framework.WithPlaced.Counts)
	return max(1, int64(t.job.MinMember)-int64(others))
}

// tie returns a topology label of which members must share one value by a required affinity to each other, the first task
// that asks for it, and whom it ties: those who ask and those who are asked for. The task is nil when there is none.
func (t *Trial) tie() (first *model.Task, key string, of map[kind]bool) {
	if !slices.ContainsFunc(t.members, requiresPods) {
		return nil, "", nil
	}
	kinds := kindsOf(t.members)
	of = map[kind]bool{}
	for _, task := range kinds {
		for _, term := range requiredTerms(task) {
			if first != nil && term.TopologyKey != key {
				continue
			}
			for _, sibling := range kinds {
				if speaksOf(term, task.Pod, sibling.Pod) {
					first, key = earlier(first, task), term.TopologyKey
					of[kindOf(task)], of[kindOf(sibling)] = true, true
				}
			}
		}
	}
	return first, key, of
}

func requiresPods(task *model.Task) bool { return len(requiredTerms(task)) > 0 }

func requiredTerms(task *model.Task) []corev1.PodAffinityTerm {
	affinity := task.Pod.Spec.Affinity
	if affinity == nil || affinity.PodAffinity == nil {
		return nil
	}
	return affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// speaksOf tells whether a term of one pod is about the other, its sibling.
func speaksOf(term corev1.PodAffinityTerm, of, sibling *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return err == nil && reaches(&term, of.Namespace) && selector.Matches(labels.Set(sibling.Labels))
}
