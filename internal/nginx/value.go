package nginx

import (
	"fmt"
	"math"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"
)

// duration parses a time of nginx: 90, 10m, "1h 30m", 500ms (Configuration file measurement units). Months have 30 days and
// years 365, as in nginx.
func duration(text string) (total time.Duration, ok bool) {
	units := []struct {
		name string
		d    time.Duration
	}{{"ms", time.Millisecond}, {"y", 365 * 24 * time.Hour}, {"M", 30 * 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"", time.Second}}
	rest := strings.ReplaceAll(text, " ", "")
	if rest == "" {
		return 0, false
	}
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, false
		}
		rest = rest[digits:]
		for _, unit := range units {
			if !strings.HasPrefix(rest, unit.name) || unit.name == "" && rest != "" {
				continue
			}
			rest = rest[len(unit.name):]
			if n > int64((math.MaxInt64-total)/unit.d) {
				return 0, false
			}
			total += time.Duration(n) * unit.d
			digits = -1
			break
		}
		if digits >= 0 {
			return 0, false
		}
	}
	return total, true
}

// size parses a size of nginx, in bytes, k, m or g, and returns it as isr.yaml has it.
func size(text string) (string, bool) {
	number, unit := text, "B"
	for suffix, name := range map[string]string{"k": "KiB", "m": "MiB", "g": "GiB"} {
		if head, found := strings.CutSuffix(strings.ToLower(text), suffix); found {
			number, unit = head, name
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return "", false
	}
	return fmt.Sprint(n, unit), true
}

// maxPaths bounds the paths that a regular expression is resolved to.
const maxPaths = 32

// A pathSet is what the beginning of a regular expression matches.
type pathSet struct {
	paths []string
	exact bool // $: nothing follows
}

// resolve returns the paths that a regular expression of a location begins with, if these are few and known: the paths of
// ^/(admin|account)/ and ^/search$, and not the paths of \.php$.
func resolve(pattern string) (set pathSet, ok bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return pathSet{}, false
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	if len(parts) < 2 || parts[0].Op != syntax.OpBeginText {
		return pathSet{}, false
	}
	set.paths = []string{""}
	for _, part := range parts[1:] {
		if part.Op == syntax.OpEndText {
			set.exact = true
			break
		}
		ends, known := alternatives(part)
		if !known {
			break // what follows may be anything
		}
		set.paths = product(set.paths, ends)
		if len(set.paths) > maxPaths {
			return pathSet{}, false
		}
	}
	for _, path := range set.paths {
		if len(path) < 2 || path[0] != '/' || strings.ContainsAny(path, "{}") {
			return pathSet{}, false
		}
	}
	return set, true
}

// alternatives returns the texts that a part of a regular expression matches, if they are few and known.
func alternatives(re *syntax.Regexp) ([]string, bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}, true
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpCapture:
		return alternatives(re.Sub[0])
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range re.Sub {
			some, ok := alternatives(sub)
			if all = product(all, some); !ok || len(all) > maxPaths {
				return nil, false
			}
		}
		return all, true
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			some, ok := alternatives(sub)
			if all = append(all, some...); !ok || len(all) > maxPaths {
				return nil, false
			}
		}
		return all, true
	}
	return nil, false
}

func product(heads, ends []string) (all []string) {
	for _, head := range heads {
		for _, end := range ends {
			if all = append(all, head+end); len(all) > maxPaths {
				return all
			}
		}
	}
	return all
}
