package engine

import (
	"testing"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// verdictWorld is a snapshot of two nodes with four jobs that wait: two alike, one of the same shape that needs more, and one
// of several shapes.
type verdictWorld struct {
	snapshot                   *model.Snapshot
	one, twin, larger, several *model.Job
	cache                      Cache
	profile                    *Profile
}

func newVerdictWorld() *verdictWorld {
	w := &verdictWorld{snapshot: house(4, 4), profile: profileOf(named("none"))}
	w.snapshot.Version, w.snapshot.Now = 1, time.Unix(1000, 0)
	request := model.Resources{3, 0, 0, 0}
	w.larger = join(w.snapshot, "larger", 5, 5, request)
	w.one, w.several, w.twin = join(w.snapshot, "one", 3, 3, request), join(w.snapshot, "several", 3, 3, request), join(w.snapshot, "twin", 3, 3, request)
	w.several.Roles = []model.Role{{Name: "head", MinMember: 1}}
	for _, job := range w.snapshot.Jobs {
		job.Version = 1
		for _, task := range job.Tasks {
			task.Shape = unique.Make("three")
		}
		job.Class = model.ClassOf(job, func(*model.Task) bool { return false })
	}
	return w
}

func (w *verdictWorld) open() *Session {
	return Open(w.snapshot, w.profile, Options{Cache: &w.cache, Verify: true})
}

// asks returns whether the session has to look for an answer about the job.
func asks(s *Session, question Question, job *model.Job, refusal *model.Refusal, reach Reach) (found bool) {
	return asksAs(s.Ask(job, model.Idle), question, refusal, reach)
}

func asksAs(ask Ask, question Question, refusal *model.Refusal, reach Reach) (found bool) {
	question.Class = ask.Job.Class
	ask.Remember(question, func(Ask) (*model.Refusal, Reach) {
		found = true
		return refusal, reach
	})
	return found
}

var test = Question{Action: "test"}

// TestVerdict_untilTimeEndsIt: the time that was named while it was found is kept with it, and named again where it is given from
// memory.
func TestVerdict_untilTimeEndsIt(t *testing.T) {
	w := newVerdictWorld()
	found := 0
	ask := func(seconds int64) time.Time {
		w.snapshot.Now = time.Unix(1000+seconds, 0)
		s := w.open()
		s.Ask(w.one, model.Idle).Remember(test, func(Ask) (*model.Refusal, Reach) {
			found++
			s.Until(time.Unix(1002, 0))
			return &model.Refusal{Needs: 3}, ForClass
		})
		return s.grounds.until
	}
	for seconds, want := range []int{1, 1, 2} {
		if until := ask(int64(seconds)); found != want || seconds < 2 && until.Unix() != 1002 {
			t.Errorf("after %d s it was looked for %d times, want %d; it holds until %s", seconds, found, want, until)
		}
	}
}

func TestVerdict_reachesWhomItMay(t *testing.T) {
	byFit := Question{Action: "test", ByFit: true}
	for _, c := range []struct {
		name                              string
		question                          Question
		reach                             Reach
		refusal                           *model.Refusal
		itself, twin, larger, several, by bool // whether another look is needed; by: for who needs fewer
	}{
		{name: "of the class", question: test, refusal: &model.Refusal{Needs: 3, Has: 1}, several: true, by: true},
		{name: "of all that need more than fit", question: byFit, refusal: &model.Refusal{Needs: 3, Has: 1}, several: true},
		{name: "of none that need what fits", question: byFit, refusal: &model.Refusal{Needs: 3, Has: 2}, several: true, by: true},
		{name: "of the job alone", question: test, reach: ForJob, refusal: &model.Refusal{Needs: 3}, twin: true, larger: true, several: true, by: true},
		{
			name: "of more than the snapshot", question: test, reach: ForNow, refusal: &model.Refusal{Needs: 3},
			itself: true, twin: true, larger: true, several: true, by: true,
		},
		{
			name: "of one that holds for a while", question: test, refusal: &model.Refusal{Needs: 3, Until: time.Unix(1001, 0)},
			twin: true, larger: true, several: true, by: true,
		},
		{
			name: "of one that holds in no other session", question: test, refusal: &model.Refusal{Needs: 3, Until: time.Unix(1000, 0)},
			itself: true, twin: true, larger: true, several: true, by: true,
		},
		{name: "of one that agrees", question: test, larger: true, several: true},
		{name: "of one that agrees, alone", question: test, reach: ForJob, twin: true, larger: true, several: true, by: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, other := range []struct {
				name string
				job  func(*verdictWorld) *model.Job
				want bool
			}{
				{"itself", func(w *verdictWorld) *model.Job { return w.one }, c.itself},
				{"its twin", func(w *verdictWorld) *model.Job { return w.twin }, c.twin},
				{"a larger one", func(w *verdictWorld) *model.Job { return w.larger }, c.larger},
				{"one with roles", func(w *verdictWorld) *model.Job { return w.several }, c.several},
				{"one that needs fewer", func(w *verdictWorld) *model.Job {
					w.twin.MinMember, w.twin.Class.MinMember = 2, 2
					return w.twin
				}, c.by},
				{"itself, changed", func(w *verdictWorld) *model.Job {
					w.one.Version++
					return w.one
				}, c.twin},
			} {
				w := newVerdictWorld()
				asks(w.open(), c.question, w.one, c.refusal, c.reach)
				if got := asks(w.open(), c.question, other.job(w), c.refusal, ForClass); got != other.want {
					t.Errorf("%s is looked at again: %t", other.name, got)
				}
			}
		})
	}
}

func TestVerdict_isInTheNumbersOfTheJob(t *testing.T) {
	w := newVerdictWorld()
	asks(w.open(), test, w.one, &model.Refusal{Needs: 3, Has: 1}, ForClass)
	question := test
	question.Class = w.larger.Class
	got := w.open().Ask(w.larger, model.Idle).Remember(question, func(Ask) (*model.Refusal, Reach) { return nil, ForClass })
	if got == nil || got.Needs != 5 || got.Has != 1 {
		t.Errorf("%+v, want needs 5, has 1", got)
	}
}

func TestVerdict_holdsUntilSomethingChanges(t *testing.T) {
	place := func(s *Session, keep bool) {
		s.Try(func(statement *Statement) *model.Refusal {
			if refusal := statement.allocate(s.Snapshot.Job(model.JobKey{Namespace: "default", Name: "several"}).Tasks[0], s.Snapshot.Nodes[0]); refusal != nil {
				return refusal
			}
			if keep {
				return nil
			}
			return no("Changed")
		})
	}
	for _, c := range []struct {
		name     string
		change   func(*verdictWorld, *Session)
		as       Supposed
		question Question
		again    bool
	}{
		{name: "nothing", change: func(*verdictWorld, *Session) {}},
		{name: "another question", question: Question{Action: "other"}, change: func(*verdictWorld, *Session) {}, again: true},
		{name: "a start", change: func(_ *verdictWorld, s *Session) { place(s, true) }, again: true},
		{name: "a start that is taken back", change: func(_ *verdictWorld, s *Session) { place(s, false) }},
		{name: "a node", change: func(w *verdictWorld, _ *Session) { w.snapshot.NodeChanged(w.snapshot.Nodes[0]) }, again: true},
		{name: "labels of a namespace", change: func(w *verdictWorld, _ *Session) { w.snapshot.Journal.NamespaceRelabelled() }, again: true},
		{name: "capacity held for a third", change: func(w *verdictWorld, _ *Session) {
			w.snapshot.SetHeld([]model.HeldCapacity{{Job: w.several.Key, Node: "n0", Request: model.Resources{1}}})
		}, again: true},
		{name: "a member that could not be bound", change: func(w *verdictWorld, _ *Session) {
			w.snapshot.BindBackoff = map[types.UID]*model.Refusal{w.one.Tasks[0].UID: {}}
		}, again: true},
		{name: "what may be borrowed", change: func(w *verdictWorld, s *Session) {
			w.snapshot.SetHeld([]model.HeldCapacity{{Job: w.several.Key, Node: "n0", Request: model.Resources{1}, LentUntil: 9}})
			asks(s, test, w.one, no("Changed"), ForClass)
		}, as: Supposed{GoneBy: 5}, again: true},
		{name: "a pod of a job, where those are gone", question: Question{Action: "test", Emptied: true}, change: func(w *verdictWorld, s *Session) {
			asks(s, Question{Action: "test", Emptied: true}, w.one, no("Changed"), ForClass)
			place(s, true)
		}},
		{name: "a node, where pods of jobs are gone", question: Question{Action: "test", Emptied: true}, change: func(w *verdictWorld, s *Session) {
			asks(s, Question{Action: "test", Emptied: true}, w.one, no("Changed"), ForClass)
			w.snapshot.NodeChanged(w.snapshot.Nodes[0])
		}, again: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newVerdictWorld()
			session := w.open()
			asks(session, test, w.one, no("Changed"), ForClass)
			c.change(w, session)
			question := c.question
			if question.Action == "" {
				question = test
			}
			ask := session.Ask(w.one, model.Idle).Supposing(c.as)
			if got := asksAs(ask, question, no("Changed"), ForClass); got != c.again {
				t.Errorf("looked at again: %t", got)
			}
		})
	}
}

// TestVerdict_isNotKeptOfWhatIsSupposed: what is found inside a statement, or together with a decision, says nothing about
// later.
func TestVerdict_isNotKeptOfWhatIsSupposed(t *testing.T) {
	w := newVerdictWorld()
	session := w.open()
	session.Try(func(*Statement) *model.Refusal {
		asks(session, test, w.one, no("Changed"), ForClass)
		return no("Changed")
	})
	if !asks(session, test, w.one, no("Changed"), ForClass) {
		t.Error("kept from within a statement")
	}
	other := Question{Action: "other", Class: w.one.Class}
	session.Ask(w.one, model.Idle).Remember(other, func(Ask) (*model.Refusal, Reach) {
		session.Try(func(statement *Statement) *model.Refusal {
			return statement.allocate(w.twin.Tasks[0], w.snapshot.Nodes[0])
		})
		return no("Changed"), ForClass
	})
	if !asks(session, other, w.one, no("Changed"), ForClass) {
		t.Error("kept although something was decided with it")
	}
}

func TestClassOf(t *testing.T) {
	usual, shape := unique.Make("usual"), unique.Make("other")
	class := func(change func(*model.Job)) model.Class {
		job := join(house(1), "job", 2, 3, model.Resources{1})
		for _, task := range job.Tasks {
			task.Shape = usual
		}
		change(job)
		return model.ClassOf(job, func(task *model.Task) bool { return task.Name == "terms" })
	}
	roles := func(job *model.Job) { job.Roles = []model.Role{{Name: "head", MinMember: 1}} }
	plain := class(func(*model.Job) {})
	for _, c := range []struct {
		name    string
		change  func(*model.Job)
		as      model.Class
		differs bool
		none    bool
	}{
		{name: "another name", change: func(job *model.Job) { job.Key.Name = "x" }, as: plain},
		{name: "more members of the shape", change: func(job *model.Job) { job.Tasks = append(job.Tasks, job.Tasks[0]) }, as: plain},
		{name: "terms of uniform members", change: func(job *model.Job) { job.Tasks[1].Name = "terms" }, as: plain, differs: true},
		{name: "another minimum", change: func(job *model.Job) { job.MinMember = 1 }, as: plain, differs: true},
		{name: "another priority", change: func(job *model.Job) { job.Priority = 1 }, as: plain, differs: true},
		{name: "it never preempts", change: func(job *model.Job) { job.NeverPreempts = true }, as: plain, differs: true},
		{name: "another shape", change: func(job *model.Job) { job.Tasks[1].Shape = shape }, as: plain, differs: true},
		{name: "a role", change: func(job *model.Job) { job.Tasks[1].Role = "head" }, as: plain, differs: true},
		{name: "a minimum of a role", change: roles, as: plain, differs: true},
		{name: "roles alike", change: roles, as: class(roles)},
		{name: "roles in another order", change: func(job *model.Job) {
			roles(job)
			job.Tasks[2].Role = "head"
		}, as: class(func(job *model.Job) {
			roles(job)
			job.Tasks[0].Role = "head"
		}), differs: true},
		{name: "a member that runs", change: func(job *model.Job) { job.Tasks[0].Status = model.Running }, none: true},
		{name: "a gated member", change: func(job *model.Job) { job.Tasks[0].SchedulingGated = true }, none: true},
		{name: "no members", change: func(job *model.Job) { job.Tasks = nil }, none: true},
		{name: "terms of members that differ", change: func(job *model.Job) {
			roles(job)
			job.Tasks[1].Name = "terms"
		}, none: true},
	} {
		got := class(c.change)
		if c.none != (got == model.Class{}) || !c.none && c.differs == (got == c.as) {
			t.Errorf("%s: class %+v, compared with %+v", c.name, got, c.as)
		}
	}
}
