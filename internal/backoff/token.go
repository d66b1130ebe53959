package backoff

import "time"

// TokenLife is how long a DynamoDB request may be retried under one ClientRequestToken.
// DynamoDB remembers tokens for ten minutes; the rest is a margin for a request that
// arrives late and for clocks that run at different speeds.
const TokenLife = 8 * time.Minute
