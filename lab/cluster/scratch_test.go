package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestScratchOfTheDeadIsSwept(t *testing.T) {
	base := t.TempDir()
	dead, err := newScratch(base)
	if err != nil {
		t.Fatal(err)
	}
	dead.lock.Close() // as the kernel does when the program is killed
	alive, err := newScratch(base)
	if err != nil {
		t.Fatal(err)
	}
	third, err := newScratch(base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead.dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a dead cluster is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(alive.dir, "lock")); err != nil {
		t.Errorf("the folder of a living cluster was swept: %v", err)
	}
	for _, s := range []*scratch{alive, third} {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	}
}

// TestScratchGoesWhileOthersCome: a process that looks for folders of ended processes does not hinder an owner that removes
// one.
func TestScratchGoesWhileOthersCome(t *testing.T) {
	base := t.TempDir()
	var owners sync.WaitGroup
	for range 8 {
		owners.Go(func() {
			for range 50 {
				s, err := newScratch(base)
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(os.MkdirAll(filepath.Join(s.dir, "a", "b", "c"), 0o700), s.remove()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	owners.Wait()
}
