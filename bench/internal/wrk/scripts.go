package wrk

import (
	"fmt"
	"strconv"
)

// numbered gives each thread its number, as the global variable of its Lua state.
const numbered = `
local threads = 0
function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end
`

// Random returns a load whose requests are for PREFIX1 to PREFIXn, at random with equal chances.
// Equal seeds make equal sequences.
func (l Load) Random(prefix string, n, seed int) Load {
	l.Script = numbered + `
local requests = {}
function init(args)
  math.randomseed(args[3] * 1000 + number)
  for i = 1, tonumber(args[2]) do requests[i] = wrk.format("GET", args[1] .. i) end
end
function request() return requests[math.random(#requests)] end
`
	l.Arguments = []string{prefix, strconv.Itoa(n), strconv.Itoa(seed)}
	return l
}

// New returns a load whose requests are each for another path: PREFIX, the number of the thread, a
// slash, and a number that counts from 1; wrk asks for a request before the run, and does not send it.
func (l Load) New(prefix string) Load {
	l.Script = numbered + `
local n, prefix = -1, ""
function init(args) prefix = args[1] .. number .. "/" end
function request()
  n = n + 1
  return wrk.format("GET", prefix .. n)
end
`
	l.Arguments = []string{prefix}
	return l
}

// Mixed returns a load of which one request in every so many is for another path than the rest. The
// connections take the requests as they become free, so each connection has both kinds.
func (l Load) Mixed(path, other string, every int) Load {
	l.Script = fmt.Sprintf(`
local most, other, n = "", "", 0
function init(args)
  most = wrk.format("GET", args[1])
  other = wrk.format("GET", args[2])
end
function request()
  n = n + 1
  if n %% %d == 0 then return other end
  return most
end
`, every)
	l.Arguments = []string{path, other}
	return l
}
