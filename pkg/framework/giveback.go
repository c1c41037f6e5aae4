package framework

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// GiveBack ends what was promised to a job in earlier cycles: its room is there for everybody at once.
func (s *Session) GiveBack(job *model.Job) {
	decision := model.Decision{Job: job.Key}
	for _, task := range job.Tasks {
		if task.Nominated != "" {
			decision.Promises = append(decision.Promises, model.Promise{Pod: task.PodRef})
		}
	}
	s.Snapshot.DropPromised(job.Key)
	if len(decision.Promises) > 0 && s.options.Decide != nil {
		s.options.Decide(decision)
	}
}
