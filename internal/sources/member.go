package sources

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file reads what pods say of their place in their group. Nothing reads it from a pod a second time.

// Members reads what pods say, and lets those that say the same share it. The zero Members are ready.
type Members struct {
	known map[model.Member]*model.Member
	said  map[[sha256.Size]byte]*model.SaidTopology
	// read is what is being read, so that a pod that says nothing new costs no memory.
	read model.Member
}

// maxShared is how many values are kept to be shared; then it is begun again. What is written in more than maxSharedText bytes is
// not kept to be shared: it goes with its pod. So at most some 10 MB are kept of pods that are gone.
const (
	maxShared     = 10_000
	maxSharedText = 1000
)

// Of returns what a pod says of its place in its group; nil when it says nothing.
func (m *Members) Of(pod *corev1.Pod) *model.Member {
	m.read = model.Member{Queue: pod.Labels[v1alpha1.LabelQueue], Topology: m.topology(pod)}
	for _, source := range all {
		if source.member != nil {
			source.member(pod, &m.read)
		}
	}
	readUnfollowed(pod, &m.read)
	if text, is := pod.Labels[model.LabelIndex]; is && readIndex(text) == 0 {
		m.read.WrongIndex = model.Brief(text, maxQuotedIndex)
	}
	if m.read == (model.Member{}) {
		return nil
	}
	if topology := m.read.Topology; topology != nil && m.said[topology.Key] != topology {
		own := m.read
		return &own
	}
	if known := m.known[m.read]; known != nil {
		return known
	}
	if m.known == nil || len(m.known) >= maxShared {
		m.known = map[model.Member]*model.Member{}
	}
	said := m.read
	m.known[said] = &said
	return &said
}

// topology reads which members share a domain; nil when the pod says nothing of that.
func (m *Members) topology(pod *corev1.Pod) *model.SaidTopology {
	if len(pod.Annotations) == 0 {
		return nil
	}
	var said *model.SaidTopology
	var sum hash.Hash
	size := 0
	for i := range dialects {
		by := dialects[i].saidBy(pod)
		if by.Written == nil {
			continue
		}
		if said == nil {
			said, sum = &model.SaidTopology{By: make([]model.SaidBy, len(dialects))}, sha256.New()
		}
		for _, key := range dialects[i].annotations {
			if value, ok := by.Written[key]; ok {
				fmt.Fprintf(sum, "%s %d %s", key, len(value), value)
				size += len(value)
			}
		}
		said.By[i] = by
	}
	if said == nil {
		return nil
	}
	sum.Sum(said.Key[:0])
	if known := m.said[said.Key]; known != nil {
		return known
	}
	for i := range said.By {
		if by := &said.By[i]; by.Written != nil {
			by.Constraints, by.Problem = dialects[i].read(by.Written)
		}
	}
	if size > maxSharedText {
		return said
	}
	if m.said == nil || len(m.said) >= maxShared {
		m.said = map[[sha256.Size]byte]*model.SaidTopology{}
	}
	m.said[said.Key] = said
	return said
}

// otherIndexes are the labels with which controllers number their pods: those of sources, and StatefulSet.
var otherIndexes = append(indexesOf(all), statefulIndex)

const statefulIndex = "apps.kubernetes.io/pod-index"

func indexesOf(sources Sources) (labels []string) {
	for _, source := range sources {
		if index := source.marks.Index; index != "" && !slices.Contains(labels, index) {
			labels = append(labels, index)
		}
	}
	return labels
}

// IndexLabels returns the keys of the labels from which the index of a pod is read, beside those of sources.
func IndexLabels() []string {
	return []string{model.LabelIndex, batchv1.JobCompletionIndexAnnotation, statefulIndex}
}

// Ranks returns the numbers that labels give a pod.
func Ranks(pod *corev1.Pod) (ranks model.Ranks) {
	if len(pod.Labels) == 0 {
		return ranks
	}
	if text, is := pod.Labels[model.LabelIndex]; is {
		if ranks.Own = readIndex(text); ranks.Own == 0 {
			ranks.Own = model.Unreadable
		}
	}
	ranks.InJob, ranks.OfJob = readIndex(pod.Labels[batchv1.JobCompletionIndexAnnotation]), readIndex(pod.Labels[jobSetJobIndex])
	for _, label := range otherIndexes {
		if ranks.Other = readIndex(pod.Labels[label]); ranks.Other != 0 {
			break
		}
	}
	return ranks
}

const maxQuotedIndex = 32

// readIndex reads an index; it is none when there is none that can be read.
func readIndex(text string) model.Number {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n > model.MaxIndex {
		return 0
	}
	return model.NumberOf(int(n))
}

// PlaceOf returns where in the topology a pod is, as annotations say: those of the pod, or those that are written with its bind.
// It is nil when they do not say it.
func PlaceOf(annotations map[string]string) *model.Place {
	if len(annotations) == 0 {
		return nil
	}
	place := model.Place{Domains: annotations[model.AnnotationDomain], Index: readIndex(annotations[model.LabelIndex])}
	if place == (model.Place{}) {
		return nil
	}
	return &place
}

// BoundWith returns how many binds a job needed when a pod was bound for it, as the pod says; none when the pod says nothing of
// this job. What a pod says that marks of ours name is not written by a scheduler.
func BoundWith(pod *corev1.Pod, job model.JobKey) model.Number {
	text := pod.Annotations[v1alpha1.AnnotationJob]
	if text == "" || !job.MarkedByOthers() {
		return 0
	}
	name, number, ok := strings.Cut(strings.TrimPrefix(text, job.String()), " ")
	if n, err := strconv.ParseUint(number, 10, 31); ok && name == "" && err == nil {
		return model.NumberOf(int(n))
	}
	return 0
}
