package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/localfile"
)

// maintenanceOf returns the maintenance mode of a file. It reads the page.
func maintenanceOf(m config.Maintenance) (gateway.Maintenance, error) {
	out := gateway.Maintenance{On: m.On}
	if m.Page != "" {
		var err error
		if out.Page, err = config.ReadPage(m.Page); err != nil {
			return out, fmt.Errorf("maintenance.page: %w", err)
		}
	}
	out.Page.RetryAfter = m.RetryAfter
	return out, nil
}

// A maintenanceSwitch is the operator's switch of maintenance mode. It is on while a file in the data folder exists, so
// that a restart does not end it. It implements [admin.Maintainer].
type maintenanceSwitch struct {
	site *gateway.Site
	path string // of the file
	log  *slog.Logger

	mu sync.Mutex // held while the file and the site change
}

var _ admin.Maintainer = (*maintenanceSwitch)(nil)

// keepMaintenance returns the switch of a site, as the file in the data folder has it.
func keepMaintenance(site *gateway.Site, f *Folder, log *slog.Logger) (*maintenanceSwitch, error) {
	m := &maintenanceSwitch{site: site, path: filepath.Join(f.path, "maintenance"), log: log}
	_, err := os.Stat(m.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("maintenance mode: %w", err)
	}
	site.SetMaintenance(err == nil)
	for _, p := range m.problems() {
		log.Warn(p.text)
	}
	return m, nil
}

// Maintenance implements [admin.Maintainer].
func (m *maintenanceSwitch) Maintenance() admin.Maintenance {
	configured, switched := m.site.InMaintenance()
	return admin.Maintenance{On: configured || switched, Configured: configured}
}

// SetMaintenance implements [admin.Maintainer].
func (m *maintenanceSwitch) SetMaintenance(on bool) (admin.Maintenance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Maintenance().Configured && !on {
		return admin.Maintenance{}, &admin.Error{
			Status: http.StatusConflict, Code: "configured", Message: "the configuration file has maintenance: {on: true}",
			Hint: "remove it there, and reload: isr reload",
		}
	}
	if err := m.keep(on); err != nil {
		return admin.Maintenance{}, fmt.Errorf("maintenance mode would not survive a restart, and has not changed: %w", err)
	}
	m.site.SetMaintenance(on)
	now := m.Maintenance()
	m.log.Warn("an operator has switched maintenance mode", "on", on)
	return now, nil
}

// keep makes the file, or removes it. After a crash there is the file, or there is none.
func (m *maintenanceSwitch) keep(on bool) error {
	if !on {
		if err := os.Remove(m.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return localfile.SyncFolder(filepath.Dir(m.path))
	}
	file, err := os.OpenFile(m.path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), localfile.SyncFolder(filepath.Dir(m.path)))
}

// problems says that the site is in maintenance mode, if it is. The server stays ready: it answers its visitors.
func (m *maintenanceSwitch) problems() []problem {
	switch now := m.Maintenance(); {
	case now.Configured:
		return []problem{{check: checkMaintenance, text: "the site is in maintenance mode by maintenance.on of the configuration file: its origins are not called"}}
	case now.On:
		return []problem{{check: checkMaintenance, text: "the site is in maintenance mode: its origins are not called; isr maintenance off ends it"}}
	}
	return nil
}
