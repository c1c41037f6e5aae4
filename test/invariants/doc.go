// Package invariants holds what the checkers of stories, of the simulation and of the lab have in common: what a pod asks
// for, what a node has left, where a pod may be, and what a gang lacks. It counts from the objects alone, never from the
// scheduler's accounting, and takes no code from the scheduler, so that a checker does not repeat a mistake of the scheduler.
package invariants
