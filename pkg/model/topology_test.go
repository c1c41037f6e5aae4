package model

import "testing"

func TestLevelsOfLabels(t *testing.T) {
	for key, level := range map[string]string{"rack": "label:rack", "example.com/rack": "example.com/rack", "host": "label:host"} {
		if got := LabelLevel(key); got != level {
			t.Errorf("the level of label %s is %s, want %s", key, got, level)
		}
		if got, ok := LevelLabel(level); got != key || !ok {
			t.Errorf("the label of level %s is %s (%v), want %s", level, got, ok, key)
		}
	}
	if _, ok := LevelLabel("rack"); ok {
		t.Error("the level rack is a label")
	}
	if got, ok := LevelLabel("label:example.com/rack"); got != "example.com/rack" || !ok {
		t.Errorf("%s, %v", got, ok)
	}
}
