package report

import (
	"slices"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// MaxDomainNames is how many domains an entry of a status names, as in the API.
const MaxDomainNames = 8

// Standing is in which domains of a level members are.
type Standing struct {
	// Domains is how many they are, Names are the first MaxDomainNames of them.
	Domains int
	Names   []string
}

// setTopology writes where the members are that share domains, of a job that has not ended. What they would need at least is
// counted when they are placed: the status is not written again since the cluster has grown, and a job at rest costs no look
// at the nodes. Which status that is, the status itself says, also to a scheduler that has just taken over.
func (r *Reporter) setTopology(wanted *v1alpha1.PodGroupStatus, job *model.Job, current v1alpha1.PodGroupStatus) {
	if job.Finished() {
		return
	}
	wanted.Topology = nil
	if r.source.Standing == nil || wanted.Placed == wanted.Succeeded {
		return
	}
	same := current.ObservedGeneration == wanted.ObservedGeneration && current.Placed == wanted.Placed &&
		current.Succeeded == wanted.Succeeded && len(current.Topology) == len(job.Topology)
	for i := range job.Topology {
		shared := &job.Topology[i]
		in, least := r.source.Standing(job, shared)
		entry := v1alpha1.TopologyStatus{
			Level: shared.Level, Roles: slices.Clone(shared.Roles), Domains: int32(in.Domains), Names: in.Names,
		}
		switch {
		case same && isAt(&current.Topology[i], &entry):
			entry.Least = current.Topology[i].Least
		case least != nil:
			entry.Least = int32(least())
		}
		wanted.Topology = append(wanted.Topology, entry)
	}
}

// isAt reports whether two entries are about the same members in the same domains, as far as they say.
func isAt(a, b *v1alpha1.TopologyStatus) bool {
	return a.Level == b.Level && slices.Equal(a.Roles, b.Roles) && a.Domains == b.Domains && slices.Equal(a.Names, b.Names)
}
