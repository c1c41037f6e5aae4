package proportion

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/shares"
)

// This file says why a claim takes nothing, by what the queues hold that could give. It names queues and amounts, and no job: who
// waits need not be allowed to read the jobs of other queues.

// obstacle is what keeps a unit from going, none when nothing does.
type obstacle int

const (
	none obstacle = iota
	// givesNothing: it, or a part of it, has nothing that the job needs and of which there is too little.
	givesNothing
	// idlesDevice: it has a device of which there is too little, and which the job does not need.
	idlesDevice
	// covered: a guarantee covers it.
	covered
	// tooMuch: the queue of the job would end above the queue that gives it.
	tooMuch
	// belowFloor: the queue that gives it would have less than is guaranteed to it, and to those below it.
	belowFloor
	// returns: a queue above both has a guarantee by which it would come back.
	returns
)

// mostKept is how many queues the words of a claim name.
const mostKept = 3

// keptBy is what a queue keeps of one resource.
type keptBy struct {
	meeting
	resource int
	why      []keptAmount
}

// keptAmount is an amount, and in words why it stays; least reports that it is the least of several that would go together.
type keptAmount struct {
	words  string
	least  bool
	amount int64
}

// Keeps says why a guarantee takes none of the units.
func (c *guaranteeClaim) Keeps(units []framework.EvictionUnit, stays []string) string {
	needed := func(int, meeting) bool { return true }
	return c.keeps(c.From, needed, func(unit *framework.EvictionUnit, m meeting) keptAmount {
		if c.isCovered(unit) {
			return c.wordsOf(covered, m)
		}
		return keptAmount{}
	}, units, stays, "no queue that could give holds any of what it needs")
}

// Keeps says why a share takes none of the units.
func (c *shareClaim) Keeps(units []framework.EvictionUnit, stays []string) string {
	contended := func(r int, m meeting) bool { return c.tree.Division(m.parent, r).Contended }
	return c.keeps(c.From, contended, func(unit *framework.EvictionUnit, m meeting) keptAmount {
		if c.isCovered(unit) {
			return c.wordsOf(covered, m)
		}
		return c.wordsOf(c.whyNotBeside(unit, nil), m)
	}, units, stays, "no other queue that holds more of its share holds any of what it needs")
}

// wordsOf puts an obstacle into words, to be completed by an amount.
func (c *claim) wordsOf(why obstacle, m meeting) keptAmount {
	switch why {
	case givesNothing: // in part: of one that gives nothing at all there is no amount
		return keptAmount{words: "with members that have nothing that the job needs"}
	case idlesDevice:
		return keptAmount{words: "with devices that the job does not need"}
	case covered:
		return keptAmount{words: "covered by a guarantee"}
	case tooMuch:
		return keptAmount{words: fmt.Sprintf("queue %q would then hold more of its share", c.path[m.place].Name), least: true}
	case belowFloor:
		return keptAmount{words: "it would then have less than is guaranteed to it", least: true}
	case returns:
		return keptAmount{words: "the guarantee of a queue above would bring that back", least: true}
	}
	return keptAmount{}
}

// keeps says of each queue that could give something what it holds, and why that stays; the one most above its share comes first.
// counts reports whether a resource that the job needs is one that the claim takes where a queue meets the job's. none are
// the words where no queue could.
func (c *claim) keeps(
	from func(*model.Queue) bool, counts func(r int, m meeting) bool, whyNot func(*framework.EvictionUnit, meeting) keptAmount,
	units []framework.EvictionUnit, stays []string, none string,
) string {
	all, by := []*keptBy(nil), map[*model.Queue]*keptBy{}
	for _, queue := range c.queues {
		if m := c.meet(queue); from(queue) && by[m.giving] == nil {
			if r := c.furthest(m, counts); r >= 0 {
				by[m.giving] = &keptBy{meeting: m, resource: r}
				all = append(all, by[m.giving])
			}
		}
	}
	if len(all) == 0 {
		return none
	}
	counted := map[*model.Task]bool{} // a member that can go alone also goes with its job
	for i := range units {
		kept := by[c.meet(units[i].Job.InQueue()).giving]
		if kept == nil {
			continue
		}
		why := keptAmount{words: stays[i]}
		if why.words == "" {
			why = whyNot(&units[i], kept.meeting)
		}
		if why.words == "" {
			continue
		}
		left := int64(0)
		for _, task := range units[i].Tasks {
			why.amount += task.Request.At(kept.resource)
			if !counted[task] {
				counted[task], left = true, left+task.Request.At(kept.resource)
			}
		}
		if !why.least {
			why.amount = left
		}
		if left > 0 {
			kept.add(why)
		}
	}
	slices.SortStableFunc(all, func(a, b *keptBy) int { return cmp.Compare(c.ranks()[a.giving.Index], c.ranks()[b.giving.Index]) })
	var says []string
	for _, kept := range all[:min(len(all), mostKept)] {
		says = append(says, c.describeKept(kept))
	}
	if more := len(all) - len(says); more == 1 {
		says = append(says, "1 more queue gives nothing")
	} else if more > 1 {
		says = append(says, fmt.Sprintf("%d more queues give nothing", more))
	}
	return strings.Join(says, "; ")
}

// furthest returns the resource that the job needs of which a queue is furthest above its share, devices before others; -1 where
// it holds none that is needed.
func (c *claim) furthest(m meeting, counts func(r int, m meeting) bool) int {
	found := -1
	for _, world := range []shares.World{c.devices, c.ordinary} {
		for _, r := range world {
			holds := c.needs.At(r) > 0 && counts(r, m) && c.tree.Part(m.giver, r).Usage > 0
			if holds && (found < 0 || c.tree.Level(m.giver, r, 0).Compare(c.tree.Level(m.giver, found, 0)) > 0) {
				found = r
			}
		}
		if found >= 0 {
			break
		}
	}
	return found
}

// add adds an amount to those that stay for the same reason. Of those that are the least of several the least is one.
func (k *keptBy) add(why keptAmount) {
	at := slices.IndexFunc(k.why, func(w keptAmount) bool { return w.least == why.least && (w.least || w.words == why.words) })
	switch {
	case at < 0:
		k.why = append(k.why, why)
	case !why.least:
		k.why[at].amount += why.amount
	case why.amount < k.why[at].amount:
		k.why[at] = why
	}
}

// describeKept says what one queue holds and keeps. Where no unit says why, its pods are on their way, or cannot be evicted now.
func (c *claim) describeKept(kept *keptBy) string {
	part := c.tree.Part(kept.giver, kept.resource)
	says := []string{fmt.Sprintf("queue %q holds %s", kept.giving.Name, c.ofWhat(kept.resource, part.Usage, " of its share of ", part.Share))}
	if len(kept.why) == 0 {
		says = append(says, "and none of it can be evicted now")
	}
	last := ""
	for _, why := range kept.why {
		number, _, _ := strings.Cut(c.view.Snapshot().Dimensions.FormatAmount(kept.resource, why.amount), " ")
		if why.least {
			last = ", and the least that could go is " + number + ": " + why.words
		} else {
			says = append(says, number+" "+why.words)
		}
	}
	return strings.Join(says, ", ") + last
}
