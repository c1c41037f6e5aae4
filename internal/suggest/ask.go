package suggest

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// OpenSession opens a session for questions about a snapshot between two cycles, and leaves everything as it was: what
// sessions remember holds as before. The options' receivers of decisions are not called. A panic of a plugin goes through;
// the live state then puts the snapshot right when it brings it up to date.
func OpenSession(snapshot *model.Snapshot, profile *framework.Profile, options framework.Options, body func(*framework.Session)) {
	options.Decide, options.Wake, options.OnPanic = nil, nil, nil
	snapshot.AssignIndexes()
	revision, viewer, ahead := snapshot.Journal.Revision(), snapshot.Viewpoint(), snapshot.ExcludesTerminating()
	session := framework.Open(snapshot, profile, options)
	body(session)
	session.Close()
	snapshot.SetViewpoint(viewer)
	snapshot.ExcludeTerminating(ahead)
	snapshot.Journal.Rewind(revision)
}
