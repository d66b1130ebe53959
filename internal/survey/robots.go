package survey

import "strings"

// maxRobotsRules bounds the rules that are read of robots.txt.
const maxRobotsRules = 500

// robots are the rules of robots.txt for all crawlers (RFC 9309).
type robots []robotsRule

type robotsRule struct {
	pattern string // of paths; * stands for any text, and $ at the end for the end
	allow   bool
}

// parseRobots reads the groups for all crawlers. Groups for a crawler of another name do not count.
func parseRobots(text string) (rules robots) {
	ours, inNames := false, false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch name {
		case "user-agent":
			ours = value == "*" || ours && inNames
			inNames = true
		case "allow", "disallow":
			inNames = false
			if ours && value != "" && len(rules) < maxRobotsRules {
				rules = append(rules, robotsRule{value, name == "allow"})
			}
		}
	}
	return rules
}

// allows reports whether a path with its query may be visited: by the longest rule that matches.
func (r robots) allows(path string) bool {
	longest, allowed := 0, true
	for _, rule := range r {
		if n := len(rule.pattern); (n > longest || n == longest && rule.allow) && rule.matches(path) {
			longest, allowed = n, rule.allow
		}
	}
	return allowed
}

func (r robotsRule) matches(path string) bool {
	pattern, ends := strings.CutSuffix(r.pattern, "$")
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(path, parts[0])
	for i, part := range parts[1:] {
		if !ok {
			return false
		}
		if ends && i == len(parts)-2 {
			return strings.HasSuffix(rest, part)
		}
		_, rest, ok = strings.Cut(rest, part)
	}
	return ok && (!ends || rest == "")
}
