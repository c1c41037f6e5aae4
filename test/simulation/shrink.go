package simulation

import "slices"

// Shrink looks for a smaller plan and fewer kinds of faults by which the same invariant is broken, in so many runs at most. It
// returns the smallest configuration and its result; those it was given when nothing smaller breaks it.
func Shrink(filters *Filters, config Config, result *Result, runs int) (Config, *Result, error) {
	s := &shrinking{filters: filters, best: config, result: result, runs: runs, invariant: result.Violations[0].Invariant}
	s.best.Plan, s.best.Faults, s.best.Trace = result.Plan, &result.Faults, nil
	if s.best.Replicas != 1 {
		fewer := s.best
		fewer.Replicas = 1
		s.try(fewer)
	}
	if s.best.Queues {
		fewer := s.best
		fewer.Queues = false
		s.try(fewer)
	}
	if s.best.Foreign {
		fewer := s.best
		fewer.Foreign = false
		s.try(fewer)
	}
	if s.best.Topology {
		fewer := s.best
		fewer.Topology = false
		s.try(fewer)
	}
	for again := true; again && s.err == nil && s.runs > 0; {
		again = s.fewerSteps()
		for _, faults := range s.best.Faults.without() {
			fewer := s.best
			fewer.Faults = &faults
			again = s.try(fewer) || again
		}
	}
	return s.best, s.result, s.err
}

// shrinking is how far it has come.
type shrinking struct {
	filters   *Filters
	best      Config
	result    *Result
	invariant string
	runs      int
	err       error
}

// fewerSteps leaves out ever smaller parts of the plan and reports whether that helped.
func (s *shrinking) fewerSteps() bool {
	helped := false
	for size := len(s.best.Plan) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s.best.Plan); {
			fewer := s.best
			fewer.Plan = slices.Delete(slices.Clone(s.best.Plan), at, at+size)
			if s.try(fewer) {
				helped = true
			} else {
				at += size
			}
		}
	}
	return helped
}

// try keeps a configuration by which the invariant still is broken.
func (s *shrinking) try(config Config) bool {
	if s.runs--; s.runs < 0 || s.err != nil {
		return false
	}
	if config.Plan == nil {
		config.Plan = []Step{}
	}
	result, err := Run(s.filters, config)
	if err != nil {
		s.err = err
		return false
	}
	if !slices.ContainsFunc(result.Violations, func(v Violation) bool { return v.Invariant == s.invariant }) {
		return false
	}
	s.best, s.result = config, result
	return true
}
