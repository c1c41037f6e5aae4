package audit

import (
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/test/invariants"
)

// room is the idle capacity of a cluster, and what kinds of pods were asked about so far.
type room struct {
	nodes  []*corev1.Node
	idle   []invariants.Amounts // by node
	shapes map[string]*shape
}

// shape is a kind of pod: the same request, the same eligible nodes.
type shape struct {
	key     string
	request invariants.Amounts
	slots   []int64 // by node: how many fit there; 0 where none may be
	total   int64
}

func newRoom(nodes []*corev1.Node, idle []invariants.Amounts) *room {
	return &room{nodes: nodes, idle: idle, shapes: map[string]*shape{}}
}

func (r *room) shapeOf(pod *corev1.Pod) *shape {
	request := invariants.RequestOf(pod)
	question := struct {
		Request     invariants.Amounts
		Selector    map[string]string
		Affinity    *corev1.Affinity
		Tolerations []corev1.Toleration
	}{request, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations}
	text, _ := json.Marshal(question) // these types always can
	if known := r.shapes[string(text)]; known != nil {
		return known
	}
	s := &shape{key: string(text), request: request, slots: make([]int64, len(r.nodes))}
	for i, node := range r.nodes {
		if invariants.Eligible(pod, node) {
			s.slots[i] = r.idle[i].Slots(request)
			s.total += s.slots[i]
		}
	}
	r.shapes[s.key] = s
	return s
}

// fits reports whether the minimum of a gang finds idle capacity. Members of one shape are answered exactly: as many fit as
// the sum over nodes of idle divided by request, rounded down. Members of several shapes are placed greedily, so a yes
// is true and a no may be wrong.
func (r *room) fits(g *gang) bool {
	members := r.choose(g)
	left := map[int]invariants.Amounts{} // nodes that members were put on
	for from := 0; from < len(members); {
		s := members[from]
		same := from
		for same < len(members) && members[same] == s {
			same++
		}
		if !r.place(s, int64(same-from), left) {
			return false
		}
		from = same
	}
	return true
}

// choose picks as many members as the gang needs, those that find capacity easily, and orders them hardest first.
func (r *room) choose(g *gang) []*shape {
	pods := slices.Clone(g.waiting)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Compare(r.shapeOf(b).total, r.shapeOf(a).total)
	})
	open := map[string]int{}
	free := g.minimum
	for role, minimum := range g.roles {
		open[role] = minimum
		free -= minimum
	}
	var chosen []*shape
	for _, pod := range pods {
		role := pod.Labels[v1alpha1.LabelRole]
		switch {
		case open[role] > 0:
			open[role]--
		case free > 0:
			free--
		default:
			continue
		}
		chosen = append(chosen, r.shapeOf(pod))
	}
	slices.SortFunc(chosen, func(a, b *shape) int {
		return cmp.Or(cmp.Compare(a.total, b.total), cmp.Compare(a.key, b.key))
	})
	return chosen
}

// place puts count pods of a shape where the fewest of them fit, and notes what is left of those nodes.
func (r *room) place(s *shape, count int64, left map[int]invariants.Amounts) bool {
	if len(left) == 0 && s.total < count {
		return false
	}
	type place struct {
		node  int
		slots int64
	}
	var places []place
	for i, slots := range s.slots {
		if after := left[i]; after != nil && slots > 0 {
			slots = after.Slots(s.request)
		}
		if slots > 0 {
			places = append(places, place{i, slots})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.slots, b.slots) })
	for _, p := range places {
		here := min(count, p.slots)
		after := left[p.node]
		if after == nil {
			after = invariants.Amounts{}
			after.Add(r.idle[p.node], 1)
			left[p.node] = after
		}
		after.Add(s.request, -here)
		if count -= here; count == 0 {
			return true
		}
	}
	return false
}
