package shares

import "slices"

// Fraction is P/Q. Q is positive, P is not negative.
type Fraction struct{ P, Q int64 }

// lowest returns P/Q in lowest terms, so that equal fractions are the same value.
func lowest(p, q uint64) Fraction {
	a, b := p, q
	for b > 0 {
		a, b = b, a%b
	}
	return Fraction{P: int64(p / a), Q: int64(q / a)}
}

// Compare returns a negative number when f is below the other, zero when they are equal.
func (f Fraction) Compare(o Fraction) int {
	return product(uint64(f.P), uint64(o.Q)).compare(product(uint64(o.P), uint64(f.Q)))
}

// number is larger for a higher fraction, in fixed point.
func (f Fraction) number() uint64 { return wide{low: uint64(f.P)}.fixed(wide{low: uint64(f.Q)}, 61) }

// Division is how the supply of one resource is divided among siblings.
type Division struct {
	// Supply is what is divided.
	Supply int64
	// Rate is what a sibling may have above its floor for each unit of weight, in lowest terms: the highest for which there is
	// enough, or that at which the last sibling with a weight has all that it asks for. It is 0/1 if the resource is not
	// contended, if the floors are scaled, and if no sibling has a weight.
	Rate Fraction
	// Contended reports that the siblings ask for more than there is, or hold so much beyond their limits that there is not enough
	// for what they ask for within them.
	Contended bool
	// Scaled reports that the floors alone would be more than there is. They were reduced in proportion to the guarantees.
	Scaled bool
}

// claim is what one sibling may claim of one supply.
type claim struct {
	weight int64
	// guarantee is all that is guaranteed, wanted the part of it that is asked for, most all that is asked for.
	// Invariant: 0 ≤ wanted ≤ most, wanted ≤ guarantee.
	guarantee, wanted, most int64
	// held is what it holds.
	held int64
}

// result is what one sibling may count on. Invariant: 0 ≤ floor ≤ share ≤ most of its claim.
type result struct{ floor, share int64 }

// divider divides supplies, one at a time. It keeps the slice in which it sorts.
type divider struct {
	open []open
	// weights is the sum of those of open.
	weights wide
}

// open is a sibling that does not have all that it asks for yet.
type open struct {
	// extra is what it asks for beyond its share so far, weight its part.
	extra, weight uint64
	index         int
}

// divide writes a result for each claim.
func (d *divider) divide(supply int64, claims []claim, results []result) Division {
	var wanted, most, held wide
	for i := range claims {
		c := &claims[i]
		wanted, most, held = wanted.plus(uint64(c.wanted)), most.plus(uint64(c.most)), held.plus(uint64(max(c.most, c.held)))
	}
	available := wide{low: uint64(supply)}
	division := Division{
		Supply: supply, Rate: Fraction{Q: 1}, Contended: held.compare(available) > 0, Scaled: wanted.compare(available) > 0,
	}
	switch {
	case division.Scaled:
		for i := range claims {
			results[i] = result{}
			d.add(i, claims[i].wanted, claims[i].guarantee)
		}
		// Rounded down: floors must never add up to more than there is.
		d.fill(uint64(supply), results, wide.over)
		for i := range results {
			results[i].floor = results[i].share
		}
	case !division.Contended:
		for i := range claims {
			results[i] = result{floor: claims[i].wanted, share: claims[i].most}
		}
	default:
		for i := range claims {
			results[i] = result{floor: claims[i].wanted, share: claims[i].wanted}
			d.add(i, claims[i].most-claims[i].wanted, claims[i].weight)
		}
		// Rounded up: what is left by rounding down would have to be handed out by another rule, and more supply could then lower a
		// share.
		var rest uint64
		division.Rate, rest = d.fill(uint64(supply)-wanted.low, results, wide.overUp)
		for i := range claims {
			if claims[i].weight == 0 {
				d.add(i, claims[i].most-claims[i].wanted, 1)
			}
		}
		d.fill(rest, results, wide.overUp)
	}
	return division
}

// add makes a sibling one of those of the next fill, unless it has no weight.
func (d *divider) add(index int, extra, weight int64) {
	if weight > 0 {
		d.open, d.weights = append(d.open, open{extra: uint64(extra), weight: uint64(weight), index: index}), d.weights.plus(uint64(weight))
	}
}

// fill raises the shares of the siblings that were added, by their weights, until nothing is left or all have what they ask for.
// It returns what is left, and what each had for a unit of weight, 0/1 if the weights do not fit into 64 bits.
func (d *divider) fill(rest uint64, results []result, round func(amount, parts wide) uint64) (rate Fraction, left uint64) {
	slices.SortFunc(d.open, func(a, b open) int { return product(a.extra, b.weight).compare(product(b.extra, a.weight)) })
	rate = Fraction{Q: 1}
	for i := range d.open {
		o := &d.open[i]
		if o.extra > product(rest, o.weight).over(d.weights) {
			// Neither this one nor those behind it can have all.
			for _, o := range d.open[i:] {
				results[o.index].share += int64(round(product(rest, o.weight), d.weights))
			}
			if d.weights.high == 0 {
				rate = lowest(rest, d.weights.low)
			}
			rest = 0
			break
		}
		results[o.index].share += int64(o.extra)
		rest, d.weights = rest-o.extra, d.weights.minus(wide{low: o.weight})
		if i == len(d.open)-1 {
			rate = lowest(o.extra, o.weight)
		}
	}
	d.open, d.weights = d.open[:0], wide{}
	return rate, rest
}
