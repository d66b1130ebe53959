package isr

// leastBuffers is the least default budget of Config.Buffers, in bytes.
const leastBuffers = 32 << 20

// renderShare is the part of the budget that renders, and reads of bodies, have together, as a divisor:
// a quarter is for what is being sent (see responseShare), and a quarter is left to requests. A body that is larger than
// the part, which Config.MaxBody allows, takes all of it, and exceeds the budget.
const renderShare = 2
