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

// extenderResult is what the extenders have said in this session about pods that are the same to them.
type extenderResult struct {
	kind requestKey
	// remotes are those that are asked about such pods.
	remotes []*extenderClient

	filtered bool
	// refused says that no node can do, because an extender did not answer; nil when it did.
	refused *model.Refusal
	// passed are the nodes that all let pass; out says of every other why not, by its place in the snapshot, and is nil when
	// there is none.
	passed   []*model.Node
	rejected map[int]*model.Refusal
	// transient are those out that may pass when somebody leaves them: no extender has said never, and all that have not agreed will
	// be asked again about the plan.
	transient map[int]bool

	scored bool
	scores []framework.NodeScore
}

func (a *extenderResult) check(node *model.Node) *model.Refusal { return a.rejected[node.Index] }

// reviewed tells whether all extenders from the i-th on that filter have a say in victims, too.
func (a *extenderResult) reviewed(i int) bool {
	return !slices.ContainsFunc(a.remotes[i:], func(r *extenderClient) bool {
		return r.options.FilterVerb != "" && r.options.PreemptVerb == ""
	})
}

// filter asks one extender after another. One that fails and must not keeps the pods waiting, on every node.
func (a *extenderResult) filter(now time.Time, pod *corev1.Pod, candidates []*model.Node) {
	a.filtered, a.passed = true, slices.Clone(candidates)
	for i, r := range a.remotes {
		if len(a.passed) == 0 {
			return
		}
		if r.options.FilterVerb == "" {
			continue
		}
		reviewed := a.reviewed(i)
		left, err := r.filter(now, a.kind, pod, a.passed, func(node *model.Node, refusal *model.Refusal) {
			a.applyManaged(node, refusal, reviewed && refusal.Evictable)
		})
		switch {
		case err == nil:
			a.passed = left
		case !r.options.Ignorable:
			a.refused = r.refusal(err.Error(), false)
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

// filter returns the nodes that the extender lets pass, by name, and rules the others out.
func (r *extenderClient) filter(
	now time.Time, kind requestKey, pod *corev1.Pod, candidates []*model.Node, rule func(*model.Node, *model.Refusal),
) ([]*model.Node, error) {
	result, err := ask[extenderv1.ExtenderFilterResult](r, now, kind, r.options.FilterVerb, r.question(pod, candidates))
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
	reasons := reasons{remote: r}
	for _, node := range candidates {
		if passed[node.Name] {
			left = append(left, node)
			continue
		}
		rule(node, reasons.of(&result, node.Name))
	}
	return left, nil
}

// passed reads the names of the nodes that are left: of an extender that knows the nodes the list of names, if it gives
// one, else the list of nodes.
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

// score asks all extenders about the same nodes. Who fails has no say, must it be ignored or not: a preference is no reason
// to wait.
func (a *extenderResult) score(now time.Time, pod *corev1.Pod, candidates []*model.Node) {
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
		list, err := ask[extenderv1.HostPriorityList](r, now, a.kind, r.options.PrioritizeVerb, r.question(pod, candidates))
		if err != nil {
			continue
		}
		a.scores = append(a.scores, r.nodeScore(list))
	}
}

const (
	// normalizeScore brings a score of 0 to 10 to 0 to 100.
	normalizeScore = 100 / extenderv1.MaxExtenderPriority
	// maxExtenderScore bounds what an extender answers, far beyond the 10 that it should: like kube-scheduler we take a bigger score
	// for what it is, but sums of scores must not overflow.
	maxExtenderScore = 1_000_000
)

// nodeScore adds up what is said of a node; of which nothing is said has zero.
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

// question is what both verbs are sent: the pod, and either the nodes or, to an extender that knows them, their names.
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
	made   map[reason]*model.Refusal
}

type reason struct {
	text      string
	evictable bool
}

// mostReasons is how many different ones are told of one answer: an extender that names the node in each would fill a
// status with thousands.
const mostReasons = 8

// of reads why a node is out. Eviction helps where the extender says no for now, not where it says never, nor where it
// says nothing.
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
		s.made[why] = s.remote.refusal(why.text, why.evictable)
	}
	return s.made[why]
}

// refusal names the extender.
func (r *extenderClient) refusal(why string, evictable bool) *model.Refusal {
	return &model.Refusal{
		Plugin: Name, Code: model.NodesFiltered, Detail: "extender " + r.name + ": " + why,
		Evictable: evictable, Transient: true,
	}
}

// longestReason is how many bytes of a text from outside are shown.
const longestReason = 200

// plain makes a text from outside fit to be shown: one line, and not too long.
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
