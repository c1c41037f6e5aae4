package invariants

import (
	"math/big"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// This file divides what there is among queues, in the words of the rule and with fractions.

// part is what one queue has of one resource: its guarantee with those below it, the demand within limits, and the part of the
// guarantee that it has a use for.
type part struct{ guarantee, ceiling, floor int64 }

type reclaim struct {
	*Reclaim
	parts     map[string]map[corev1.ResourceName]*part
	lambda    map[string]map[corev1.ResourceName]*big.Rat // of the children of a queue
	contended map[string]map[corev1.ResourceName]bool
	supply    map[string]Amounts
}

func (c *reclaim) children(of string) (names []string) {
	for name, queue := range c.Queues {
		if queue.Parent == of {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *reclaim) resources() (names []corev1.ResourceName) {
	all := Amounts{}
	all.Add(c.Supply, 1)
	all.Add(c.Gains, 1)
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c *reclaim) partOf(queue string, r corev1.ResourceName) *part {
	q, p := c.Queues[queue], &part{}
	demand := q.Demand[r]
	for _, child := range c.children(queue) {
		below := c.partOf(child, r)
		p.guarantee, demand = p.guarantee+below.guarantee, demand+below.ceiling
	}
	p.guarantee = max(p.guarantee, q.Guarantee[r])
	p.ceiling = demand
	if limit, has := q.Limit[r]; has {
		p.ceiling = min(p.ceiling, limit)
	}
	return p
}

// divided returns the same with what each queue may count on.
func (r *Reclaim) divided() *reclaim {
	c := &reclaim{Reclaim: r, parts: map[string]map[corev1.ResourceName]*part{}, lambda: map[string]map[corev1.ResourceName]*big.Rat{},
		contended: map[string]map[corev1.ResourceName]bool{}, supply: map[string]Amounts{}}
	c.divide("", r.Supply)
	return c
}

// divide finds floors and rates below a queue that has so much.
func (c *reclaim) divide(of string, supply Amounts) {
	c.lambda[of], c.contended[of], c.supply[of] = map[corev1.ResourceName]*big.Rat{}, map[corev1.ResourceName]bool{}, supply
	shares := map[string]Amounts{}
	children := c.children(of)
	for _, name := range children {
		c.parts[name], shares[name] = map[corev1.ResourceName]*part{}, Amounts{}
	}
	for _, r := range c.resources() {
		floors, ceilings, held := int64(0), int64(0), int64(0)
		for _, name := range children {
			p := c.partOf(name, r)
			c.parts[name][r] = p
			p.floor = min(p.guarantee, p.ceiling)
			floors, ceilings, held = floors+p.floor, ceilings+p.ceiling, held+max(p.ceiling, c.holds(name, r))
		}
		c.contended[of][r] = held > supply[r]
		c.lambda[of][r] = new(big.Rat)
		switch {
		case floors > supply[r]:
			c.scale(children, r, supply[r])
			for _, name := range children {
				shares[name][r] = c.parts[name][r].floor
			}
			continue
		case ceilings <= supply[r] && !c.contended[of][r]:
			for _, name := range children {
				shares[name][r] = c.parts[name][r].ceiling
			}
			continue
		}
		rate, rest := c.fill(children, r, supply[r]-floors, func(q *Queue) int64 { return q.Weight })
		c.lambda[of][r] = rate
		for _, name := range children {
			shares[name][r] = c.parts[name][r].floor + c.extra(name, r, rate, c.Queues[name].Weight)
		}
		left, _ := c.fill(children, r, rest, func(q *Queue) int64 {
			if q.Weight == 0 {
				return 1
			}
			return 0
		})
		for _, name := range children {
			if c.Queues[name].Weight == 0 {
				shares[name][r] += c.extra(name, r, left, 1)
			}
		}
	}
	for _, name := range children {
		for r, own := range c.Queues[name].Used { // of jobs that the queue has beside those below it
			shares[name][r] = max(0, shares[name][r]-own)
		}
		c.divide(name, shares[name])
	}
}

// scale reduces the floors: what there is goes by guarantee to those that have not all of theirs that they ask for, a round for
// each of them.
func (c *reclaim) scale(children []string, r corev1.ResourceName, left int64) {
	full := map[string]bool{}
	for {
		guarantees := new(big.Int)
		for _, name := range children {
			if !full[name] {
				guarantees.Add(guarantees, big.NewInt(c.parts[name][r].guarantee))
			}
		}
		more, rest := false, left
		for _, name := range children {
			p := c.parts[name][r]
			if full[name] || p.guarantee == 0 {
				continue
			}
			part := new(big.Int).Mul(big.NewInt(left), big.NewInt(p.guarantee))
			if part.Quo(part, guarantees).Int64() >= p.floor {
				full[name], more, rest = true, true, rest-p.floor
			}
		}
		if left = rest; more {
			continue
		}
		for _, name := range children {
			if p := c.parts[name][r]; !full[name] && p.guarantee > 0 {
				part := new(big.Int).Mul(big.NewInt(left), big.NewInt(p.guarantee))
				p.floor = part.Quo(part, guarantees).Int64()
			}
		}
		return
	}
}

// holds is what a queue and those below it hold as the shares have it.
func (c *reclaim) holds(queue string, r corev1.ResourceName) (sum int64) {
	for name, q := range c.Queues {
		if c.isBelow(name, queue) {
			sum += q.Used[r]
		}
	}
	return sum
}

// extra is what a queue has above its floor at a rate, rounded up.
func (c *reclaim) extra(name string, r corev1.ResourceName, rate *big.Rat, weight int64) int64 {
	p := c.parts[name][r]
	above := new(big.Rat).Mul(rate, new(big.Rat).SetInt64(weight))
	whole, remainder := new(big.Int).QuoRem(above.Num(), above.Denom(), new(big.Int))
	if remainder.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return min(p.ceiling-p.floor, whole.Int64())
}

// fill finds the highest rate for which there is enough, or that at which all have what they want.
func (c *reclaim) fill(children []string, r corev1.ResourceName, rest int64, weight func(*Queue) int64) (*big.Rat, int64) {
	full, rate := map[string]bool{}, new(big.Rat)
	for {
		left, weights := rest, int64(0)
		for _, name := range children {
			if w := weight(c.Queues[name]); full[name] {
				left -= c.parts[name][r].ceiling - c.parts[name][r].floor
			} else {
				weights += w
			}
		}
		if weights == 0 {
			return rate, left
		}
		next := big.NewRat(left, weights)
		more := false
		for _, name := range children {
			p, w := c.parts[name][r], weight(c.Queues[name])
			if !full[name] && w > 0 && new(big.Rat).Mul(next, big.NewRat(w, 1)).Cmp(big.NewRat(p.ceiling-p.floor, 1)) >= 0 {
				full[name], more = true, true
				if at := big.NewRat(p.ceiling-p.floor, w); at.Cmp(rate) > 0 {
					rate = at
				}
			}
		}
		if !more {
			return next, 0
		}
	}
}
