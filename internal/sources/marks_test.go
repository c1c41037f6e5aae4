package sources

import (
	"testing"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestMarksOfTheTopologyHaveOneName: what the engine writes and reads is what the API describes.
func TestMarksOfTheTopologyHaveOneName(t *testing.T) {
	for engine, api := range map[string]string{
		model.LabelIndex: v1alpha1.LabelIndex, model.AnnotationDomain: v1alpha1.AnnotationDomain, model.AnnotationSlice: v1alpha1.AnnotationSlice,
	} {
		if engine != api {
			t.Errorf("the engine has %q, the API %q", engine, api)
		}
	}
}
