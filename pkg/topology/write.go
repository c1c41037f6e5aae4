package topology

import (
	"encoding/binary"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file encodes terms, so that equal terms have equal text. Every list and every string is preceded by its length, so
// that different terms never have the same text. It runs for every pod with terms that is added or removed.

func writeAffinity(b []byte, affinity *corev1.Affinity) []byte {
	for _, with := range []bool{true, false} {
		var required []corev1.PodAffinityTerm
		var preferred []corev1.WeightedPodAffinityTerm
		switch {
		case with && affinity.PodAffinity != nil:
			required = affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			preferred = affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		case !with && affinity.PodAntiAffinity != nil:
			required = affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			preferred = affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		}
		b = writeNumber(b, len(required))
		for i := range required {
			b = writeTerm(b, &required[i])
		}
		b = writeNumber(b, len(preferred))
		for i := range preferred {
			b = writeNumber(b, int(preferred[i].Weight))
			b = writeTerm(b, &preferred[i].PodAffinityTerm)
		}
	}
	return b
}

func writeTerm(b []byte, term *corev1.PodAffinityTerm) []byte {
	b = writeWords(writeWord(b, term.TopologyKey), term.Namespaces)
	return writeSelector(writeSelector(b, term.LabelSelector), term.NamespaceSelector)
}

func writeSelector(b []byte, selector *metav1.LabelSelector) []byte {
	if selector == nil {
		return append(b, 0)
	}
	b = writeNumber(append(b, 1), len(selector.MatchLabels))
	if len(selector.MatchLabels) == 1 {
		for name, value := range selector.MatchLabels {
			b = writeWord(writeWord(b, name), value)
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
			b = writeWord(writeWord(b, name), selector.MatchLabels[name])
		}
	}
	b = writeNumber(b, len(selector.MatchExpressions))
	for i := range selector.MatchExpressions {
		e := &selector.MatchExpressions[i]
		b = writeWords(writeWord(writeWord(b, e.Key), string(e.Operator)), e.Values)
	}
	return b
}

func writeWords(b []byte, words []string) []byte {
	b = writeNumber(b, len(words))
	for _, word := range words {
		b = writeWord(b, word)
	}
	return b
}

func writeWord(b []byte, word string) []byte { return append(writeNumber(b, len(word)), word...) }

func writeNumber(b []byte, n int) []byte { return binary.AppendVarint(b, int64(n)) }
