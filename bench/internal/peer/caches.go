package peer

import (
	"os"
	"path/filepath"
)

// ISR returns isr with flags in addition to its defaults.
func ISR(name string, flags ...string) Peer {
	return Peer{Name: name, command: func(at Place) ([]string, error) {
		command := []string{
			at.ISR, "serve", "--origin", "http://" + at.Origin, "--listen", at.Address,
			"--data", filepath.Join(at.Dir, "data"), "--admin", "none",
		}
		for _, f := range flags {
			command = append(command, at.render(f))
		}
		return command, nil
	}}
}

// ISRFile returns isr with a configuration file.
func ISRFile(name, text string) Peer {
	return Peer{Name: name, command: func(at Place) ([]string, error) {
		err := at.write(map[string]string{"isr.yaml": text})
		return []string{at.ISR, "serve", "--config", filepath.Join(at.Dir, "isr.yaml")}, err
	}}
}

// Nginx returns nginx with a configuration: directives at its top level, in http (where a cache named
// pages is declared), and in server.
func Nginx(main, http, server string) Peer {
	text := `
daemon off;
user root;
pid DIR/nginx.pid;
error_log stderr error;
` + main + `
http {
  access_log off;
  client_body_temp_path DIR/body;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  proxy_temp_path DIR/proxy;
` + http + `
  server {
` + server + `
  }
}
`
	return Peer{
		Name: "nginx", program: "nginx", debian: "nginx-light", version: []string{"nginx", "-v"},
		command: func(at Place) ([]string, error) {
			err := at.write(map[string]string{"nginx.conf": text})
			return []string{"nginx", "-p", at.Dir, "-c", filepath.Join(at.Dir, "nginx.conf")}, err
		},
	}
}

// Varnish returns Varnish with a configuration in VCL, and arguments of varnishd.
func Varnish(vcl string, args ...string) Peer {
	return Peer{
		Name: "Varnish", program: "varnishd", debian: "varnish", version: []string{"varnishd", "-V"},
		command: func(at Place) ([]string, error) {
			command := []string{
				"varnishd", "-F", "-j", "none", "-a", at.Address, "-n", filepath.Join(at.Dir, "work"),
				"-f", filepath.Join(at.Dir, "default.vcl"),
			}
			for _, a := range args {
				command = append(command, at.render(a))
			}
			return command, at.write(map[string]string{"default.vcl": `
vcl 4.1;
backend default { .host = "ORIGIN_HOST"; .port = "ORIGIN_PORT"; }
` + vcl})
		},
	}
}

// TrafficServer returns Apache Traffic Server with a storage of a size like 64M, lines of
// records.config, and lines of cache.config.
func TrafficServer(storage, records, cache string) Peer {
	return Peer{
		Name: "Apache Traffic Server", program: "traffic_server", debian: "trafficserver",
		version: []string{"traffic_server", "--version"},
		command: func(at Place) ([]string, error) {
			for _, sub := range []string{"etc", "var", "log", "cache", "run"} {
				if err := os.MkdirAll(filepath.Join(at.Dir, sub), 0o755); err != nil {
					return nil, err
				}
			}
			err := at.write(map[string]string{
				"etc/records.config": `
CONFIG proxy.config.http.server_ports STRING LISTEN_PORT:ip-in=LISTEN_HOST
CONFIG proxy.config.url_remap.remap_required INT 1
CONFIG proxy.config.reverse_proxy.enabled INT 1
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.http.cache.http INT 1
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.diags.output.error STRING E
` + records,
				"etc/remap.config":   "map / http://ORIGIN/\n",
				"etc/cache.config":   cache,
				"etc/storage.config": "DIR/cache " + storage + "\n",
				"etc/ip_allow.yaml":  "ip_allow:\n  - apply: in\n    ip_addrs: [0/0, '::/0']\n    action: allow\n    methods: ALL\n",
				"runroot.yaml":       runroot,
			})
			return []string{"traffic_server", "--run-root=" + filepath.Join(at.Dir, "runroot.yaml")}, err
		},
	}
}

const runroot = `
prefix: DIR
exec_prefix: /usr
bindir: /usr/bin
sbindir: /usr/sbin
sysconfdir: DIR/etc
datadir: DIR/cache
includedir: /usr/include
libdir: /usr/lib/trafficserver
libexecdir: /usr/lib/trafficserver/modules
localstatedir: DIR/run
runtimedir: DIR/run
logdir: DIR/log
cachedir: DIR/cache
`
