package extender

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// ProcessPreemption calls the extenders that have a preempt verb, one after another, once for every kind of members that
// would use the capacity of victims, with the nodes where members of that kind would. It returns the rejections of the first
// that does not agree. An error of one that is not ignorable leaves the job without a plan for now.
//
// On a node that an extender leaves out no pod may be evicted. If it names other pods there, these are the victims it wants.
// Its count of violated budgets is not read: the engine counts itself.
func (p *plugin) ProcessPreemption(_ *model.Job, proposals []framework.NodeVictims) ([]framework.VictimRejection, *model.Refusal) {
	if !slices.ContainsFunc(p.remotes, func(r *extenderClient) bool { return r.options.PreemptVerb != "" }) {
		return nil, nil
	}
	parts := p.splitRequests(proposals)
	for _, r := range p.remotes {
		if r.options.PreemptVerb == "" {
			continue
		}
		var all []framework.VictimRejection
		for i := range parts {
			if !slices.Contains(parts[i].of.remotes, r) {
				continue
			}
			some, err := r.review(p.cycle, &parts[i])
			switch {
			case err == nil:
				all = append(all, some...)
			case !r.options.Ignorable:
				return nil, r.refusal(p.now, err.Error(), false)
			}
		}
		if len(all) > 0 {
			return onePerNode(all), nil
		}
	}
	return nil, nil
}

// preemptionRequest is the part of a plan for members of one kind.
type preemptionRequest struct {
	of *extenderResult
	// pod is the pod of the member that represents all.
	pod *corev1.Pod
	// proposals are for the nodes where members of the kind get capacity, by name.
	proposals []framework.NodeVictims
}

// splitRequests returns the parts in the order in which their kinds first occur.
func (p *plugin) splitRequests(proposals []framework.NodeVictims) []preemptionRequest {
	var parts []preemptionRequest
	for _, proposal := range proposals {
		here := map[*extenderResult]bool{}
		for _, member := range proposal.Members {
			kind := p.resultFor(member)
			if here[kind] {
				continue
			}
			here[kind] = true
			at := slices.IndexFunc(parts, func(known preemptionRequest) bool { return known.of == kind })
			if at < 0 {
				at = len(parts)
				parts = append(parts, preemptionRequest{of: kind, pod: member.Pod})
			}
			parts[at].proposals = append(parts[at].proposals, proposal)
		}
	}
	return parts
}

// onePerNode merges the rejections of a node for members of several kinds: if they name different pods, no pod of it may be
// evicted.
func onePerNode(all []framework.VictimRejection) []framework.VictimRejection {
	slices.SortStableFunc(all, func(a, b framework.VictimRejection) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	var one []framework.VictimRejection
	for _, objection := range all {
		last := len(one) - 1
		switch {
		case last < 0 || one[last].Node != objection.Node:
			one = append(one, objection)
		case !equalPods(one[last].Victims, objection.Victims):
			one[last].Victims = nil
		}
	}
	return one
}

// equalPods reports whether both have the same pods, each once.
func equalPods(a, b []*model.Task) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(task *model.Task) bool { return !slices.Contains(b, task) })
}

// review sends one request and reads the answer.
func (r *extenderClient) review(c cycle, asked *preemptionRequest) ([]framework.VictimRejection, error) {
	verb := r.options.PreemptVerb
	result, err := ask[extenderv1.ExtenderPreemptionResult](r, c, asked.of.kind, verb, r.preemption(asked))
	if err != nil {
		return nil, err
	}
	named := result.NodeNameToMetaVictims
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !slices.ContainsFunc(asked.proposals, func(p framework.NodeVictims) bool { return p.Node.Name == name }) {
			return nil, fmt.Errorf("%s: it names node %s, about which it was not asked", verb, plain(name))
		}
	}
	var objections []framework.VictimRejection
	for i := range asked.proposals {
		proposal := &asked.proposals[i]
		objection := framework.VictimRejection{Node: proposal.Node, By: "extender " + r.name}
		if victims, ok := named[proposal.Node.Name]; ok {
			if objection.Victims, err = r.victims(proposal, victims); err != nil {
				return nil, err
			}
		}
		if !equalPods(objection.Victims, proposal.Victims) {
			objections = append(objections, objection)
		}
	}
	return objections, nil
}

// preemption is the body of the request: the pod, and by node either the victims or, to a node-cache-capable extender, their
// UIDs.
func (r *extenderClient) preemption(asked *preemptionRequest) *extenderv1.ExtenderPreemptionArgs {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: asked.pod}
	if r.options.NodeCacheCapable {
		args.NodeNameToMetaVictims = map[string]*extenderv1.MetaVictims{}
	} else {
		args.NodeNameToVictims = map[string]*extenderv1.Victims{}
	}
	for _, proposal := range asked.proposals {
		name, violations := proposal.Node.Name, int64(proposal.Violations)
		if r.options.NodeCacheCapable {
			victims := &extenderv1.MetaVictims{NumPDBViolations: violations}
			for _, task := range proposal.Victims {
				victims.Pods = append(victims.Pods, &extenderv1.MetaPod{UID: string(task.UID)})
			}
			args.NodeNameToMetaVictims[name] = victims
			continue
		}
		victims := &extenderv1.Victims{NumPDBViolations: violations}
		for _, task := range proposal.Victims {
			victims.Pods = append(victims.Pods, task.Pod)
		}
		args.NodeNameToVictims[name] = victims
	}
	return args
}

// victims returns the pods that the answer names for a node, each once; terminating ones are ignored. None at all is an
// error, unless the extender is ignorable: then the node counts as left out.
func (r *extenderClient) victims(proposal *framework.NodeVictims, answer *extenderv1.MetaVictims) ([]*model.Task, error) {
	verb, name := r.options.PreemptVerb, proposal.Node.Name
	if answer == nil || len(answer.Pods) == 0 {
		if r.options.Ignorable {
			return nil, nil
		}
		return nil, fmt.Errorf("%s: it names no victim on node %s", verb, name)
	}
	var victims []*model.Task
	for _, pod := range answer.Pods {
		uid := ""
		if pod != nil {
			uid = pod.UID
		}
		at := slices.IndexFunc(proposal.Node.Tasks, func(task *model.Task) bool { return string(task.UID) == uid })
		if at < 0 {
			return nil, fmt.Errorf("%s: it names pod %q on node %s, which is not there", verb, plain(uid), name)
		}
		task := proposal.Node.Tasks[at]
		leaves := task.Status == model.Releasing && !slices.Contains(proposal.Victims, task)
		if !leaves && !slices.Contains(victims, task) {
			victims = append(victims, task)
		}
	}
	return victims, nil
}
