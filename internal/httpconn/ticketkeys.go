package httpconn

import (
	"crypto/tls"
	"log/slog"
	"sync"
)

// A TicketKey encrypts session tickets.
type TicketKey = [32]byte

// TicketKeys are keys of session tickets in a file that is read again when it changes. Servers with the same file resume each
// other's sessions. Methods are safe for concurrent use.
type TicketKeys struct {
	read    func() ([]TicketKey, error)
	log     *slog.Logger
	watched fileWatch

	mu      sync.Mutex
	current []TicketKey   // guarded by mu
	configs []*tls.Config // guarded by mu: those that have the keys
}

// LoadTicketKeys reads the keys of a file by read, which returns one at least: the first encrypts, all decrypt. Nil log means
// slog.Default().
func LoadTicketKeys(path string, read func() ([]TicketKey, error), log *slog.Logger) (*TicketKeys, error) {
	if log == nil {
		log = slog.Default()
	}
	k := &TicketKeys{read: read, log: log, watched: fileWatch{paths: []string{path}}}
	k.watched.begin()
	var err error
	k.current, err = read()
	return k, err
}

// Use has the handshakes of a configuration, which has no GetConfigForClient yet, use the keys. Call it before the first of them.
// Clones of the configuration use the keys, too.
func (k *TicketKeys) Use(config *tls.Config) {
	// The keys of a configuration are its own, and a clone has a copy of them: this one is shared by all.
	shared := config.Clone()
	k.mu.Lock()
	shared.SetSessionTicketKeys(k.current)
	k.configs = append(k.configs, shared)
	k.mu.Unlock()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		k.watched.changed(k.replace)
		return shared, nil
	}
}

// replace reads the file, which has changed. If it cannot be used, the previous keys stay until it changes again.
func (k *TicketKeys) replace() {
	next, err := k.read()
	if err != nil {
		k.log.Error("failed to read changed ticket keys, the previous ones stay in use", "error", err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = next
	for _, config := range k.configs {
		config.SetSessionTicketKeys(next)
	}
	k.log.Info("read changed ticket keys", "keys", len(next))
}
