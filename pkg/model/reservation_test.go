package model

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestWhoMayUseReservedRoom: the job itself, jobs of higher priority, and jobs that end before its expected start. Nominated
// capacity may be used by no other job.
func TestWhoMayUseReservedRoom(t *testing.T) {
	owner := &Job{Key: JobKey{Name: "owner"}, Priority: 5}
	at := time.Unix(100, 0)
	for name, c := range map[string]struct {
		viewer   Viewpoint
		expected time.Time
		promised bool
		free     bool
	}{
		"the owner":                      {Viewpoint{Job: owner.Key, Priority: 5}, at, false, true},
		"of equal priority":              {Viewpoint{Priority: 5}, at, false, false},
		"of lower priority":              {Viewpoint{Priority: 4}, at, false, false},
		"of higher priority":             {Viewpoint{Priority: 6}, at, false, true},
		"gone in time":                   {Viewpoint{Priority: 5, EndsBefore: 100}, at, false, true},
		"gone too late":                  {Viewpoint{Priority: 5, EndsBefore: 101}, at, false, false},
		"ends in time, start not known":  {Viewpoint{Priority: 5, EndsBefore: 1}, time.Time{}, false, false},
		"who only looks":                 {Viewpoint{Priority: 5, EndsBefore: UnrestrictedViewpoint}, at, false, true},
		"no viewpoint, start not known":  {Viewpoint{Priority: 5, EndsBefore: UnrestrictedViewpoint}, time.Time{}, false, true},
		"gone in time, but promised":     {Viewpoint{Priority: 5, EndsBefore: 100}, at, true, false},
		"who only looks at what another": {Viewpoint{Priority: 5, EndsBefore: UnrestrictedViewpoint}, at, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Snapshot{Dimensions: NewDimensions()}
			s.SetNodes([]*Node{{Name: "n", idle: Resources{4}, allocatable: Resources{4}}})
			s.SetViewpoint(c.viewer)
			if c.promised {
				s.SetHeld([]HeldCapacity{{Job: owner.Key, Priority: 5, Node: "n", Pod: PodRef{UID: "p"}, Request: Resources{4}, LentUntil: 100}})
			} else {
				s.Reserve(owner, &Reservation{Nodes: []ReservedNode{{Node: "n", Request: Resources{4}}}, ExpectedStart: c.expected})
			}
			if free := s.Nodes[0].Free(Idle).Fits(Resources{4}); free != c.free {
				t.Errorf("the capacity is free: %t", free)
			}
		})
	}
}

// TestEndsOfHolds: nominated and reserved capacity of a job are released separately.
func TestEndsOfHolds(t *testing.T) {
	owner := &Job{Key: JobKey{Name: "owner"}}
	fresh := func() *Snapshot {
		s := &Snapshot{Dimensions: NewDimensions()}
		s.SetNodes([]*Node{{Name: "n"}})
		s.SetHeld([]HeldCapacity{
			{Job: owner.Key, Node: "n", Pod: PodRef{UID: "p"}, Request: Resources{1}},
			{Job: JobKey{Name: "q"}, Node: "n", Request: Resources{2}},
		})
		s.Reserve(owner, &Reservation{Nodes: []ReservedNode{{Node: "n", Request: Resources{4}}}})
		return s
	}
	for name, c := range map[string]struct {
		end  func(*Snapshot)
		kept int64
	}{
		"none":                 {func(*Snapshot) {}, 7},
		"all of the job":       {func(s *Snapshot) { s.ReleaseHeld(owner.Key) }, 2},
		"what it was promised": {func(s *Snapshot) { s.ReleaseNominated(owner.Key) }, 6},
		"what is reserved":     {func(s *Snapshot) { s.Reserve(owner, &Reservation{}) }, 3},
		"other capacity": {func(s *Snapshot) {
			s.Reserve(owner, &Reservation{Nodes: []ReservedNode{{Node: "n", Request: Resources{8}}}})
		}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh()
			c.end(s)
			if kept := s.Nodes[0].reserved.At(0); kept != c.kept {
				t.Errorf("%d is kept, want %d", kept, c.kept)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestListIsTheInverseOfVector(t *testing.T) {
	d := NewDimensions()
	list := corev1.ResourceList{
		"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("3Gi"), "pods": resource.MustParse("2"),
		"nvidia.com/gpu": resource.MustParse("8"), "hugepages-2Mi": resource.MustParse("4Mi"),
	}
	vector, _, _ := d.Vector(list)
	if back := d.List(vector); !equality.Semantic.DeepEqual(back, list) {
		t.Errorf("%v became %v", list, back)
	}
}

func TestReservationInWords(t *testing.T) {
	at := time.Date(2026, time.January, 5, 9, 10, 0, 0, time.FixedZone("east", 3600))
	r := &Reservation{Since: at}
	for i := range 5 {
		r.Nodes = append(r.Nodes, ReservedNode{Node: string(rune('a' + i))})
	}
	if got := r.NodeNames() + " " + r.Describe(); got != "a, b, c, d, e since 2026-01-05T08:10:00Z, expected start unknown" {
		t.Error(got)
	}
	r.Nodes, r.ExpectedStart = append(r.Nodes, ReservedNode{Node: "f"}), at.Add(time.Minute)
	if got := r.NodeNames() + " " + r.Describe(); got != "a, b, c, d and 2 more since 2026-01-05T08:10:00Z, expected start 2026-01-05T08:11:00Z" {
		t.Error(got)
	}
}
