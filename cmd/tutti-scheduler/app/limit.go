package app

import (
	"crypto/sha256"
	"net"
	"net/http"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// How many tokens are reviewed that have not been let through before: by the second and in a burst, of one address and of all.
// The API server answers each of them, and a scheduler's own requests wait in the same queue there.
const (
	addressRate, addressBurst = 5, 20
	overallRate, overallBurst = 20, 40
)

// rememberedTokens and rememberedAddresses bound what the limiter keeps in memory.
const (
	rememberedTokens    = 256
	rememberedAddresses = 1024
)

// reviewLimiter limits the reviews that requests cause. A token that was let through once is not limited any more, so that a
// flood of others does not keep Prometheus out.
type reviewLimiter struct {
	tokens    *lru.Cache // sha256 of tokens that were let through
	addresses *lru.Cache // *rate.Limiter by address
	overall   *rate.Limiter
}

func newReviewLimiter() *reviewLimiter {
	return &reviewLimiter{
		tokens: lru.New(rememberedTokens), addresses: lru.New(rememberedAddresses), overall: rate.NewLimiter(overallRate, overallBurst),
	}
}

// allow reports whether the token of a request may be reviewed now.
func (l *reviewLimiter) allow(request *http.Request, token string) bool {
	if _, known := l.tokens.Get(sha256.Sum256([]byte(token))); known {
		return true
	}
	host, _, err := net.SplitHostPort(request.RemoteAddr)
	if err != nil {
		host = request.RemoteAddr
	}
	of, known := l.addresses.Get(host)
	if !known {
		of = rate.NewLimiter(addressRate, addressBurst)
		l.addresses.Add(host, of)
	}
	return of.(*rate.Limiter).Allow() && l.overall.Allow()
}

// passed remembers the token of a request that was let through.
func (l *reviewLimiter) passed(token string) { l.tokens.Add(sha256.Sum256([]byte(token)), nil) }
