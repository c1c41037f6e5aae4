package model

import (
	"cmp"
	"fmt"
	"slices"
)

// The marks by which a pod says where it is in the topology, as apis/scheduling/v1alpha1 describes them. The annotation with the
// index has the name of the label.
const (
	LabelIndex       = "scheduling.tutti.dev/index"
	AnnotationDomain = "scheduling.tutti.dev/domain"
	AnnotationSlice  = "scheduling.tutti.dev/slice"
)

// MaxIndex bounds the index of a member: no group has more.
const MaxIndex = 1_000_000

// Indexes are the indexes of the members of a job.
type Indexes struct {
	of map[*Task]int
	// Derived reports that some have an index that no label says.
	Derived bool
	// Invalid says which members contradict each other, or have a label that cannot be read; nil when all is well.
	Invalid *Refusal
}

// Of returns the index of a member; ok is false for a member that has failed or is being deleted: another one takes its
// place. One whose eviction the API server has not accepted yet has its index.
func (x *Indexes) Of(task *Task) (index int, ok bool) {
	index, ok = x.of[task]
	return index, ok
}

// Numbered returns the indexes of members: what the label scheduling.tutti.dev/index says, else the number that their controller
// has given them, else what was written with their bind; the others take what is free, by the natural order of their names.
func Numbered(members []*Task) *Indexes {
	x := &Indexes{of: make(map[*Task]int, len(members))}
	owner, perJob := map[int]*Task{}, podsPerJob(members)
	var without []*Task
	for _, task := range members {
		if task.Status == Failed || task.Deleted() {
			continue
		}
		index, ok := x.stated(task, perJob)
		if !ok {
			without, x.Derived = append(without, task), true
			continue
		}
		if other := owner[index]; other != nil && x.Invalid == nil {
			x.Invalid = &Refusal{Code: InvalidGroup, Detail: fmt.Sprintf(
				"topology: pods %s and %s both have the index %d; give them the label %s, or the entry its roles", other.Name, task.Name, index, LabelIndex)}
		}
		owner[index], x.of[task] = task, index
	}
	slices.SortFunc(without, func(a, b *Task) int { return cmp.Or(CompareNatural(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	var open []*Task
	for _, task := range without { // what stands comes first: it is in its slice already
		index, ok := task.Place.index()
		if !ok || owner[index] != nil || !task.Status.HasNode() && task.Status != Succeeded {
			open = append(open, task)
			continue
		}
		owner[index], x.of[task] = task, index
	}
	free := 0
	for _, task := range open {
		for owner[free] != nil {
			free++
		}
		owner[free], x.of[task] = task, free
	}
	return x
}

// stated returns the index that labels of the pod say. perJob is how many pods each Job of a JobSet has.
func (x *Indexes) stated(task *Task, perJob map[string]int) (index int, ok bool) {
	ranks := &task.Ranks
	if ranks.Own == Unreadable && x.Invalid == nil {
		x.Invalid = &Refusal{Code: InvalidGroup, Detail: fmt.Sprintf(
			"topology: label %s of pod %s is %q, it must be a whole number from 0 to %d", LabelIndex, task.Name, task.Says().WrongIndex, MaxIndex)}
	}
	if ranks.Own != 0 {
		return ranks.Own.Get()
	}
	if index, ok = ranks.InJob.Get(); ok {
		if of, inSet := ranks.OfJob.Get(); inSet {
			index += of * perJob[task.Role]
		}
		return index, ok
	}
	return ranks.Other.Get()
}

// index returns the index that is written; ok is false when there is none.
func (p *Place) index() (index int, ok bool) {
	if p == nil {
		return 0, false
	}
	return p.Index.Get()
}

// podsPerJob returns by role how many pods a Job of a JobSet has: all of them run at the same time, so that the last one has the
// highest index.
func podsPerJob(members []*Task) map[string]int {
	var pods map[string]int
	for _, task := range members {
		if _, inSet := task.Ranks.OfJob.Get(); !inSet {
			continue
		}
		if index, ok := task.Ranks.InJob.Get(); ok {
			if pods == nil {
				pods = map[string]int{}
			}
			pods[task.Role] = max(pods[task.Role], index+1)
		}
	}
	return pods
}

// SortByRank sorts members of a job by the index that labels say, and by the natural order of names.
func SortByRank(members []*Task) {
	slices.SortFunc(members, func(a, b *Task) int {
		ofJob, index := a.Ranks.first()
		ofOther, other := b.Ranks.first()
		if order := cmp.Or(cmp.Compare(ofJob, ofOther), cmp.Compare(index, other)); order != 0 {
			return order
		}
		return cmp.Or(CompareNatural(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// first returns the number of the Job, and the first index that can be read; zeros where there is none.
func (r *Ranks) first() (ofJob, index int) {
	for _, number := range [...]Number{r.Other, r.InJob, r.Own} {
		if of, ok := number.Get(); ok {
			index = of
		}
	}
	if of, ok := r.OfJob.Get(); ok {
		ofJob = of
	}
	return ofJob, index
}
