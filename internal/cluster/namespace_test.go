package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func labelled(version, team string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: types.UID("ns"), ResourceVersion: version}}
	if team != "" {
		n.Labels = map[string]string{"team": team}
	}
	return n
}

// A plugin that remembers an answer must learn that a term may choose another namespace now. No plugin needs to learn of
// anything else about a namespace.
func TestLabelsOfNamespacesShowInTheSnapshot(t *testing.T) {
	s, now := newState(node("n")), time.Unix(1000, 0)
	for _, step := range []struct {
		name  string
		event Event
		news  bool
		team  string
		gone  bool
	}{
		{name: "it is made", event: seen(labelled("1", "")), news: true},
		{name: "it is labelled", event: seen(labelled("2", "a")), news: true, team: "a"},
		{name: "it is seen again", event: seen(labelled("2", "a")), team: "a"},
		{name: "something else changes", event: seen(labelled("3", "a")), team: "a"},
		{name: "a late event", event: seen(labelled("1", "")), team: "a"},
		{name: "it is labelled restarted", event: seen(labelled("4", "b")), news: true, team: "b"},
		{name: "it is gone", event: gone(labelled("5", "b")), news: true, gone: true},
	} {
		before := s.Snapshot(now)
		version, revision, fixed := before.Version, before.Journal.Revision(), before.Journal.FixedRevision()
		effect := s.Apply(step.event)
		after := s.Snapshot(now)
		revised, refixed := after.Journal.Revision() != revision, after.Journal.FixedRevision() != fixed
		news := effect.Schedule && after.Version != version && revised && refixed
		silent := !effect.Schedule && after.Version == version && !revised && !refixed
		if news != step.news || silent == step.news {
			t.Errorf("%s: effect %+v, version %d after %d; want news: %v", step.name, effect, after.Version, version, step.news)
		}
		if labels, exists := s.NamespaceLabels("ns"); labels["team"] != step.team || exists == step.gone {
			t.Errorf("%s: labels %v, exists %v", step.name, labels, exists)
		}
	}
}
