package remedy

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Ask opens a session for questions about a snapshot between two cycles, and leaves everything as it was: what sessions remember
// holds as before. The options' receivers of decisions are not called. A panic of a plugin goes through; the live state then puts
// the snapshot right when it brings it up to date.
func Ask(snapshot *model.Snapshot, profile *framework.Profile, options framework.Options, body func(*framework.Session)) {
	options.Decide, options.Wake, options.OnPanic = nil, nil, nil
	snapshot.Number()
	revision, viewer, ahead := snapshot.Journal.Revision(), snapshot.Viewer(), snapshot.LooksAhead()
	session := framework.Open(snapshot, profile, options)
	body(session)
	session.Close()
	snapshot.See(viewer)
	snapshot.LookAhead(ahead)
	snapshot.Journal.Rewind(revision)
}
