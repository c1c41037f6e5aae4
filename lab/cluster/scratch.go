package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// scratch is a folder for a cluster's data, in memory where the machine has a file system for that.
//
// A program that is killed cannot clean up. So each folder holds a lock that the kernel releases when the program that
// made it ends, and the program that makes the next folder removes those whose lock is free.
type scratch struct {
	dir  string
	lock *os.File
}

// enough is the capacity that a cluster's data may need. Containers often have a memory file system of 64 MiB.
const enough = 1 << 30

// scratchBase is the folder that holds those of this user.
func scratchBase() string {
	memory := "/dev/shm"
	var room syscall.Statfs_t
	if err := syscall.Statfs(memory, &room); err != nil || room.Bavail*uint64(room.Bsize) < enough {
		memory = os.TempDir()
	}
	return filepath.Join(memory, fmt.Sprintf("tutti-lab-%d", os.Getuid()))
}

// newScratch makes a folder in base, and removes those that killed programs left behind.
func newScratch(base string) (*scratch, error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	door, err := lockDoor(base)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	defer door.Close()
	if err := sweep(base); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, "cluster-")
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_NB)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return &scratch{dir: dir, lock: lock}, nil
}

// sweep removes the folders whose owners are gone.
func sweep(base string) error {
	dirs, err := filepath.Glob(filepath.Join(base, "cluster-*"))
	if err != nil {
		return fmt.Errorf("data folders: %w", err)
	}
	for _, dir := range dirs {
		lock, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_NB)
		if err != nil {
			continue // its owner lives
		}
		err = os.RemoveAll(dir)
		lock.Close()
		if err != nil {
			return fmt.Errorf("data folder of a dead cluster: %w", err)
		}
	}
	return nil
}

// lockDoor takes the lock that is held while folders are made and removed, so that none is swept between being made and being
// locked, nor while its owner removes it.
func lockDoor(base string) (*os.File, error) {
	return lockFile(filepath.Join(base, "lock"), 0)
}

// lockFile opens a file and locks it for this process; closing it unlocks it.
func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// remove deletes the folder.
func (s *scratch) remove() error {
	defer s.lock.Close()
	door, err := lockDoor(filepath.Dir(s.dir))
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	defer door.Close()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}
