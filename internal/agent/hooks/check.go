package hooks

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"github.com/tutti-sched/tutti/internal/agent/enforce"
	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Updater is the part of the runtime that takes unsolicited changes.
type Updater interface {
	// UpdateContainers returns the changes that failed.
	UpdateContainers([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
}

// Check moves the containers that are on the wrong CPUs: those that the runtime was not yet asked to move, or failed to move,
// and those that the kernel shows on other CPUs, which is counted and reported. It returns how many it asked the runtime to
// move.
//
// It waits for the runtime and must not be called by a handler. It does not hold the lock meanwhile, since the runtime may be
// waiting for a handler itself.
func (h *Plugin) Check(runtime Updater) (int, error) {
	h.mu.Lock()
	moves, all, online := h.machine.Outdated(false), h.machine.Outdated(true), h.online
	h.mu.Unlock()
	moved := map[string]bool{}
	for _, change := range moves {
		moved[change.Container] = true
	}
	moves = append(moves, h.driftedContainers(all, online, moved)...)
	if len(moves) == 0 {
		return 0, nil
	}
	failed, err := runtime.UpdateContainers(h.updates(moves))
	if err != nil {
		return 0, fmt.Errorf("%d containers: %w", len(moves), err)
	}
	for _, update := range failed {
		moved[update.GetContainerId()] = false
		h.options.Log.Info("The container runtime failed to move a container", "container", update.GetContainerId())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range moves {
		if moved[moves[i].Container] {
			h.machine.Applied(&moves[i])
		}
	}
	return len(moves), nil
}

// driftedContainers returns the containers that the kernel shows on other CPUs than theirs, without those that are about to
// be moved. online are the machine's CPUs.
func (h *Plugin) driftedContainers(all []enforce.Change, online isolated.CPUSet, moving map[string]bool) []enforce.Change {
	if h.options.Cgroups == nil {
		return nil
	}
	var strayed []enforce.Change
	for _, change := range all {
		at, ok := effective(h.options.Cgroups, change.Cgroup)
		want := change.Placement.CPUs.Intersect(online)
		if !ok || at == want || moving[change.Container] {
			continue
		}
		h.options.Metrics.Count(metrics.AgentDrift, 1)
		h.options.Report(publish.PodEvent{
			Namespace: change.Pod.Namespace, Pod: change.Pod.Name, UID: change.Pod.UID, Reason: Drifted,
			Message: fmt.Sprintf("container %s was on CPUs %s instead of %s; it is put back", change.Name, at, want),
		})
		strayed = append(strayed, change)
	}
	return strayed
}

// effective returns the CPUs that a control group may use. False means that they are unknown: the group is gone, or not there
// yet, or the tree is not mounted. The path is the runtime's: a path, or SLICE:PREFIX:NAME with systemd.
func effective(root fs.FS, cgroup string) (isolated.CPUSet, bool) {
	directory := directoryOf(cgroup)
	if directory == "" {
		return isolated.CPUSet{}, false
	}
	for _, file := range []string{
		path.Join(directory, "cpuset.cpus.effective"),           // version 2
		path.Join("cpuset", directory, "cpuset.effective_cpus"), // version 1
	} {
		if text, err := fs.ReadFile(root, file); err == nil {
			set, err := isolated.ParseSet(string(text))
			return set, err == nil && !set.Empty()
		}
	}
	return isolated.CPUSet{}, false
}

// directoryOf returns the directory below the root of the runtime's name for a container's group. systemd's slices nest by
// their name: a-b.slice lies in a.slice.
func directoryOf(cgroup string) string {
	parts := strings.Split(cgroup, ":")
	if len(parts) != 3 {
		return strings.TrimPrefix(path.Clean("/"+cgroup), "/")
	}
	var directory string
	name := strings.TrimSuffix(parts[0], ".slice")
	for i, r := range name + "-" {
		if r == '-' && i > 0 {
			directory = path.Join(directory, name[:i]+".slice")
		}
	}
	return path.Join(directory, parts[1]+"-"+parts[2]+".scope")
}
