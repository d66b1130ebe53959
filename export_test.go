package isr

// SetMostOpenBodies sets how many bodies stay open while visitors take them. Call it before requests.
func (c *Cache) SetMostOpenBodies(n int64) { c.reader.SetMaxOpen(n) }
