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
	// Contended reports that the siblings ask for more than there is.
	Contended bool
	// Scaled reports that the floors alone would be more than there is. They were reduced in proportion.
	Scaled bool
}

// claim is what one sibling may claim of one supply.
type claim struct {
	weight int64
	// wanted is the part of the guarantee that is asked for, most all that is. Invariant: 0 ≤ wanted ≤ most.
	wanted, most int64
}

// result is what one sibling may count on. Invariant: 0 ≤ floor ≤ share ≤ most of its claim.
type result struct{ floor, share int64 }

// divider divides supplies, one at a time. It keeps the slice in which it sorts.
type divider struct{ open []open }

// open is a sibling that does not have all that it asks for yet.
type open struct {
	// extra is what it asks for above its floor, weight its part.
	extra, weight uint64
	index         int
}

// divide writes a result for each claim.
func (d *divider) divide(supply int64, claims []claim, results []result) Division {
	var wanted, most wide
	for i := range claims {
		wanted, most = wanted.plus(uint64(claims[i].wanted)), most.plus(uint64(claims[i].most))
	}
	available := wide{low: uint64(supply)}
	division := Division{
		Supply: supply, Rate: Fraction{Q: 1}, Contended: most.compare(available) > 0, Scaled: wanted.compare(available) > 0,
	}
	switch {
	case division.Scaled:
		for i := range claims {
			// Rounded down: floors must never add up to more than there is.
			floor := int64(product(uint64(claims[i].wanted), uint64(supply)).over(wanted))
			results[i] = result{floor: floor, share: floor}
		}
	case !division.Contended:
		for i := range claims {
			results[i] = result{floor: claims[i].wanted, share: claims[i].most}
		}
	default:
		for i := range claims {
			results[i] = result{floor: claims[i].wanted, share: claims[i].wanted}
		}
		var rest uint64
		division.Rate, rest = d.fill(uint64(supply)-wanted.low, claims, results, true)
		d.fill(rest, claims, results, false)
	}
	return division
}

// fill raises the shares of the siblings that have a weight, or of those that have none and then count the same, until nothing
// is left or all have what they ask for. It returns what is left, and what each had for a unit of weight.
func (d *divider) fill(rest uint64, claims []claim, results []result, weighted bool) (rate Fraction, left uint64) {
	d.open = d.open[:0]
	weights := uint64(0)
	for i := range claims {
		c := &claims[i]
		if c.weight > 0 == weighted {
			o := open{extra: uint64(c.most - c.wanted), weight: uint64(max(1, c.weight)), index: i}
			d.open, weights = append(d.open, o), weights+o.weight
		}
	}
	slices.SortFunc(d.open, func(a, b open) int { return product(a.extra, b.weight).compare(product(b.extra, a.weight)) })
	for i := range d.open {
		o := &d.open[i]
		if product(o.extra, weights).compare(product(rest, o.weight)) > 0 {
			// Neither this one nor those behind it can have all. Rounded up: what is left by rounding down would have to be
			// handed out by another rule, and more supply could then lower a share.
			for _, o := range d.open[i:] {
				results[o.index].share += int64(product(rest, o.weight).overUp(weights))
			}
			return lowest(rest, weights), 0
		}
		results[o.index].share += int64(o.extra)
		rest, weights = rest-o.extra, weights-o.weight
	}
	if len(d.open) == 0 {
		return Fraction{Q: 1}, rest
	}
	last := &d.open[len(d.open)-1]
	return lowest(last.extra, last.weight), rest
}
