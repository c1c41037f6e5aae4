package model

import "slices"

// This file is what a job may take in the first turn: no more than its start was decided with, or than it has lost.

// CompletesWithin reports whether the job asks for no more than that, whichever of its waiting members complete its minimum,
// those that hold capacity counted; nil is no limit. A job with roles may be completed with any number of them.
func (j *Job) CompletesWithin(most Resources) bool {
	if most == nil {
		return true
	}
	held, waiting := HeldBy(j.Tasks), j.Pending()
	short := len(waiting)
	if len(j.Roles) == 0 {
		short = min(short, max(0, int(j.MinMember)-j.Count((*Task).CountsTowardMinimum)))
	}
	width := len(held)
	for _, task := range waiting {
		width = max(width, len(task.Request))
	}
	amounts := make([]int64, len(waiting))
	for i := range width {
		sum := held.At(i)
		for k, task := range waiting {
			amounts[k] = task.Request.At(i)
		}
		slices.Sort(amounts)
		for _, amount := range amounts[len(amounts)-short:] {
			sum += amount
		}
		if sum > most.At(i) {
			return false
		}
	}
	return true
}
