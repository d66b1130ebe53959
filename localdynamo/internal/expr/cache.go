package expr

import "sync"

// cacheSize is the maximum number of expressions in a Cache. A program has a few
// dozen; the bound protects against programs that write values into expressions.
const cacheSize = 1024

// Cache caches parsed expressions by kind and text. The zero value is ready to use.
// It is safe for concurrent use.
type Cache struct {
	mu     sync.RWMutex
	parsed map[cacheKey]*Parsed // guarded by mu
}

type cacheKey struct {
	kind Kind
	text string
}

// Parse returns the cached result of Parse(kind, text), or parses and caches it.
// Errors are not cached.
func (c *Cache) Parse(kind Kind, text string) (*Parsed, error) {
	key := cacheKey{kind, text}
	c.mu.RLock()
	p := c.parsed[key]
	c.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	p, err := Parse(kind, text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil {
		c.parsed = make(map[cacheKey]*Parsed)
	}
	if len(c.parsed) >= cacheSize {
		for victim := range c.parsed { // evict at random: map order is random enough
			delete(c.parsed, victim)
			break
		}
	}
	c.parsed[key] = p
	return p, nil
}
