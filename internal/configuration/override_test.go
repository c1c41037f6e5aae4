package configuration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// withOverride is a source with a second ConfigMap.
var withOverride = Source{Namespace: "tutti-system", Name: "tutti-scheduler", Key: DefaultKey, Override: "tutti-scheduler-override"}

// override is the second ConfigMap with these keys and values.
func override(pairs ...string) *corev1.ConfigMap {
	object := configMap("")
	object.Name, object.UID, object.Data = withOverride.Override, "w", map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		object.Data[pairs[i]] = pairs[i+1]
	}
	return object
}

// startOverridden starts a Watcher, and takes what its watches say first.
func startOverridden(t *testing.T, objects ...*corev1.ConfigMap) *stand {
	t.Helper()
	s := newStand(t, withOverride, clock.RealClock{}, offline(t), objects...)
	if _, err := s.live.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.run()
	for range objects {
		if s.next() != nil {
			t.Error("the version that is active is swapped for itself")
		}
	}
	return s
}

// TestAnOverrideReplacesTheText: what the second ConfigMap has under the key is used, whichever of the two is written later, and
// the first one again when the key, or the object, goes.
func TestAnOverrideReplacesTheText(t *testing.T) {
	s := startOverridden(t, configMap(withGang), override())
	s.wants(withGang, "1", "")

	s.write("update", override(DefaultKey, withoutGang))
	if profile := s.next(); profile == nil || len(profile.Actions) != 2 {
		t.Fatalf("the override's profile: %v", profile)
	}
	s.wants(withoutGang, "3", "")

	s.write("update", configMap("# another default\n"+withGang))
	if s.next() != nil {
		t.Error("a default that is overridden decides")
	}
	s.wants(withoutGang, "3", "")

	s.write("update", override(DefaultKey, broken))
	if s.next() != nil {
		t.Error("a broken version has a profile")
	}
	s.wants(withoutGang, "3", "tutti-system/tutti-scheduler-override/scheduler.yaml:1: unknown action \"alocate\"; did you mean \"allocate\"?\n"+
		"tutti-system/tutti-scheduler-override/scheduler.yaml:4: unknown plugin \"gnag\"; did you mean \"gang\"?")

	s.write("update", override())
	if profile := s.next(); profile == nil || len(profile.Actions) != 1 {
		t.Fatalf("the default's profile: %v", profile)
	}
	s.wants("# another default\n"+withGang, "4", "")

	s.write("update", override(DefaultKey, withoutGang))
	s.next()
	s.write("delete", configMap("")) // the text does not come from it
	if s.next() != nil {
		t.Error("a default that is overridden decides")
	}
	s.wants(withoutGang, "7", "")
	s.write("create", configMap(withGang))
	s.next()
	s.write("delete", override())
	if profile := s.next(); profile == nil || len(profile.Actions) != 1 {
		t.Fatalf("the default's profile: %v", profile)
	}
	s.wants(withGang, "9", "")
}

// TestAnOverrideDecidesFromTheStart: a process that starts reads both objects before its first cycle.
func TestAnOverrideDecidesFromTheStart(t *testing.T) {
	s := startOverridden(t, configMap(withGang), override(DefaultKey, withoutGang, PauseKey, "true"))
	s.wants(withoutGang, "2", "")
	if paused := s.live.Report().Paused; paused == "" {
		t.Error("it is not paused")
	}
}

// TestPauseIsKeptBesideTheText: it is live with each text, also with a refused one, and changes no text.
func TestPauseIsKeptBesideTheText(t *testing.T) {
	s := startOverridden(t, configMap(withGang), override())
	paused := func(what string, want bool, swapped bool) {
		t.Helper()
		profile := s.next()
		if (profile != nil) != swapped || profile != nil && (profile.Paused != "") != want || (s.live.Report().Paused != "") != want {
			t.Errorf("%s: profile %+v, report %+v", what, profile, s.live.Report())
		}
	}
	s.write("update", override(PauseKey, "true"))
	paused("paused", true, true)
	if why := s.live.Report().Paused; why != "ConfigMap tutti-system/tutti-scheduler-override says pause: true" {
		t.Errorf("reason %q", why)
	}
	s.write("update", override(PauseKey, "true", "note", "by hand"))
	paused("another key", true, false)
	s.write("update", configMap(withoutGang))
	paused("another text while it is paused", true, true)
	s.write("update", configMap(broken))
	paused("a refused text while it is paused", true, false)
	s.write("update", override(PauseKey, "false"))
	paused("resumed while a text is refused", false, true)
	s.write("update", override(PauseKey, "yes"))
	paused("any other word pauses", true, true)
	s.write("delete", override())
	paused("the object is deleted", false, true)
	s.wants(withoutGang, "5", inTheMap+":1: unknown action \"alocate\"; did you mean \"allocate\"?\n"+
		inTheMap+":4: unknown plugin \"gnag\"; did you mean \"gang\"?")
}

// TestPauseOfAnotherProcess: a process that starts with the last good version is paused as well.
func TestPauseOfAnotherProcess(t *testing.T) {
	good := configMap(withGang)
	good.Name = "tutti-scheduler-last-good"
	s := newStand(t, withOverride, clock.RealClock{}, offline(t), configMap(broken), override(PauseKey, "true"), good)
	profile, err := s.live.Start(t.Context())
	if err != nil || profile.Paused == "" || !s.live.Report().LastGood {
		t.Errorf("profile %+v: %v; report %+v", profile, err, s.live.Report())
	}
	if !strings.Contains(profile.Explain(), "paused") {
		t.Errorf("the table does not say that it is paused:\n%s", profile.Explain())
	}
}
