package extender

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// extenderResult is the extenders' answers in this session about pods that are equal to them.
type extenderResult struct {
	kind requestKey
	// remotes are those that are called for such pods.
	remotes []*extenderClient

	filtered bool
	// refused says that no node fits, because an extender did not answer; nil when it did.
	refused *model.Refusal
	// passed are the nodes that pass all extenders; rejected has for every other node the refusal, by its place in the
	// snapshot, and is nil when there is none.
	passed   []*model.Node
	rejected map[int]*model.Refusal
	// transient are rejected nodes that may pass once pods on them end: no extender has refused permanently, and all that
	// have refused will review the plan.
	transient map[int]bool

	scored bool
	scores []framework.NodeScore
}

func (a *extenderResult) check(node *model.Node) *model.Refusal { return a.rejected[node.Index] }

// reviewed reports whether all extenders from the i-th on that filter also process preemption.
func (a *extenderResult) reviewed(i int) bool {
	return !slices.ContainsFunc(a.remotes[i:], func(r *extenderClient) bool {
		return r.options.FilterVerb != "" && r.options.PreemptVerb == ""
	})
}

// filter calls one extender after another. One that fails and is not ignorable refuses the pods every node.
func (a *extenderResult) filter(c cycle, pod *corev1.Pod, candidates []*model.Node) {
	a.filtered, a.passed = true, slices.Clone(candidates)
	for i, r := range a.remotes {
		if len(a.passed) == 0 {
			return
		}
		if r.options.FilterVerb == "" {
			continue
		}
		reviewed := a.reviewed(i)
		left, err := r.filter(c, a.kind, pod, a.passed, func(node *model.Node, refusal *model.Refusal) {
			a.applyManaged(node, refusal, reviewed && refusal.Evictable)
		})
		switch {
		case err == nil:
			a.passed = left
		case !r.options.Ignorable:
			a.refused = r.refusal(c.now, err.Error(), false)
			return
		}
	}
}

func (a *extenderResult) applyManaged(node *model.Node, refusal *model.Refusal, forNow bool) {
	if a.rejected == nil {
		a.rejected, a.transient = map[int]*model.Refusal{}, map[int]bool{}
	}
	a.rejected[node.Index] = refusal
	if forNow {
		a.transient[node.Index] = true
	}
}

// filter returns the nodes that pass the extender, by name, and rejects the others.
func (r *extenderClient) filter(
	c cycle, kind requestKey, pod *corev1.Pod, candidates []*model.Node, rule func(*model.Node, *model.Refusal),
) ([]*model.Node, error) {
	result, err := ask[extenderv1.ExtenderFilterResult](r, c, kind, r.options.FilterVerb, r.question(pod, candidates))
	if err != nil {
		return nil, err
	}
	if result.Error != "" {
		return nil, fmt.Errorf("%s: %s", r.options.FilterVerb, plain(result.Error))
	}
	passed, err := r.passed(&result, candidates)
	if err != nil {
		return nil, err
	}
	var left []*model.Node
	reasons := reasons{remote: r, now: c.now}
	for _, node := range candidates {
		if passed[node.Name] {
			left = append(left, node)
			continue
		}
		rule(node, reasons.of(&result, node.Name))
	}
	return left, nil
}

// passed reads the names of the nodes that are left: for a node-cache-capable extender the list of names, if present, else
// the list of nodes.
func (r *extenderClient) passed(result *extenderv1.ExtenderFilterResult, candidates []*model.Node) (map[string]bool, error) {
	var names []string
	switch {
	case r.options.NodeCacheCapable && result.NodeNames != nil:
		names = *result.NodeNames
	case result.Nodes != nil:
		for i := range result.Nodes.Items {
			names = append(names, result.Nodes.Items[i].Name)
		}
	}
	passed := make(map[string]bool, len(names))
	for _, name := range names {
		_, asked := slices.BinarySearchFunc(candidates, name, func(n *model.Node, name string) int {
			return strings.Compare(n.Name, name)
		})
		if !asked {
			return nil, fmt.Errorf("%s: it lets node %s pass, about which it was not asked", r.options.FilterVerb, plain(name))
		}
		passed[name] = true
	}
	return passed, nil
}

// score calls all extenders for the same nodes. One that fails is ignored, whether it is ignorable or not: a preference is no
// reason to wait.
func (a *extenderResult) score(c cycle, pod *corev1.Pod, candidates []*model.Node) {
	a.scored = true
	if a.filtered {
		candidates = a.passed
	}
	if a.refused != nil || len(candidates) == 0 {
		return
	}
	for _, r := range a.remotes {
		if r.options.PrioritizeVerb == "" {
			continue
		}
		list, err := ask[extenderv1.HostPriorityList](r, c, a.kind, r.options.PrioritizeVerb, r.question(pod, candidates))
		if err != nil {
			continue
		}
		a.scores = append(a.scores, r.nodeScore(list))
	}
}

const (
	// normalizeScore is the factor from 0…10 to 0…100.
	normalizeScore = 100 / extenderv1.MaxExtenderPriority
	// maxExtenderScore bounds a score in an answer, far beyond the allowed 10: as in kube-scheduler a greater score counts,
	// but sums of scores must not overflow.
	maxExtenderScore = 1_000_000
)

// nodeScore adds up the scores of each node; a node without one has zero.
func (r *extenderClient) nodeScore(list extenderv1.HostPriorityList) framework.NodeScore {
	scores := make(map[string]int64, len(list))
	for _, entry := range list {
		sum := scores[entry.Host] + min(max(entry.Score, -maxExtenderScore), maxExtenderScore)
		scores[entry.Host] = min(max(sum, -maxExtenderScore), maxExtenderScore)
	}
	return framework.NodeScore{
		Name: r.name, Weight: r.options.Weight, Normalization: framework.NormalizeNone,
		Score: func(node *model.Node) int64 { return normalizeScore * scores[node.Name] },
	}
}

// question is the request of both verbs: the pod, and either the nodes or, to a node-cache-capable extender, their names.
func (r *extenderClient) question(pod *corev1.Pod, candidates []*model.Node) *extenderv1.ExtenderArgs {
	if r.options.NodeCacheCapable {
		names := make([]string, len(candidates))
		for i, node := range candidates {
			names[i] = node.Name
		}
		return &extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names}
	}
	list := &corev1.NodeList{Items: make([]corev1.Node, len(candidates))}
	for i, node := range candidates {
		list.Items[i] = *node.Object
	}
	return &extenderv1.ExtenderArgs{Pod: pod, Nodes: list}
}

// reasons are the refusals of one answer, each made once.
type reasons struct {
	remote *extenderClient
	now    time.Time
	made   map[reason]*model.Refusal
}

type reason struct {
	text      string
	evictable bool
}

// mostReasons is how many different reasons of one answer are kept: an extender that names the node in each would fill a
// status with thousands.
const mostReasons = 8

// of returns the refusal of a node. Eviction helps where the extender refuses for now, not where it refuses permanently or
// gives no reason.
func (s *reasons) of(result *extenderv1.ExtenderFilterResult, node string) *model.Refusal {
	why := reason{text: "refused"}
	if text, ok := result.FailedAndUnresolvableNodes[node]; ok {
		why.text = text
	} else if text, ok := result.FailedNodes[node]; ok {
		why = reason{text: text, evictable: true}
	}
	if why.text = plain(why.text); why.text == "" {
		why.text = "refused"
	}
	if s.made[why] == nil && len(s.made) >= mostReasons {
		why.text = "refused for one of many reasons"
	}
	if s.made[why] == nil {
		if s.made == nil {
			s.made = map[reason]*model.Refusal{}
		}
		s.made[why] = s.remote.refusal(s.now, why.text, why.evictable)
	}
	return s.made[why]
}

// holds is how long a refusal of an extender holds: nothing in the cluster says when it is another one.
const holds = 5 * time.Second

// refusal returns a refusal with the extender's name.
func (r *extenderClient) refusal(now time.Time, why string, evictable bool) *model.Refusal {
	return &model.Refusal{
		Plugin: Name, Code: model.NodesFiltered, Detail: "extender " + r.name + ": " + why,
		Evictable: evictable, Until: now.Add(holds),
	}
}

// longestReason is how many bytes of a text from outside are shown.
const longestReason = 200

// plain makes an external text printable: one line, and not too long.
func plain(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, ""))
	if len(text) > longestReason {
		text = strings.ToValidUTF8(text[:longestReason], "") + "..."
	}
	return strings.TrimSpace(text)
}
