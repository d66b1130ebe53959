package logreader

import "time"

// stampLayout is the layout of the times of the Common Log Format.
const stampLayout = "02/Jan/2006:15:04:05 -0700"

// stamps parses times of the Common Log Format. Consecutive entries have the same minute, which is parsed once. The
// zero value is ready for use.
type stamps struct {
	minute string // the last one, without the seconds and the zone
	zone   string
	start  time.Time // of the minute
}

// Parts of a time: "02/Jan/2006:15:04", ":05", " -0700".
const (
	minuteLength = 17
	secondLength = 3
)

func (s *stamps) parse(text []byte) (t time.Time, ok bool) {
	if len(text) != len(stampLayout) {
		return time.Time{}, false
	}
	minute, second, zone := text[:minuteLength], text[minuteLength:minuteLength+secondLength], text[minuteLength+secondLength:]
	tens, ones := second[1]-'0', second[2]-'0'
	if second[0] != ':' || tens > 5 || ones > 9 {
		return time.Time{}, false
	}
	if string(minute) != s.minute || string(zone) != s.zone {
		start, err := time.Parse(stampLayout, string(minute)+":00"+string(zone))
		if err != nil {
			return time.Time{}, false
		}
		s.minute, s.zone, s.start = string(minute), string(zone), start.UTC()
	}
	return s.start.Add(time.Duration(10*tens+ones) * time.Second), true
}
