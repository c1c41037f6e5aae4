package invariants

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// This file judges what was taken from other queues, by the rules in words: with fractions, and all of it computed again for each
// question. It is slow, and shares no code with the scheduler.

// Queue is one of a tree.
type Queue struct {
	Parent           string
	Weight           int64
	Guarantee, Limit Amounts
	// Used is what its own jobs hold before anything is taken, Demand what they hold or wait for.
	Used, Demand Amounts
}

// Unit is what ends together: one surplus pod, or the rest of a job.
type Unit struct {
	Queue    string
	Job      string
	Amounts  Amounts
	Priority int32
	Began    int64
	// Surplus reports that the job can spare it; Taken that it is evicted.
	Surplus, Taken bool
}

// Reclaim is one decision that takes from other queues.
type Reclaim struct {
	Queues map[string]*Queue
	// Used is what each queue holds before the decision, when the shares are older than it.
	Used map[string]Amounts
	// Supply is what there is for all queues.
	Supply Amounts
	// Taker is the queue of the job, Gains what its members get, Right by which.
	Taker string
	Gains Amounts
	Right string
	Units []Unit
	// Lower is what jobs of lower priority hold in the queue of the job; Within alone asks for it.
	Lower Amounts
}

// Check returns what is wrong with the decision, nil when nothing is.
func (r *Reclaim) Check() error {
	c := r.divided()
	for i := range r.Units {
		if !r.Units[i].Taken {
			continue
		}
		if why := c.judge(&r.Units[i]); why != "" {
			return fmt.Errorf("invariant Q8: queue %s takes %v of %s of queue %s by %s: %s", r.Taker, r.Units[i].Amounts, r.Units[i].Job, r.Units[i].Queue, r.Right, why)
		}
	}
	return nil
}

// Within returns the queues, from the taker's up, that are within their own guarantees with what the job gets, or that lack a
// part of them and would be within them without what jobs of lower priority in the taker's queue hold, and Written those that are
// so only by what their objects say, where that is reduced for lack of capacity or by a limit above. Neither has a queue
// whose limit does not allow the job, nor one above that. possible reports that nodes could run the members, else only a lack of
// what is guaranteed counts; limited that the job waits for a limit.
func (r *Reclaim) Within(possible, limited bool) (within, written []string) {
	c, full, instead := r.divided(), false, Amounts{}
	instead.Add(r.Lower, -1)
	for _, queue := range c.path(r.Taker) {
		for r, limit := range c.Queues[queue].Limit {
			if c.Gains[r] > 0 && c.used(queue, r, true)+instead[r] > limit {
				return within, written
			}
			full = full || c.Gains[r] > 0 && c.used(queue, r, true) > limit
		}
		deciding := c.decides(r.Gains, c.own(queue))
		has := func(r corev1.ResourceName) bool { return c.used(queue, r, true) <= c.Queues[queue].Guarantee[r] }
		lacks := func(r corev1.ResourceName) bool {
			part := c.parts[queue][r]
			reduced := part.floor < min(c.Queues[queue].Guarantee[r], part.ceiling)
			return c.Gains[r] > c.Supply[r] || possible && reduced && c.used(queue, r, true) > part.floor
		}
		borrowed := func(r corev1.ResourceName) bool { return c.used(queue, r, false) < c.kept(queue, r) }
		switch {
		case possible && !full && c.within(queue, r.Gains, nil),
			possible && slices.ContainsFunc(deciding, borrowed) && c.within(queue, r.Gains, instead):
			within = append(within, queue)
		case !full && len(deciding) > 0 && !slices.ContainsFunc(deciding, func(r corev1.ResourceName) bool { return !has(r) }) &&
			(limited && possible || slices.ContainsFunc(deciding, lacks)):
			written = append(written, queue)
		}
	}
	return within, written
}

// Reduced returns the queues that do not have all of their own guarantees that they ask for.
func (r *Reclaim) Reduced() (names []string) {
	c := r.divided()
	for name, queue := range c.Queues {
		if slices.ContainsFunc(c.resources(), func(r corev1.ResourceName) bool {
			return c.kept(name, r) < min(queue.Guarantee[r], c.parts[name][r].ceiling)
		}) {
			names = append(names, name)
		}
	}
	return names
}

func device(r corev1.ResourceName) bool {
	switch r {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return false
	}
	return true
}

// path is the queue and those above it.
func (c *reclaim) path(queue string) (names []string) {
	for ; queue != ""; queue = c.Queues[queue].Parent {
		names = append(names, queue)
	}
	return names
}

func (c *reclaim) isBelow(queue, of string) bool { return slices.Contains(c.path(queue), of) }

// used is what a queue and those below it hold: before, or after the decision.
func (c *reclaim) used(queue string, r corev1.ResourceName, after bool) (sum int64) {
	for name := range c.Queues {
		if c.isBelow(name, queue) {
			sum += c.Used[name][r]
		}
	}
	if !after {
		return sum
	}
	if c.isBelow(c.Taker, queue) {
		sum += c.Gains[r]
	}
	for i := range c.Units {
		if c.Units[i].Taken && c.isBelow(c.Units[i].Queue, queue) {
			sum -= c.Units[i].Amounts[r]
		}
	}
	return sum
}

// level is how far a queue is above its floor, and a rank of what no fraction says.
type level struct {
	rank int
	of   *big.Rat
}

func (l level) compare(o level) int { return cmp.Or(cmp.Compare(l.rank, o.rank), l.of.Cmp(o.of)) }

func (c *reclaim) level(queue string, r corev1.ResourceName, after bool) level {
	q := c.Queues[queue]
	used, part := c.used(queue, r, after), c.parts[queue][r]
	above, over, supply, rate := used-part.floor, used-part.ceiling, big.NewRat(max(1, c.supply[q.Parent][r]), 1), c.lambda[q.Parent][r]
	of := big.NewRat(above, 1)
	switch {
	case !c.contended[q.Parent][r]:
		return level{of: new(big.Rat)}
	case over >= 0 && c.holds(queue, r) > part.ceiling: // beyond a limit, up to the last unit
		return level{4, big.NewRat(over, 1).Quo(big.NewRat(over, 1), supply)}
	case above < 0 || above == 0 && q.Weight > 0:
		return level{of: new(big.Rat)}
	case q.Weight == 0:
		return level{3, of.Quo(of, supply)}
	case rate.Sign() == 0:
		return level{2, of.Quo(of, supply.Mul(supply, big.NewRat(q.Weight, 1)))}
	}
	return level{1, of.Quo(of, new(big.Rat).Mul(rate, big.NewRat(q.Weight, 1)))}
}

// levels are those of the resources of a world, the highest first.
func (c *reclaim) levels(queue string, devices, after bool) (all []level) {
	for _, r := range c.resources() {
		if device(r) == devices {
			all = append(all, c.level(queue, r, after))
		}
	}
	slices.SortFunc(all, func(a, b level) int { return b.compare(a) })
	return all
}

func compareLevels(a, b []level) int {
	return slices.CompareFunc(a, b, func(x, y level) int { return x.compare(y) })
}

// decides are the resources in which amounts are or are not within a guarantee: devices if any queue guarantees one of them.
func (c *reclaim) decides(amounts Amounts, guaranteed func(r corev1.ResourceName) bool) (deciding []corev1.ResourceName) {
	byDevices := false
	for _, r := range c.resources() {
		if device(r) && amounts[r] > 0 {
			for _, queue := range c.Queues {
				byDevices = byDevices || queue.Guarantee[r] > 0
			}
		}
	}
	for _, r := range c.resources() {
		if device(r) == byDevices && amounts[r] > 0 && guaranteed(r) {
			deciding = append(deciding, r)
		}
	}
	return deciding
}

func (c *reclaim) own(queue string) func(corev1.ResourceName) bool {
	return func(r corev1.ResourceName) bool { return c.Queues[queue].Guarantee[r] > 0 }
}

func (c *reclaim) kept(queue string, r corev1.ResourceName) int64 {
	return min(c.Queues[queue].Guarantee[r], c.parts[queue][r].floor)
}

// within reports whether amounts are within the own guarantee of a queue that then holds what it holds after, and more.
func (c *reclaim) within(queue string, amounts, more Amounts) bool {
	deciding := c.decides(amounts, c.own(queue))
	return len(deciding) > 0 && !slices.ContainsFunc(deciding, func(r corev1.ResourceName) bool {
		return c.used(queue, r, true)+more[r] > c.kept(queue, r)
	})
}

// covered reports whether the guarantee of a queue from that of the unit up to another one covers it.
func (c *reclaim) covered(unit *Unit, upTo string) bool {
	covers := map[*Unit]bool{}
	for _, queue := range c.path(unit.Queue) {
		c.cover(queue, covers)
		if queue == upTo {
			break
		}
	}
	return covers[unit]
}

// cover adds what the guarantees of a queue and of those below it cover.
func (c *reclaim) cover(queue string, covers map[*Unit]bool) {
	for _, child := range c.children(queue) {
		c.cover(child, covers)
	}
	var units []*Unit
	for i := range c.Units {
		if c.isBelow(c.Units[i].Queue, queue) {
			units = append(units, &c.Units[i])
		}
	}
	before := map[*Unit]bool{}
	for u := range covers {
		before[u] = true
	}
	rank := func(u *Unit) int {
		if before[u] {
			return 0
		}
		return 1
	}
	surplus := func(u *Unit) int {
		if u.Surplus {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(units, func(a, b *Unit) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Began, b.Began),
			cmp.Compare(surplus(a), surplus(b)), cmp.Compare(a.Job, b.Job))
	})
	left := Amounts{}
	for _, r := range c.resources() {
		left[r] = c.kept(queue, r)
	}
	for _, u := range units {
		deciding := c.decides(u.Amounts, c.own(queue))
		if len(deciding) == 0 || slices.ContainsFunc(deciding, func(r corev1.ResourceName) bool { return u.Amounts[r] > left[r] }) {
			continue
		}
		for _, r := range deciding {
			left[r] -= u.Amounts[r]
		}
		covers[u] = true
	}
	for _, u := range units { // surplus without its job
		if u.Surplus && slices.ContainsFunc(units, func(o *Unit) bool { return o.Job == u.Job && !o.Surplus && !covers[o] }) {
			delete(covers, u)
		}
	}
}

// judge returns what is wrong with one unit that goes; that no guarantee covers it is invariant Q9.
func (c *reclaim) judge(unit *Unit) string {
	x, y, meeting := "", "", ""
	for _, queue := range c.path(unit.Queue) {
		for _, mine := range c.path(c.Taker) {
			if y == "" && queue != mine && c.Queues[queue].Parent == c.Queues[mine].Parent {
				x, y, meeting = mine, queue, c.Queues[queue].Parent
			}
		}
	}
	switch {
	case y == "" || c.isBelow(c.Taker, y) || c.isBelow(unit.Queue, x):
		return "the queues are one"
	case c.covered(unit, y):
		return "a guarantee covers it"
	}
	if c.Right == "guarantee" {
		for _, queue := range c.path(c.Taker) {
			if c.within(queue, c.Gains, nil) {
				return ""
			}
			if queue == x {
				break
			}
		}
		return "it is within no guarantee"
	}
	return c.judgeShare(unit, x, y, meeting)
}

// fillsFloor reports whether a queue gets some of what it lacks of its floor.
func (c *reclaim) fillsFloor(x, meeting string, devices bool) bool {
	return slices.ContainsFunc(c.resources(), func(r corev1.ResourceName) bool {
		return device(r) == devices && c.contended[meeting][r] && c.used(x, r, false) < c.parts[x][r].floor && c.used(x, r, true) > c.used(x, r, false)
	})
}

func (c *reclaim) judgeShare(unit *Unit, x, y, meeting string) string {
	devices := slices.ContainsFunc(c.resources(), func(r corev1.ResourceName) bool {
		return device(r) && unit.Amounts[r] > 0 && c.Gains[r] > 0 && c.contended[meeting][r]
	})
	if !devices {
		for _, above := range append([]string{meeting}, c.path(meeting)...) {
			if slices.ContainsFunc(c.resources(), func(r corev1.ResourceName) bool {
				return device(r) && unit.Amounts[r] > 0 && (c.contended[above][r] || c.contended[""][r])
			}) {
				return "a device is idled for something else"
			}
		}
	}
	before, after, giver := c.levels(x, devices, false), c.levels(x, devices, true), c.levels(y, devices, true)
	switch {
	case compareLevels(after, before) < 0, compareLevels(after, before) == 0 && !c.fillsFloor(x, meeting, devices):
		return "the taker does not rise"
	case after[0].compare(before[0]) > 0 && after[0].compare(giver[0]) > 0:
		return "the taker ends above the giver"
	case after[0].compare(before[0]) <= 0 && compareLevels(after, giver) > 0:
		return "the taker ends above the giver by all levels"
	case !slices.ContainsFunc(c.resources(), func(r corev1.ResourceName) bool {
		return device(r) == devices && unit.Amounts[r] > 0 && c.Gains[r] > 0 && c.contended[meeting][r] &&
			c.level(x, r, true).compare(c.level(y, r, true)) <= 0
	}):
		return "the taker is above the giver in all that it gets"
	}
	deciding := c.decides(unit.Amounts, func(r corev1.ResourceName) bool { return c.parts[y][r].guarantee > 0 })
	for _, r := range c.resources() {
		if (device(r) == devices && unit.Amounts[r] > 0 || slices.Contains(deciding, r)) && c.used(y, r, true) < c.parts[y][r].floor {
			return "the giver ends below its guarantee"
		}
	}
	for _, above := range c.path(meeting) {
		if c.within(above, unit.Amounts, unit.Amounts) {
			return "it has a right to come back"
		}
	}
	return ""
}
