package suggest

import (
	"fmt"
	"sort"

	"github.com/tutti-sched/tutti/pkg/model"
)

// mostNames is among how many names of groups the nearest is looked for.
const mostNames = 2000

// Name returns what to do for pods whose group does not exist, and what it has cost, in names looked at: the label may be
// misspelt, or the group is yet to be created. A foreign group is what an operator writes, which misspells nothing: there is
// nothing to do.
func Name(snapshot *model.Snapshot, key model.JobKey) (words string, looks int) {
	if key.IsForeign() {
		return "", 0
	}
	jobs := snapshot.Jobs
	first := sort.Search(len(jobs), func(i int) bool { return jobs[i].Key.Namespace >= key.Namespace })
	best, nearest := "", 1+max(1, min(3, len(key.Name)/3))
	for _, job := range jobs[first:] {
		if job.Key.Namespace != key.Namespace || looks >= mostNames {
			break
		}
		if looks++; !job.HasGroup {
			continue
		}
		if far := distance(job.Key.Name, key.Name, nearest); far < nearest {
			best, nearest = job.Key.Name, far
		}
	}
	if best == "" {
		return fmt.Sprintf("create PodGroup %q", key.Name), looks
	}
	return fmt.Sprintf("correct the pods' label to %q, which is a PodGroup, or create %q", best, key.Name), looks
}

// distance returns how many letters must be put in, left out, changed or swapped with the next to make one word of the other;
// most, when it is no less than that.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(most, last[len(b)])
}
