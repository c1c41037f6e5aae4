package engine

import "github.com/tutti-sched/tutti/pkg/model"

// idleResult is what a session came to that decided nothing. The same snapshot leads to the same decisions, so that the next
// session need not look for them: a large backlog of jobs that cannot start costs nothing until something changes.
type idleResult struct {
	snapshot *model.Snapshot
	version  uint64
	result   Result
}

// idleResultFor returns what the last session came to if a session on this snapshot would come to the same, else nil. That is
// unknown of a snapshot without a version.
func (c *Cache) idleResultFor(snapshot *model.Snapshot, profile *Profile) *Result {
	if c == nil || c.rest == nil || c.profile != profile || c.rest.snapshot != snapshot || c.rest.version != snapshot.Version ||
		snapshot.HasBackoff() || !holds(c.rest.result.Until, snapshot.Now) {
		return nil
	}
	return &c.rest.result
}

// recordIdle returns what the session came to, nil when the next one may come to something else although nothing changes:
// because of what this one decided, of what is held back for a while, or of objects that are in no snapshot, which may decide
// about tasks that ask for volumes or devices.
func (s *Session) recordIdle(result Result) *idleResult {
	if s.decisions.any || s.grounds.reach == ForNow || s.Snapshot.Version == 0 || s.Snapshot.HasBackoff() {
		return nil
	}
	return &idleResult{snapshot: s.Snapshot, version: s.Snapshot.Version, result: result}
}
