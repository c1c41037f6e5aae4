package model

import "testing"

func TestHasBegun(t *testing.T) {
	key := JobKey{Namespace: "default", Name: "g"}
	for name, c := range map[string]struct {
		begun   Minima
		minimum int32
		roles   []Role
		waiting []Resources
		want    bool
	}{
		"as decided":                        {Minima{MinMember: 2, Requests: Resources{4}}, 2, nil, []Resources{{2}}, true},
		"nothing is known of its requests":  {Minima{MinMember: 2}, 2, nil, []Resources{{9}}, true},
		"no start":                          {Minima{}, 2, nil, []Resources{{2}}, false},
		"raised since another began it":     {Minima{MinMember: 2}, 3, nil, []Resources{{1}, {1}}, false},
		"larger":                            {Minima{MinMember: 2, Requests: Resources{4}}, 2, nil, []Resources{{3}}, false},
		"of another resource":               {Minima{MinMember: 2, Requests: Resources{4}}, 2, nil, []Resources{{1, 1}}, false},
		"the largest that wait count":       {Minima{MinMember: 2, Requests: Resources{4}}, 2, nil, []Resources{{1}, {3}}, false},
		"as many as are missing count":      {Minima{MinMember: 2, Requests: Resources{4}}, 2, nil, []Resources{{2}, {2}}, true},
		"of a gang with roles all count":    {Minima{MinMember: 2, Requests: Resources{4}}, 2, []Role{{Name: "a", MinMember: 1}}, []Resources{{2}, {1}}, false},
		"it has its minimum":                {Minima{MinMember: 1, Requests: Resources{2}}, 1, nil, []Resources{{2}}, false},
		"fewer wait than are missing there": {Minima{MinMember: 4, Requests: Resources{8}}, 4, nil, []Resources{{2}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			job := &Job{Key: key, Need: Need{MinMember: c.minimum, Roles: c.roles}, Tasks: []*Task{{Placement: Placement{Status: Bound}, Request: Resources{2}}}}
			for _, request := range c.waiting {
				job.Tasks = append(job.Tasks, &Task{Request: request})
			}
			snapshot := &Snapshot{Begun: map[JobKey]Minima{key: c.begun}}
			if got := snapshot.HasBegun(job); got != c.want {
				t.Errorf("begun %t, want %t", got, c.want)
			}
		})
	}
}
