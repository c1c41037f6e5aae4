package backfill

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestAReservationIsWithinTheLimitsOfTheStatus: resources that no member requests do not count.
func TestAReservationIsWithinTheLimitsOfTheStatus(t *testing.T) {
	of := func(dimensions, resources int) *model.Reservation {
		request := make(model.Resources, dimensions)
		for i := range resources {
			request[i] = 1
		}
		return &model.Reservation{Nodes: []model.ReservedNode{{Node: "n", Members: 1, Request: request}}}
	}
	if isTooLong(of(100, 64)) {
		t.Error("64 resources are too many")
	}
	if !isTooLong(of(100, 65)) {
		t.Error("65 resources are not too many, and the API server refuses the status")
	}
}
