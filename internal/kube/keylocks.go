package kube

import (
	"context"
	"sync"
)

// keyLocks lock names, several at the same time. A caller that waits can give up. The zero keyLocks is ready.
//
// Invariant: every caller locks in sorted order, so no two callers wait for each other.
type keyLocks struct {
	mu    sync.Mutex
	known map[string]*keyLock
}

// keyLock is one name that a caller holds or waits for.
type keyLock struct {
	// held is a channel of capacity one, full while the key is held.
	held chan struct{}
	// users counts the holder and the waiting callers.
	users int
}

// lock takes all keys, which are sorted and differ, or none when the context ends first.
func (l *keyLocks) lock(ctx context.Context, keys []string) error {
	for i, key := range keys {
		select {
		case l.use(key).held <- struct{}{}:
		case <-ctx.Done():
			l.leave(key)
			l.unlock(keys[:i])
			return ctx.Err()
		}
	}
	return nil
}

// unlock releases keys that are held.
func (l *keyLocks) unlock(keys []string) {
	for _, key := range keys {
		<-l.leave(key).held
	}
}

func (l *keyLocks) use(key string) *keyLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]*keyLock{}
	}
	one := l.known[key]
	if one == nil {
		one = &keyLock{held: make(chan struct{}, 1)}
		l.known[key] = one
	}
	one.users++
	return one
}

func (l *keyLocks) leave(key string) *keyLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.known[key]
	if one.users--; one.users == 0 {
		delete(l.known, key)
	}
	return one
}
