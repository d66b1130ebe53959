package cost

// An Installation is what the templates of deploy/ make around the table and the bucket.
type Installation struct {
	Site

	PageBytes int64   // that a visitor gets for a page on average, compressed
	CPU       float64 // processors of a server, on ARM
	Memory    float64 // GB of a server
	Zones     int     // availability zones; the load balancer has a public address in each
	PublicIPs bool    // servers have public addresses, with which they reach AWS
	NAT       bool    // servers have none, and a NAT gateway in each zone
	AccessLog bool    // a line for each request
}

const (
	gigabyte = 1e9

	rowBytes      = 1e3 // of a page in the table
	codedShare    = 0.8 // of a body, that its codings take
	accessLogLine = 500 // bytes, of JSON

	// Container Insights makes 8 metrics of a cluster, 11 of a service, and 6 of each of two task definitions.
	insightsMetrics = 8 + 11 + 2*6
	// S3 makes up to 16 metrics of the requests to a bucket, of which isr causes those of PUT, GET, HEAD and LIST.
	bucketMetrics = 11
	alarms        = 20
	secrets       = 2 // the tokens of the admin API and of peers
)

// Bill returns what an installation costs in a month, by line: its activity, as [Site.Activity] returns it, what it stores, and what
// runs around it.
func (i Installation) Bill(a Activity, p Prices) Bill {
	bill := a.Bill(p)
	hours, pages := Month.Hours(), float64(i.Pages)
	body := float64(i.PageBytes)
	if i.Compressed {
		body *= 1 + codedShare
	}
	bill = append(bill,
		Line{DynamoDB, "storage", pages * rowBytes / gigabyte * p.TableStorage},
		Line{S3, "storage, without old bodies", pages * body / gigabyte * p.Storage},
		Line{S3, "metrics of requests", bucketMetrics * p.Metric},
		Line{"Fargate", "servers", float64(i.Servers) * hours * (i.CPU*p.CPU + i.Memory*p.Memory)},
		Line{"load balancer", "hours", hours * p.LoadBalancer},
		Line{"load balancer", "capacity units, 1 GB each", i.transferred() * p.Capacities},
		Line{"VPC", "public IPv4 addresses", float64(i.addresses()) * hours * p.Address},
	)
	if i.NAT {
		bill = append(bill, Line{"VPC", "NAT gateways, without traffic", float64(i.Zones) * hours * p.NAT})
	}
	bill = append(bill,
		Line{"CloudWatch", "Container Insights", insightsMetrics * p.Metric},
		Line{"CloudWatch", "alarms and the dashboard", alarms*p.Alarm + p.Dashboard},
	)
	if i.AccessLog {
		bill = append(bill, Line{"CloudWatch", "access log", i.requests() * accessLogLine / gigabyte * p.Logs})
	}
	return append(bill,
		Line{"Secrets Manager", "tokens", secrets * p.Secret},
		Line{"traffic", "to visitors", i.transferred() * p.Transfer},
	)
}

// requests returns the requests of a month.
func (i Installation) requests() float64 { return i.Rate * Month.Seconds() }

// transferred returns the GB that visitors get in a month.
func (i Installation) transferred() float64 { return i.requests() * float64(i.PageBytes) / gigabyte }

func (i Installation) addresses() int {
	n := i.Zones // of the load balancer
	if i.PublicIPs {
		n += i.Servers
	}
	if i.NAT {
		n += i.Zones
	}
	return n
}

// HitRatio returns the share of the requests that the cache answers without the origin, by the activity of a month.
func (i Installation) HitRatio(a Activity) float64 { return 1 - a.Regenerations/i.requests() }
