package scheduler

// sizes are how many things the loop remembers of the past. At rest all are zero, or there is a leak.
type sizes struct {
	// starts are the gangs that are followed, uncertain the binds of unknown result, delays the failures.
	starts, uncertain, delays int
}

func (s *Scheduler) sizes() sizes {
	return sizes{starts: s.gangs.Len(), uncertain: len(s.uncertain), delays: s.delays.Len()}
}
