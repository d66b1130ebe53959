package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/config"
)

// maxConfig is one byte more than the largest configuration file, whose size [config.Parse]
// checks.
const maxConfig = 1<<20 + 1

// ReadConfig reads and parses a configuration file.
func ReadConfig(path string) (*config.File, error) { return ReadConfigBy(path, config.Parse) }

// ReadConfigBy reads a configuration file and parses it by [config.Parse] or [config.Check].
func ReadConfigBy(path string, parse func(string, []byte, func(string) (string, bool)) (*config.File, error)) (*config.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration file: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxConfig))
	if err != nil {
		return nil, fmt.Errorf("read configuration file: %w", err)
	}
	return parse(path, text, os.LookupEnv)
}

// Settings of isr serve come from flags, variables of the environment, and a configuration
// file. All of them end in two places:
//
//	config.File   listeners, hosts, origins and routes, which a reload replaces
//	ServeCommand  the rest, which is set once, at start
//
// So a flag for the first is put into the file (siteFlags), and a field of the file for the
// second into the flags (serverFields). Neither may be given twice.

// given are the flags that were set, with the flag or variable that did.
type given map[string]string

// givenFlags returns the flags that the command line or the environment sets.
func givenFlags(k *kong.Context) given {
	g := make(given)
	for _, f := range k.Selected().Flags {
		for _, name := range f.Envs {
			if _, set := os.LookupEnv(name); set {
				g[f.Name] = name
			}
		}
	}
	for _, p := range k.Path {
		if p.Flag != nil {
			g[p.Flag.Name] = "--" + p.Flag.Name
		}
	}
	return g
}

// naming returns how a setting of the file, such as revalidate of a route or max_header, is set: "--revalidate",
// "ISR_REVALIDATE" or "isr.yaml:12". Empty: it is not set, and there is a file that could set it, or it has no flag.
func (g given) naming(setting string, f *config.File) string {
	flag := ""
	for _, s := range siteFlags() {
		if s.path == setting {
			flag = s.name
		}
	}
	for _, s := range serverFields() {
		if s.path == setting {
			flag = s.flag
		}
	}
	if how, set := g[flag]; set {
		return how
	}
	for _, path := range []string{setting, "defaults." + setting} {
		if fileSets(f, path) {
			return f.Source(path).String()
		}
	}
	for i := range f.Routes {
		if path := fmt.Sprintf("routes[%d].%s", i, setting); fileSets(f, path) {
			return f.Source(path).String()
		}
	}
	if _, file := g["config"]; flag == "" || file {
		return ""
	}
	return "--" + flag
}

// named returns a usage error in which settings are named in the way in which they were set: ISR_JITTER or
// memory (isr.yaml:12) instead of --jitter and --memory. f may be nil. Other errors stay as they are.
func (g given) named(err error, f *config.File) error {
	var usage *cli.UsageError
	if !errors.As(err, &usage) {
		return err
	}
	text := err.Error()
	rename := func(flag, how string) {
		text = regexp.MustCompile("--"+regexp.QuoteMeta(flag)+"([^a-z0-9-]|$)").ReplaceAllStringFunc(text, func(found string) string {
			return how + strings.TrimPrefix(found, "--"+flag)
		})
	}
	for flag, how := range g {
		if how != "--"+flag {
			rename(flag, how)
		}
	}
	for _, s := range serverFields() {
		if f != nil && s.flag != "" && fileSets(f, s.path) {
			rename(s.flag, fmt.Sprintf("%s (%s)", s.path, f.Source(s.path)))
		}
	}
	return cli.Usagef("%s", text)
}

// A siteFlag is a flag that sets fields of the file: of the file itself, or of all its
// listeners, origins or routes.
type siteFlag struct {
	name string
	in   section
	path string // of the field, within the section
	set  func(*ServeCommand, target)
}

// A section is a part of the file that may occur several times.
type section int

const (
	top section = iota
	listeners
	origins
	routes
)

// A target is what a siteFlag sets: one of the fields.
type target struct {
	file     *config.File
	listener *config.Listener
	origin   *config.Origin
	route    *config.Settings
}

// siteFlags returns the flags that set fields of the file.
func siteFlags() []siteFlag {
	return []siteFlag{
		{"host", top, "hosts", func(c *ServeCommand, t target) { t.file.Hosts = c.Host }},
		{"public-scheme", top, "public_scheme", func(c *ServeCommand, t target) { t.file.PublicScheme = c.PublicScheme }},
		{"hsts", top, "hsts", func(c *ServeCommand, t target) { t.file.HSTS = c.HSTS }},
		{"listen", listeners, "address", func(c *ServeCommand, t target) { t.listener.Address = c.Listen }},
		{"trusted-proxy", listeners, "trusted_proxies", func(c *ServeCommand, t target) { t.listener.TrustedProxies = c.TrustedProxy }},
		{"trust-forwarded-host", listeners, "trust_forwarded_host", func(c *ServeCommand, t target) { t.listener.ForwardedHost = c.TrustForwardedHost }},
		{"proxy-protocol", listeners, "proxy_protocol", func(c *ServeCommand, t target) { t.listener.ProxyProtocol = c.ProxyProtocol }},
		{"origin", origins, "url", func(c *ServeCommand, t target) { t.origin.URL = []string{c.Origin} }},
		{"demo", origins, "demo", func(c *ServeCommand, t target) { t.origin.Demo = c.Demo }},
		{"max-renders", origins, "max_renders", func(c *ServeCommand, t target) { t.origin.MaxRenders = c.MaxRenders }},
		{"breaker-failures", origins, "breaker_failures", func(c *ServeCommand, t target) { t.origin.BreakerFailures = c.BreakerFailures }},
		{"max-origin-connections", origins, "max_connections", func(c *ServeCommand, t target) { t.origin.MaxConnections = c.MaxOriginConnections }},
		{"revalidate", routes, "revalidate", func(c *ServeCommand, t target) { t.route.Revalidate = config.Fixed(time.Duration(c.Revalidate)) }},
		{"stale", routes, "stale", func(c *ServeCommand, t target) { t.route.Stale = (*time.Duration)(c.Stale) }},
		{"keep-stale", routes, "keep_stale", func(c *ServeCommand, t target) { t.route.KeepStale = c.KeepStale }},
		{"vary", routes, "headers", func(c *ServeCommand, t target) { t.route.Headers = slices.Concat(t.route.Headers, keysOf(c.Vary)) }},
		{"query", routes, "query", func(c *ServeCommand, t target) { t.route.Query = slices.Concat(t.route.Query, c.Query) }},
		{"ignore-cookie", routes, "ignore_cookies", func(c *ServeCommand, t target) {
			t.route.IgnoreCookies = slices.Concat(t.route.IgnoreCookies, c.IgnoreCookie)
		}},
		{"tenant-header", routes, "tenant_header", func(c *ServeCommand, t target) { t.route.TenantHeader = c.TenantHeader }},
		{"store-negative", routes, "store_negative", func(c *ServeCommand, t target) { t.route.StoreNegative = c.StoreNegative }},
		{"own-request", routes, "own_request", func(c *ServeCommand, t target) { t.route.OwnRequest = c.OwnRequest }},
		{"policy", routes, "policy", func(c *ServeCommand, t target) { t.route.Policy = policyName(c.Policy) }},
		{"early-refresh", routes, "early_refresh", func(c *ServeCommand, t target) { t.route.EarlyRefresh = c.EarlyRefresh }},
		{"jitter", routes, "jitter", func(c *ServeCommand, t target) { t.route.Jitter = c.Jitter }},
		{"history", routes, "history", func(c *ServeCommand, t target) { t.route.History = c.History }},
		{"render-timeout", routes, "render_timeout", func(c *ServeCommand, t target) { t.route.RenderTimeout = (*time.Duration)(&c.RenderTimeout) }},
	}
}

func keysOf(names []string) (keys config.Keys) {
	for _, name := range names {
		keys = append(keys, config.Key{Name: name})
	}
	return keys
}

func policyName(p isr.Policy) string {
	text, _ := p.MarshalText() // kong has parsed it
	return string(text)
}

// targets returns all targets of a flag, with their paths in the file.
func (s siteFlag) targets(f *config.File) map[string]target {
	all := make(map[string]target)
	switch s.in {
	case top:
		all[s.path] = target{file: f}
	case listeners:
		for i := range f.Listen {
			all[fmt.Sprintf("listen[%d].%s", i, s.path)] = target{listener: &f.Listen[i]}
		}
	case origins:
		for name, o := range f.Origins {
			// A map has no addresses: set puts the copy back.
			all["origins."+name+"."+s.path] = target{origin: &o}
		}
	case routes:
		all["defaults."+s.path] = target{route: &f.Defaults}
		for i := range f.Routes {
			all[fmt.Sprintf("routes[%d].%s", i, s.path)] = target{route: &f.Routes[i].Settings}
		}
	}
	return all
}

// apply sets the fields of a flag.
func (s siteFlag) apply(c *ServeCommand, f *config.File) {
	for path, t := range s.targets(f) {
		s.set(c, t)
		if s.in == origins {
			f.Origins[strings.TrimSuffix(strings.TrimPrefix(path, "origins."), "."+s.path)] = *t.origin
		}
	}
}

// read returns the configuration file, with the flags that belong into it; without
// --config, one that is made of flags.
func (c *ServeCommand) read(g given) (*config.File, error) {
	if c.Config == "" {
		return c.FileOfFlags(g)
	}
	f, err := ReadConfig(c.Config)
	if err != nil {
		return nil, err
	}
	if err := c.refuseTwice(f, g); err != nil {
		return nil, err
	}
	for _, s := range siteFlags() {
		if _, set := g[s.name]; set {
			s.apply(c, f)
		}
	}
	return f, checkEdge(f)
}

// checkEdge checks what flags may have set of hosts and listeners.
func checkEdge(f *config.File) error {
	if _, err := gateway.ParseHosts(f.Hosts); err != nil {
		return cli.Usagef("--host %v", err)
	}
	if err := checkHSTS(f.HSTS); err != nil {
		return err
	}
	for _, l := range f.Listen {
		at, err := resolveListen(l.Address)
		switch {
		case err != nil:
			return err
		case len(f.Hosts) == 0 && !at.IP.IsLoopback():
			return cli.Usagef("%s is reachable from other machines and needs hosts, in the file or by --host", l.Address)
		case l.ProxyProtocol && len(l.TrustedProxies) == 0:
			return cli.Usagef("--proxy-protocol needs --trusted-proxy CIDR: otherwise any client could claim any address")
		case l.ForwardedHost && len(l.TrustedProxies) == 0:
			return cli.Usagef("--trust-forwarded-host needs --trusted-proxy CIDR: the field of other peers is never read")
		}
		if _, err := gateway.ParseTrust(l.TrustedProxies); err != nil {
			return cli.Usagef("--trusted-proxy %v", err)
		}
	}
	return nil
}

// FileOfFlags returns the file that the flags describe. Those in g were set: they change the settings of a preset,
// and lists are added to its lists. Without a preset g may be nil.
func (c *ServeCommand) FileOfFlags(g given) (*config.File, error) {
	f, err := config.OfPreset(c.Preset)
	if err != nil {
		return nil, err
	}
	for _, s := range siteFlags() {
		_, set := g[s.name]
		switch {
		case s.name == "origin" && c.Origin == "": // --demo
		case s.in == routes && c.Preset != "" && !set:
		default:
			s.apply(c, f)
		}
	}
	return f, nil
}

// refuseTwice returns an error for each setting that is given by a flag or variable and by
// the file.
func (c *ServeCommand) refuseTwice(f *config.File, g given) error {
	var problems []string
	twice := func(flag, path string) {
		if how, set := g[flag]; set && fileSets(f, path) {
			problems = append(problems, fmt.Sprintf("%s and %s in %s set the same; remove one of them", how, path, f.Source(path)))
		}
	}
	for _, s := range siteFlags() {
		for path := range s.targets(f) {
			twice(s.name, path)
		}
	}
	for _, s := range serverFields() {
		twice(s.flag, s.path)
	}
	if how, set := g["preset"]; set {
		problems = append(problems, fmt.Sprintf("%s has no effect with --config; write preset: %s into %s", how, c.Preset, c.Config))
	}
	for variable, path := range map[string]string{TokenVariable: "admin.token", readTokenVariable: "admin.read_token", peerVariable: "peer.secret"} {
		if os.Getenv(variable) != "" && fileSets(f, path) {
			problems = append(problems, fmt.Sprintf("%s and %s in %s set the same; remove one of them", variable, path, f.Source(path)))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return cli.Usagef("%s", strings.Join(slices.Compact(problems), "\n"))
}

// fileSets reports whether a file, and not its preset, sets a field. A route that has it from
// defaults does not set it itself.
func fileSets(f *config.File, path string) bool {
	s := f.Source(path)
	return s.Line > 0 && (!s.Defaults || strings.HasPrefix(path, "defaults."))
}

// A serverField is a field of the file that sets a flag.
type serverField struct {
	flag, path string
	set        func(*ServeCommand, *config.File) error
}

// serverFields returns the fields of the file that set flags.
func serverFields() []serverField {
	return slices.Concat(cacheFields(), storeFields(), operationFields())
}

// to returns the set of a serverField without errors.
func to(set func(*ServeCommand, *config.File)) func(*ServeCommand, *config.File) error {
	return func(c *ServeCommand, f *config.File) error {
		set(c, f)
		return nil
	}
}

func cacheFields() []serverField {
	return []serverField{
		{"memory", "memory", to(func(c *ServeCommand, f *config.File) { c.Memory = cli.Size(f.Memory) })},
		{"buffers", "buffers", to(func(c *ServeCommand, f *config.File) { c.Buffers = (*cli.Size)(f.Buffers) })},
		{"max-client-connections", "max_client_connections", to(func(c *ServeCommand, f *config.File) { c.MaxClientConnections = f.MaxClientConnections })},
		{"min-uses", "min_uses", to(func(c *ServeCommand, f *config.File) { c.MinUses = f.MinUses })},
		{"max-body", "max_body", to(func(c *ServeCommand, f *config.File) { c.MaxBody = cli.Size(f.MaxBody) })},
		{"max-header", "max_header", to(func(c *ServeCommand, f *config.File) { c.MaxHeader = cli.Size(f.MaxHeader) })},
		{"max-tags", "max_tags", to(func(c *ServeCommand, f *config.File) { c.MaxTags = f.MaxTags })},
		{"client-timeout", "client_timeout", to(func(c *ServeCommand, f *config.File) { c.ClientTimeout = cli.Span(f.ClientTimeout) })},
		{"fast-path", "fast_path", to(func(c *ServeCommand, f *config.File) { c.FastPath = f.FastPath })},
		{"lease", "lease", to(func(c *ServeCommand, f *config.File) { c.Lease = cli.Span(f.Lease) })},
		{"retention", "retention", to(func(c *ServeCommand, f *config.File) { c.Retention = cli.Span(f.Retention) })},
		{"request-life", "request_life", to(func(c *ServeCommand, f *config.File) { c.RequestLife = cli.Span(f.RequestLife) })},
		{"poll", "poll", to(func(c *ServeCommand, f *config.File) { c.Poll = cli.Span(f.Poll) })},
		{"max-blind", "max_blind", to(func(c *ServeCommand, f *config.File) { c.MaxBlind = cli.Span(f.MaxBlind) })},
		{"blind", "blind", func(c *ServeCommand, f *config.File) error { return c.Blind.UnmarshalText([]byte(f.Blind)) }},
		{"build", "build", to(func(c *ServeCommand, f *config.File) { c.Build = f.Build })},
	}
}

func storeFields() []serverField {
	return []serverField{
		{"data", "store.data", to(func(c *ServeCommand, f *config.File) { c.Data = f.Store.Data })},
		{"disk", "store.disk", to(func(c *ServeCommand, f *config.File) { c.Disk = (*cli.Size)(f.Store.Disk) })},
		{"cache-dir", "store.cache_dir", to(func(c *ServeCommand, f *config.File) { c.CacheDir = f.Store.CacheDir })},
		{"cache-size", "store.cache_size", to(func(c *ServeCommand, f *config.File) { c.CacheSize = (*cli.Size)(f.Store.CacheSize) })},
		{"table", "store.table", to(func(c *ServeCommand, f *config.File) { c.Table = f.Store.Table })},
		{"bucket", "store.bucket", to(func(c *ServeCommand, f *config.File) { c.Bucket = f.Store.Bucket })},
		{"region", "store.region", to(func(c *ServeCommand, f *config.File) { c.Region = f.Store.Region })},
		{"dynamodb-endpoint", "store.dynamodb_endpoint", to(func(c *ServeCommand, f *config.File) { c.DynamodbEndpoint = f.Store.DynamoDBEndpoint })},
		{"s3-endpoint", "store.s3_endpoint", to(func(c *ServeCommand, f *config.File) { c.S3Endpoint = f.Store.S3Endpoint })},
		{"create-table", "store.create_table", to(func(c *ServeCommand, f *config.File) { c.CreateTable = f.Store.CreateTable })},
		{"require-store", "store.require", to(func(c *ServeCommand, f *config.File) { c.RequireStore = f.Store.Require })},
		{"store-timeout", "store.timeout", to(func(c *ServeCommand, f *config.File) { c.StoreTimeout = cli.Span(f.Store.Timeout) })},
		{"guard", "store.guards", to(func(c *ServeCommand, f *config.File) {
			for _, name := range f.Store.Guards {
				c.Guard = append(c.Guard, guard(name))
			}
		})},
		{"peer", "peer.address", to(func(c *ServeCommand, f *config.File) { c.Peer = f.Peer.Address })},
		{"", "peer.secret", secretTo(func(f *config.File) config.Secret { return f.Peer.Secret }, func(c *ServeCommand) *string { return &c.peerSecret })},
		{"dynamodb-listen", "dynamodb.address", to(func(c *ServeCommand, f *config.File) { c.DynamodbListen = f.DynamoDB.Address })},
		{"dynamodb-access-key", "dynamodb.access_key", secretTo(func(f *config.File) config.Secret { return f.DynamoDB.AccessKey }, func(c *ServeCommand) *string { return &c.AccessKey })},
		{"dynamodb-secret-key", "dynamodb.secret_key", secretTo(func(f *config.File) config.Secret { return f.DynamoDB.SecretKey }, func(c *ServeCommand) *string { return &c.SecretKey })},
	}
}

func operationFields() []serverField {
	return []serverField{
		{"admin", "admin.address", to(func(c *ServeCommand, f *config.File) { c.Admin = &f.Admin.Address })},
		{"", "admin.token", secretTo(func(f *config.File) config.Secret { return f.Admin.Token }, func(c *ServeCommand) *string { return &c.adminToken })},
		{"", "admin.read_token", secretTo(func(f *config.File) config.Secret { return f.Admin.ReadToken }, func(c *ServeCommand) *string { return &c.readToken })},
		{"health", "health.address", to(func(c *ServeCommand, f *config.File) { c.Health = f.Health.Address })},
		{"health-path", "health.path", to(func(c *ServeCommand, f *config.File) { c.HealthPath = f.Health.Path })},
		{"drain", "health.drain", to(func(c *ServeCommand, f *config.File) { c.Drain = (*cli.Span)(f.Health.Drain) })},
		{"grace", "health.grace", to(func(c *ServeCommand, f *config.File) { c.Grace = (*cli.Span)(f.Health.Grace) })},
		{"metrics", "metrics.address", to(func(c *ServeCommand, f *config.File) { c.Metrics = f.Metrics.Address })},
		{"purge-method", "purge.method", to(func(c *ServeCommand, f *config.File) { c.PurgeMethod = f.Purge.Method })},
		{"purge-from", "purge.from", to(func(c *ServeCommand, f *config.File) { c.PurgeFrom = f.Purge.From })},
		{"downstream", "downstream", func(c *ServeCommand, f *config.File) error { return c.addDownstream(f.Downstream) }},
		{"regenerate-queue", "regenerate.queue", to(func(c *ServeCommand, f *config.File) { c.RegenerateQueue = f.Regenerate.Queue })},
		{"hook", "triggers.hooks", func(c *ServeCommand, f *config.File) error { return c.addHooks(f.Triggers.Hooks) }},
		{"hook-public", "triggers.public", to(func(c *ServeCommand, f *config.File) { c.HookPublic = f.Triggers.Public })},
		{"purge-queue", "triggers.queue.url", to(func(c *ServeCommand, f *config.File) { c.PurgeQueue = f.Triggers.Queue.URL })},
		{"purge-queue-target", "triggers.queue.targets", to(func(c *ServeCommand, f *config.File) { c.PurgeQueueTarget = f.Triggers.Queue.Targets })},
		{"purge-queue-hard", "triggers.queue.hard", to(func(c *ServeCommand, f *config.File) { c.PurgeQueueHard = f.Triggers.Queue.Hard })},
		{"access-log", "access_log.path", to(func(c *ServeCommand, f *config.File) { c.AccessLog = f.AccessLog.Path })},
		{"access-log-format", "access_log.format", to(func(c *ServeCommand, f *config.File) { c.AccessLogFormat = f.AccessLog.Format })},
		{"access-log-client-address", "access_log.client_address", to(func(c *ServeCommand, f *config.File) { c.AccessLogClient = f.AccessLog.ClientAddress })},
		{"access-log-sample-hits", "access_log.sample_hits", to(func(c *ServeCommand, f *config.File) { c.AccessLogSampleHits = f.AccessLog.SampleHits })},
		{"", "access_log.fields", to(func(c *ServeCommand, f *config.File) { c.accessLogFields = f.AccessLog.Fields })},
		{"", "access_log.syslog", to(func(c *ServeCommand, f *config.File) { c.accessLogSyslog = f.AccessLog.Syslog })},
		{"request-id", "request_id", to(func(c *ServeCommand, f *config.File) { c.RequestID = f.RequestID })},
		{"log", "log.format", to(func(c *ServeCommand, f *config.File) { c.Log = f.Log.Format })},
		{"log-level", "log.level", func(c *ServeCommand, f *config.File) error { return c.LogLevel.UnmarshalText([]byte(f.Log.Level)) }},
	}
}

// secretTo returns the set of a serverField for a secret.
func secretTo(from func(*config.File) config.Secret, field func(*ServeCommand) *string) func(*ServeCommand, *config.File) error {
	return func(c *ServeCommand, f *config.File) (err error) {
		*field(c), err = from(f).Read()
		return err
	}
}

// Adopt sets the flags that the file sets.
func (c *ServeCommand) Adopt(f *config.File) error {
	var errs []error
	for _, s := range serverFields() {
		if !fileSets(f, s.path) {
			continue
		}
		if err := s.set(c, f); err != nil {
			errs = append(errs, fmt.Errorf("%s (%s): %w", s.path, f.Source(s.path), err))
		}
	}
	return errors.Join(errs...)
}

// flagErrors names the flags of invalid settings: "--jitter must be ...". Flags have the
// names of the fields that they set.
func flagErrors(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var texts []string
	for _, err := range joined.Unwrap() {
		var field *isr.ConfigError
		if !errors.As(err, &field) {
			return err
		}
		texts = append(texts, "--"+flagName(field.Field)+" "+field.Problem)
	}
	return cli.Usagef("%s", strings.Join(texts, "; "))
}

// flagName returns the flag of a field: "render-timeout" for RenderTimeout.
func flagName(field string) string {
	if field == "IgnoreCookies" {
		return "ignore-cookie" // it is repeated
	}
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
