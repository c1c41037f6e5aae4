package rehearse

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/model"
)

// forecast writes down what becomes of the jobs that wait, in their order.
func forecast(now *course, answer *debugapi.Answer) {
	answer.Jobs = []debugapi.JobDifference{}
	for i, key := range now.order {
		answer.Jobs = append(answer.Jobs, debugapi.JobDifference{Job: key.Describe(), Position: i + 1, Now: now.fates[keyOf(key)].show()})
	}
	answer.Same = len(now.fates) - len(now.order)
	if now.silent > 0 {
		answer.Notes = append(answer.Notes, fmt.Sprintf("of %d of the pods on nodes it is not known when they end, and they do not end in the play", now.silent))
	}
	answer.Notes = append(answer.Notes, "jobs that are created later are not counted")
}

// compare writes down the jobs of which something else becomes.
func compare(now, then *course, answer *debugapi.Answer) {
	answer.Jobs = []debugapi.JobDifference{}
	keys := map[model.JobKey]bool{}
	for _, c := range []*course{now, then} {
		for key := range c.fates {
			keys[key] = true
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), model.JobKey.Compare) {
		before, after := now.fates[key].show(), then.fates[key].show()
		if same(&before, &after) {
			answer.Same++
			continue
		}
		answer.Jobs = append(answer.Jobs, debugapi.JobDifference{Job: key.Describe(), Now: before, Then: &after})
	}
}

// same reports whether two fates are alike: which of several nodes a job starts on, and how many members of it would fit, are no
// difference.
func same(a, b *debugapi.Fate) bool {
	return a.State == b.State && a.At.Equal(b.At) && a.Code == b.Code && a.Loses == b.Loses && a.Evicts == b.Evicts && a.Again.Equal(b.Again)
}
