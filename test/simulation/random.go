package simulation

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// rng are random numbers that depend on a seed and nothing else.
type rng struct{ *rand.Rand }

// newRandom returns the random numbers of a seed for one purpose. Those for different purposes are independent, so that
// one fault fewer leaves the others where they are.
func newRandom(seed uint64, purpose string) rng {
	hash := fnv.New64a()
	hash.Write([]byte(purpose)) // never fails
	return rng{rand.New(rand.NewPCG(seed, hash.Sum64()))}
}

// number returns one from least to most.
func (d rng) number(least, most int) int { return least + d.IntN(most-least+1) }

// chance is true so many times in a thousand.
func (d rng) chance(perMille int) bool { return d.IntN(1000) < perMille }

// span returns a duration from least to most, in whole milliseconds.
func (d rng) span(least, most time.Duration) time.Duration {
	return (least + time.Duration(d.Int64N(int64(most-least)+1))).Truncate(time.Millisecond)
}

func pick[T any](d rng, of ...T) T { return of[d.IntN(len(of))] }
