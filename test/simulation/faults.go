package simulation

import "time"

// Faults are how often what goes wrong, each so many times in a thousand.
type Faults struct {
	// Calls is for requests: lost before or after they took effect, late, refused for no good reason, answered with 401, 409, 429,
	// 500 or 503. SlowReply is for those that take seconds, Instant for those that are answered before the cycle has ended.
	Calls, SlowReply, Instant int
	// SlowWatch is for deliveries that take seconds, Duplicate for changes that come twice, Reorder for batches in another order,
	// StaleList for lists of some time ago.
	SlowWatch, Duplicate, Reorder, StaleList int
	// Skew is how far the clock of a process may be from the others.
	Skew time.Duration
}

// drawFaults chooses how bad it gets; sometimes not at all, so that other things are seen undisturbed.
func drawFaults(d rng) Faults {
	rate := func(most int) int { return pick(d, 0, most/10, most) }
	return Faults{
		Calls: rate(200), SlowReply: rate(200), Instant: rate(500),
		SlowWatch: rate(100), Duplicate: rate(200), Reorder: rate(300), StaleList: rate(500),
		Skew: pick(d, 0, time.Second, time.Hour),
	}
}

// without returns one kind of fault fewer, for each kind there is; for shrinking.
func (f Faults) without() []Faults {
	var all []Faults
	for _, field := range []func(*Faults) *int{
		func(f *Faults) *int { return &f.Calls }, func(f *Faults) *int { return &f.SlowReply },
		func(f *Faults) *int { return &f.Instant }, func(f *Faults) *int { return &f.SlowWatch },
		func(f *Faults) *int { return &f.Duplicate }, func(f *Faults) *int { return &f.Reorder },
		func(f *Faults) *int { return &f.StaleList },
	} {
		less := f
		if rate := field(&less); *rate > 0 {
			*rate = 0
			all = append(all, less)
		}
	}
	if f.Skew > 0 {
		less := f
		less.Skew = 0
		all = append(all, less)
	}
	return all
}
