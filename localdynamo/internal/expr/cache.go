package expr

import "sync"

// cacheSize is how many expressions a Cache remembers. A program has a few
// dozen; the bound is against one that writes values into its expressions.
const cacheSize = 1024

// Cache remembers parsed expressions by their text. The zero value is ready;
// it may be used concurrently.
type Cache struct {
	mu     sync.RWMutex
	parsed map[cacheKey]*Parsed // guarded by mu
}

type cacheKey struct {
	kind Kind
	text string
}

// Parse is Parse, remembered. Faulty expressions are not remembered.
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
		for victim := range c.parsed { // any one: map order is random enough
			delete(c.parsed, victim)
			break
		}
	}
	c.parsed[key] = p
	return p, nil
}
