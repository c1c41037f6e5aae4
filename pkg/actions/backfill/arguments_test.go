package backfill_test

import (
	"strings"
	"testing"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/actions/backfill"
)

func TestArguments(t *testing.T) {
	for text, good := range map[string]bool{
		"reserveAfter=10m": true, "reserveAfter=0": true, "reserveAfter=never": true, "reserveAfter=-1s": false,
		"reserveAfter=soon": false, "reserveAfter=10": false, "reservations=0": true, "reservations=-1": false,
		"budget=0": false, "budget=5": true, "reserveafter=1m": false,
	} {
		name, value, _ := strings.Cut(text, "=")
		reader := config.NewArguments("action backfill", map[string]string{name: value}).Reader()
		backfill.New(reader)
		if err := reader.Finish(); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
