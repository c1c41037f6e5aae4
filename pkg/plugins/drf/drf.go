// Package drf orders the jobs of a queue by what those of their namespace hold there already, or those with their value of a pod
// label: the least dominant share goes first, which is the largest part of any resource of the cluster.
//
// It orders, and no more: it keeps no job from idle capacity, and decides about no eviction. Between queues shares are those of
// package proportion.
package drf

import (
	"cmp"
	"math/bits"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration, that of kube-batch's and Volcano's.
const Name = "drf"

// Summary is what the plugin does, in half a sentence.
const Summary = "which job of a queue goes first: that of the namespace, or value of a pod label, whose jobs hold the least " +
	"dominant share"

const labelArgument = "label"

// Arguments returns the arguments of the plugin.
func Arguments() argument.List {
	return argument.List{argument.Text(labelArgument, "").WithFormat("the key of a label").WithHelp("jobs are compared by the value of this " +
		"label of their oldest pods that have not ended, and those without it are together; when it is empty, by namespace")}
}

// ReadLabel returns the label that is given; empty when jobs are compared by namespace.
func ReadLabel(arguments argument.Reader) string {
	label := Arguments().Read(arguments).Text(labelArgument)
	if label != "" && len(validation.IsQualifiedName(label)) > 0 {
		arguments.Refuse(labelArgument, "be the key of a label")
	}
	return label
}

// New returns a factory of the plugin, which groups jobs by the label, or by namespace when it is empty. It has no state beyond a
// session.
func New(label string) framework.Factory {
	return func() framework.Plugin { return &plugin{label: label} }
}

type plugin struct {
	label    string
	snapshot *model.Snapshot
	// held is what each group holds in each queue, counted when jobs of two groups are compared for the first time; nil before.
	// total is what the nodes have.
	held  map[holder]*holding
	total model.Resources
}

// holder names a group of the jobs of one queue; queue is nil while there are none.
type holder struct {
	queue *model.Queue
	group string
}

// holding is what a group holds: on nodes, terminating pods included, and nominated.
type holding struct {
	amounts model.Resources
	// used of there is its dominant share; stale reports that it has to be found again.
	used, there uint64
	stale       bool
}

var (
	_ framework.GroupJobOrderer = (*plugin)(nil)
	_ framework.EventHandler    = (*plugin)(nil)
	_ framework.SessionOpener   = (*plugin)(nil)
)

// Name returns "drf".
func (*plugin) Name() string { return Name }

// OpenSession keeps the snapshot.
func (p *plugin) OpenSession(view framework.View) { p.snapshot = view.Snapshot() }

// GroupOfJob returns the namespace of the job, or the value of the label of its oldest pod that has not ended: of ended pods the
// snapshot has no labels that users write. It is the same throughout a session, also while the end of a pod is simulated.
func (p *plugin) GroupOfJob(job *model.Job) string {
	if p.label == "" {
		return job.Key.Namespace
	}
	for _, task := range job.Tasks {
		if phase := task.Pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return task.Pod.Labels[p.label]
		}
	}
	return ""
}

// CompareJobs puts the job first whose group holds the lower dominant share.
func (p *plugin) CompareJobs(a, b *model.Job) int {
	x, y := holder{a.InQueue(), p.GroupOfJob(a)}, holder{b.InQueue(), p.GroupOfJob(b)}
	if x == y {
		return 0
	}
	p.count()
	return p.of(x).compare(p.of(y), p.total)
}

// OnAllocate counts what the task got. One to which capacity is nominated counts throughout the session.
func (p *plugin) OnAllocate(task *model.Task) {
	if p.held != nil && task.Nominated == "" {
		p.add(p.snapshot.Job(task.Job), task, 1)
	}
}

// OnEvict changes nothing: a pod counts until it is gone.
func (*plugin) OnEvict(*model.Task) {}

// OnDeallocate takes back what OnAllocate has counted.
func (p *plugin) OnDeallocate(task *model.Task, _ model.Placement) {
	if p.held != nil && task.Nominated == "" && !task.Status.HasNode() {
		p.add(p.snapshot.Job(task.Job), task, -1)
	}
}

// count finds what there is, and what each group holds.
func (p *plugin) count() {
	if p.held != nil {
		return
	}
	p.held = map[holder]*holding{}
	for _, node := range p.snapshot.Nodes {
		offers := node.Allocatable()
		for r, amount := range offers {
			if amount == model.ProvidedByDRA { // of devices that are not counted there is what is held
				offers = offers.Clone()
				offers[r] = node.Used(r)
			}
		}
		p.total.AddCapped(offers)
	}
	for _, job := range p.snapshot.Jobs {
		for _, task := range job.Tasks {
			if task.Status.HasNode() || task.Status == model.Pending && task.Nominated != "" {
				p.add(job, task, 1)
			}
		}
	}
}

func (p *plugin) of(key holder) *holding {
	h := p.held[key]
	if h == nil {
		h = &holding{stale: true}
		p.held[key] = h
	}
	return h
}

// maxCounted is how much of a resource one task counts for at most, so that no sum overflows.
const maxCounted = model.MaxAmount >> 5

// add counts a task of a job; the job is nil for a pod of another scheduler.
func (p *plugin) add(job *model.Job, task *model.Task, sign int64) {
	if job == nil {
		return
	}
	h := p.of(holder{job.InQueue(), p.GroupOfJob(job)})
	h.stale = true
	for r, amount := range task.Request {
		h.amounts.Set(r, h.amounts.At(r)+sign*min(amount, maxCounted))
	}
}

// compare compares two dominant shares.
func (h *holding) compare(other *holding, total model.Resources) int {
	h.update(total)
	other.update(total)
	return compareFractions(h.used, h.there, other.used, other.there)
}

// update finds the dominant share.
func (h *holding) update(total model.Resources) {
	if !h.stale {
		return
	}
	h.used, h.there, h.stale = 0, 1, false
	for r, amount := range h.amounts {
		if of := total.At(r); amount > 0 && of > 0 && compareFractions(uint64(amount), uint64(of), h.used, h.there) > 0 {
			h.used, h.there = uint64(amount), uint64(of)
		}
	}
}

// compareFractions compares a/b and c/d, which are above zero, but for a and c, which may be zero.
func compareFractions(a, b, c, d uint64) int {
	high, low := bits.Mul64(a, d)
	otherHigh, otherLow := bits.Mul64(c, b)
	return cmp.Or(cmp.Compare(high, otherHigh), cmp.Compare(low, otherLow))
}
