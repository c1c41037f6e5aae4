package extender

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// ProcessPreemption calls the extenders that have a preempt verb, one after another, once for every kind of members that
// would use the capacity of victims, with the nodes where members of that kind would. It returns the rejections of the first
// that does not agree. An error of one that is not ignorable leaves the job without a plan for now.
//
// On a node that an extender leaves out, or for which it names other pods than the proposed victims, no pod may be evicted. Its
// count of violated budgets is not read: the engine counts itself.
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
				return nil, r.refusal(err.Error(), false)
			}
		}
		if len(all) > 0 {
			slices.SortStableFunc(all, func(a, b framework.VictimRejection) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
			return slices.CompactFunc(all, func(a, b framework.VictimRejection) bool { return a.Node == b.Node }), nil
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
		by := "extender " + r.name
		switch victims := named[proposal.Node.Name]; {
		case victims == nil:
		case agrees(proposal, victims):
			continue
		default:
			by += " (it names other victims)"
		}
		objections = append(objections, framework.VictimRejection{Node: proposal.Node, By: by})
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

// agrees reports whether an answer names for a node the proposed victims and no other pod; pods that terminate are ignored.
func agrees(proposal *framework.NodeVictims, answer *extenderv1.MetaVictims) bool {
	named := map[string]bool{}
	for _, pod := range answer.Pods {
		named[ptr.Deref(pod, extenderv1.MetaPod{}).UID] = true
	}
	for _, task := range proposal.Node.Tasks {
		uid := string(task.UID)
		proposed := slices.Contains(proposal.Victims, task)
		if proposed && !named[uid] {
			return false
		}
		if proposed || task.Status == model.Releasing {
			delete(named, uid)
		}
	}
	return len(named) == 0
}
