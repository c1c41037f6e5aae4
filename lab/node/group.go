package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const groupRoot = "/sys/fs/cgroup"

// hierarchies are the folders of the machine's control groups: one for each controller in version 1, one in version 2.
func hierarchies() []string {
	if _, err := os.Stat(filepath.Join(groupRoot, "cgroup.controllers")); err == nil {
		return []string{groupRoot}
	}
	controllers, _ := filepath.Glob(filepath.Join(groupRoot, "*")) // the pattern is well-formed
	return controllers
}

// makeGroup makes a control group in each hierarchy, as the kubelet needs its root to be there. Its processes may use all
// processors and all memory of the group above.
func makeGroup(name string) error {
	for _, hierarchy := range hierarchies() {
		path := hierarchy
		for part := range strings.SplitSeq(name, "/") {
			if err := delegate(path); err != nil {
				return fmt.Errorf("control group %s: %w", path, err)
			}
			above := path
			path = filepath.Join(path, part)
			if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("control group: %w", err)
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				all, err := os.ReadFile(filepath.Join(above, file))
				if err != nil {
					continue // another controller, or version 2, where a group has those of the one above
				}
				if err := os.WriteFile(filepath.Join(path, file), all, 0o644); err != nil {
					return fmt.Errorf("control group: %w", err)
				}
			}
		}
	}
	return nil
}

// delegate lets the groups below a group of version 2 have its controllers; in version 1 they have them.
func delegate(path string) error {
	names, err := os.ReadFile(filepath.Join(path, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var on []string
	for name := range strings.FieldsSeq(string(names)) {
		on = append(on, "+"+name)
	}
	return os.WriteFile(filepath.Join(path, "cgroup.subtree_control"), []byte(strings.Join(on, " ")), 0o644)
}

// CPUs are the processors that the kernel lets a container of the node use, as a list such as 0,2-3, read from its control group.
// The id is that of the pod's status, without the runtime's name.
func (m *Machine) CPUs(container string) (string, error) {
	for _, hierarchy := range hierarchies() {
		var found string
		_ = filepath.WalkDir(filepath.Join(hierarchy, m.group()), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil // a group that goes while this looks
			}
			if entry.Name() == container {
				found = path
				return fs.SkipAll
			}
			return nil
		})
		for _, file := range []string{"cpuset.cpus.effective", "cpuset.effective_cpus"} { // version 2, version 1
			if text, err := os.ReadFile(filepath.Join(found, file)); found != "" && err == nil {
				return strings.TrimSpace(string(text)), nil
			}
		}
	}
	return "", fmt.Errorf("node %s has no control group of container %s", m.spec.Name, container)
}

// removeGroups removes a control group and all below it from each hierarchy. A group with a process cannot be removed, so it
// waits until the kernel has ended the processes that were killed.
func removeGroups(ctx context.Context, name string) error {
	var last error
	_ = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		last = nil
		for _, hierarchy := range hierarchies() {
			last = errors.Join(last, removeGroup(filepath.Join(hierarchy, name)))
		}
		return last == nil, nil
	})
	return last
}

// removeGroup removes the folders of a group, the lowest first. Their files go with them.
func removeGroup(path string) error {
	below, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range below {
		if entry.IsDir() {
			err = errors.Join(err, removeGroup(filepath.Join(path, entry.Name())))
		}
	}
	if gone := os.Remove(path); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
