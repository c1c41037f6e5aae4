package backoff

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Job is one incarnation of a job: a later one of the same name is not delayed for the failures of this one.
type Job struct {
	Key model.JobKey
	UID types.UID
}

// JobNode is a job on a node.
type JobNode struct {
	Job
	Node string
}

// AllJobs is the key of what is about no single job.
type AllJobs struct{}

// Of returns the key of a job.
func Of(job *model.Job) Job { return Job{Key: job.Key, UID: job.UID} }

// Delays are what cycles leave out for a while, so that a call which fails again and again does not become a storm of calls.
type Delays struct {
	// Binds are jobs with a bind that has failed. The first delay is short, since another node may do.
	Binds *Backoff[Job]
	// Undone are gangs of which members were deleted.
	Undone *Backoff[Job]
	// Panics are jobs over which something has panicked, Alike those of the same class over which nothing has.
	Panics, Alike *Backoff[Job]
	// Cycles are delayed by panics that are about no single job.
	Cycles *Backoff[AllJobs]
	// Nodes are those to which the API server refused to bind a pod of the job. One refusal does not say whether pod or node is
	// at fault: if it is the pod, its bind fails elsewhere too, and delays its job.
	Nodes *Backoff[JobNode]
	// Pods are those that the API server refused to bind: members of their job that can take their place come first.
	Pods *Backoff[types.UID]
	// Evictions are pods that the API server refused to evict, such as for a disruption budget that allows less than it said:
	// they are no victims, so that the next plan is another one.
	Evictions *Backoff[types.UID]
}

// NewDelays returns delays of nothing.
func NewDelays() *Delays {
	return &Delays{
		Binds:     New[Job](Policy{First: 100 * time.Millisecond, Min: time.Second, Max: time.Minute}),
		Undone:    New[Job](Policy{Min: 30 * time.Second, Max: 10 * time.Minute}),
		Panics:    New[Job](Policy{Min: time.Second, Max: time.Minute}),
		Alike:     New[Job](Policy{Min: time.Second, Max: time.Minute}),
		Cycles:    New[AllJobs](Policy{Min: time.Second, Max: time.Minute}),
		Nodes:     New[JobNode](Policy{Min: 5 * time.Second, Max: 5 * time.Minute}),
		Pods:      New[types.UID](Policy{Min: 10 * time.Second, Max: 5 * time.Minute}),
		Evictions: New[types.UID](Policy{Min: 10 * time.Second, Max: 5 * time.Minute}),
	}
}

// Clone returns a copy that goes its own way, for another goroutine.
func (d *Delays) Clone() *Delays {
	return &Delays{
		Binds: d.Binds.Clone(), Undone: d.Undone.Clone(), Panics: d.Panics.Clone(), Alike: d.Alike.Clone(), Cycles: d.Cycles.Clone(),
		Nodes: d.Nodes.Clone(), Pods: d.Pods.Clone(), Evictions: d.Evictions.Clone(),
	}
}

// Apply shows a snapshot what is delayed now, and returns when the first delay ends; zero when there is none. Of several
// reasons a job shows a panic before a start that was undone, and that before a bind. podExists reports whether there is a
// pod.
func (d *Delays) Apply(snapshot *model.Snapshot, podExists func(types.UID) bool, now time.Time) (wake time.Time) {
	exists := func(job Job) bool {
		found := snapshot.Job(job.Key)
		return found != nil && found.UID == job.UID
	}
	snapshot.JobBackoff = map[model.JobKey]*model.Refusal{}
	for _, jobs := range []*Backoff[Job]{d.Binds, d.Undone, d.Alike, d.Panics} {
		reasons, until := jobs.Active(now, exists)
		for job, reason := range reasons {
			snapshot.JobBackoff[job.Key] = reason
		}
		wake = model.Sooner(wake, until)
	}
	snapshot.NodeBackoff = map[model.JobKey]map[string]*model.Refusal{}
	nodes, until := d.Nodes.Active(now, func(node JobNode) bool { return exists(node.Job) })
	for node, reason := range nodes {
		if snapshot.NodeBackoff[node.Key] == nil {
			snapshot.NodeBackoff[node.Key] = map[string]*model.Refusal{}
		}
		snapshot.NodeBackoff[node.Key][node.Node] = reason
	}
	wake = model.Sooner(wake, until)
	snapshot.BindBackoff, until = d.Pods.Active(now, podExists)
	wake = model.Sooner(wake, until)
	snapshot.EvictionBackoff, until = d.Evictions.Active(now, podExists)
	return model.Sooner(wake, until)
}

// Panicked delays a job over which something has panicked, and the jobs of its class: those over which nothing has panicked
// yet once, for the shortest delay, so that all others have their turn first, and on their own account from then on.
func (d *Delays) Panicked(job *model.Job, jobs []*model.Job, reason *model.Refusal, now time.Time) {
	d.Panics.Fail(Of(job), reason, now)
	alike := *reason
	alike.Detail += ", over another job that asks for the same"
	for _, other := range jobs {
		switch key := Of(other); {
		case other == job || job.Class == (model.Class{}) || other.Class != job.Class:
		case !d.Panics.Until(key).IsZero():
			d.Panics.Fail(key, &alike, now)
		case d.Alike.Until(key).IsZero():
			d.Alike.Fail(key, &alike, now)
		}
	}
}

// BindFailed delays the job of a bind that failed, and its pod and its node if this very bind was refused.
func (d *Delays) BindFailed(job Job, outcome *commit.Outcome, now time.Time) {
	failed := func(to string) *model.Refusal {
		return &model.Refusal{Code: model.BindFailed, Detail: "pod " + outcome.Pod.Name + " could not be bound" + to + ": " + outcome.Message}
	}
	reason := failed(" to " + outcome.Node)
	d.Binds.Fail(job, reason, now)
	if outcome.Refused {
		d.Pods.Fail(outcome.Pod.UID, reason, now)
		d.Nodes.Fail(JobNode{job, outcome.Node}, failed(""), now)
	}
}

// BindSucceeded forgets that binds of the job have failed, and that panics have delayed it; not that its pods were deleted. It
// reports whether the job was delayed for these.
func (d *Delays) BindSucceeded(job Job, now time.Time) (delayed bool) {
	delayed = d.Binds.Delayed(job, now) || d.Panics.Delayed(job, now)
	d.Binds.Reset(job)
	d.Panics.Reset(job)
	return delayed
}

// Len returns how many failures are remembered.
func (d *Delays) Len() int {
	return d.Binds.Len() + d.Undone.Len() + d.Panics.Len() + d.Alike.Len() + d.Nodes.Len() + d.Pods.Len() + d.Evictions.Len()
}
