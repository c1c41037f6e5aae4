package engine

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the one place where answers of several plugins become one. Each rule is a function of the answers alone.

// firstNonZero is the rule of orders: the first plugin with an opinion decides, then the tail, which is total.
func firstNonZero[P, T any](plugins []P, ask func(P, T, T) int, tail func(T, T) int, a, b T) int {
	for _, plugin := range plugins {
		if order := ask(plugin, a, b); order != 0 {
			return order
		}
	}
	return tail(a, b)
}

// firstRefusal is the rule of validators, limiters, gates and checks: yes when all say yes, else the first no.
func firstRefusal[P any](plugins []P, ask func(P) *model.Refusal) *model.Refusal {
	for _, plugin := range plugins {
		if refusal := ask(plugin); refusal != nil {
			return refusal
		}
	}
	return nil
}

// firstDecidedTier is the rule of victims: the intersection of the answers inside a tier; the first tier in which a plugin
// decided is final, also when its answer is no unit. When all abstain no unit may go.
func firstDecidedTier(
	tiers [][]framework.VictimFilter, preemptor *model.Job, units []framework.EvictionUnit,
) (picked []framework.EvictionUnit, decided bool) {
	for _, tier := range tiers {
		in := slices.Repeat([]bool{true}, len(units)) // by the unit
		for _, picker := range tier {
			answer, has := picker.FilterVictims(preemptor, slices.Clone(units))
			if has {
				decided = true
				intersect(in, units, answer)
			}
		}
		if !decided {
			continue
		}
		for i := range units {
			if in[i] {
				picked = append(picked, units[i])
			}
		}
		return picked, true
	}
	return nil, false
}

// intersect clears those of the units that an answer does not have. Mostly the answer has their order, and else it costs a map.
func intersect(in []bool, units, answer []framework.EvictionUnit) {
	answered, next := make([]bool, len(units)), 0
	for i := range units {
		if next < len(answer) && keyOf(&units[i]) == keyOf(&answer[next]) {
			answered[i] = true
			next++
		}
	}
	if next < len(answer) {
		chosen := map[evictionUnitKey]bool{}
		for i := range answer {
			chosen[keyOf(&answer[i])] = true
		}
		for i := range units {
			answered[i] = chosen[keyOf(&units[i])]
		}
	}
	for i := range in {
		in[i] = in[i] && answered[i]
	}
}

// firstRejection is the rule of reviewers: yes when all say yes, else what the first says that does not.
func firstRejection(reviewers []framework.PreemptionExtender, preemptor *model.Job, proposals []framework.NodeVictims) ([]framework.VictimRejection, *model.Refusal) {
	for _, reviewer := range reviewers {
		objections, refusal := reviewer.ProcessPreemption(preemptor, slices.Clone(proposals))
		if len(objections) > 0 || refusal != nil {
			return objections, refusal
		}
	}
	return nil, nil
}

// evictionUnitKey tells units apart: a task is in one unit only, but for a job's whole.
type evictionUnitKey struct {
	job   *model.Job
	first *model.Task
	whole bool
}

func keyOf(unit *framework.EvictionUnit) evictionUnitKey {
	key := evictionUnitKey{job: unit.Job, whole: unit.WholeGang}
	if len(unit.Tasks) > 0 {
		key.first = unit.Tasks[0]
	}
	return key
}

// normalize brings raw scores to 0…100 over all of them, in place.
func normalize(raw []int64, how framework.Normalization) {
	if len(raw) == 0 || how == framework.NormalizeNone {
		return
	}
	low, high := slices.Min(raw), slices.Max(raw)
	for i, score := range raw {
		raw[i] = normalized(score, low, high, how)
	}
}

func normalized(score, low, high int64, how framework.Normalization) int64 {
	const full = 100
	switch how {
	case framework.NormalizeByMax:
		if high <= 0 {
			return 0
		}
		return full * score / high
	case framework.NormalizeReversed:
		if high <= 0 {
			return full
		}
		return full - full*score/high
	case framework.NormalizeMinMax:
		if high == low {
			return 0
		}
		// kube-scheduler divides floats here, and a score may be one lower for it.
		return int64(full * (float64(score-low) / float64(high-low)))
	default:
		return score
	}
}
