package shares

import (
	"cmp"
	"math"
	"math/bits"
)

// wide is an integer of 128 bits: any sum of amounts, or the product of two.
type wide struct{ high, low uint64 }

func product(a, b uint64) wide {
	high, low := bits.Mul64(a, b)
	return wide{high: high, low: low}
}

func (a wide) plus(b uint64) wide {
	low, carry := bits.Add64(a.low, b, 0)
	return wide{high: a.high + carry, low: low}
}

func (a wide) minus(b wide) wide {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	return wide{high: a.high - b.high - borrow, low: low}
}

func (a wide) compare(b wide) int {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
}

// float is for people: it is rounded.
func (a wide) float() float64 { return math.Ldexp(float64(a.high), 64) + float64(a.low) }

// over returns ⌊a/b⌋. Invariant: b is not zero, and the quotient is below 2⁶³.
func (a wide) over(b wide) uint64 {
	if b.high == 0 {
		quotient, _ := bits.Div64(a.high, a.low, b.low)
		return quotient
	}
	// The quotient of the upper halves, with b shifted so that its highest bit is set, is the result or one more than it.
	shift := bits.LeadingZeros64(b.high)
	upper := b.high<<shift | b.low>>1>>(63-shift)
	estimate, _ := bits.Div64(a.high>>1, a.high<<63|a.low>>1, upper)
	estimate >>= 63 - shift
	if estimate > 0 {
		estimate-- // now it is the result or one less
	}
	rest := a.minus(b.times(wide{low: estimate}).lower())
	if rest.compare(b) >= 0 {
		estimate++
	}
	return estimate
}

// overUp returns ⌈a/b⌉, under the same conditions.
func (a wide) overUp(b wide) uint64 {
	quotient := a.over(b)
	if b.times(wide{low: quotient}).lower() != a {
		quotient++
	}
	return quotient
}

// fixed returns ⌊a/b·2ⁿ⌋, at most 2⁶²-1. Invariant: b is not zero and below 2¹²⁷, n is below 62.
func (a wide) fixed(b wide, n int) uint64 {
	const most = 1<<62 - 1
	if a == (wide{}) { // as in a cluster with capacity for all
		return 0
	}
	if b.high == 0 && a.high >= b.low {
		return most // no quotient of 64 bits
	}
	whole := a.over(b)
	if whole >= 1<<(62-n) {
		return most
	}
	rest := a.minus(b.times(wide{low: whole}).lower())
	if b.high == 0 { // as a rule
		part, _ := bits.Div64(rest.low>>(64-n), rest.low<<n, b.low)
		return whole<<n | part
	}
	for range n {
		rest = wide{high: rest.high<<1 | rest.low>>63, low: rest.low << 1}
		if whole <<= 1; rest.compare(b) >= 0 {
			rest, whole = rest.minus(b), whole|1
		}
	}
	return whole
}

// widest is an integer of 256 bits, the lowest 64 first.
type widest [4]uint64

func (a wide) times(b wide) widest {
	low, mixed, crossed, high := product(a.low, b.low), product(a.low, b.high), product(a.high, b.low), product(a.high, b.high)
	second, carry := bits.Add64(low.high, mixed.low, 0)
	third, fourth := bits.Add64(high.low, mixed.high, carry)
	second, carry = bits.Add64(second, crossed.low, 0)
	third, carry = bits.Add64(third, crossed.high, carry)
	return widest{low.low, second, third, high.high + fourth + carry}
}

func (a widest) lower() wide { return wide{high: a[1], low: a[0]} }

// compareFractions compares a/b with c/d, of which the denominators are not zero.
func compareFractions(a, b, c, d wide) int {
	if a.high|b.high|c.high|d.high == 0 { // as a rule
		return product(a.low, d.low).compare(product(c.low, b.low))
	}
	left, right := a.times(d), c.times(b)
	return cmp.Or(cmp.Compare(left[3], right[3]), cmp.Compare(left[2], right[2]),
		cmp.Compare(left[1], right[1]), cmp.Compare(left[0], right[0]))
}

// sum adds a change to an amount. It stays within 0…2⁶³-1.
func sum(amount, change int64) int64 {
	if change > math.MaxInt64-amount {
		return math.MaxInt64
	}
	return max(0, amount+change)
}
