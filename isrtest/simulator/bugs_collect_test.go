package simulator_test

import (
	"context"

	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// collectBugs break garbage collection.
func collectBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "garbage is collected without the lease", Collect: collectUnleased},
		{Name: "bodies that versions name are collected", Profile: "garbage", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return shortSighted{inner} }},
		{Name: "bodies that request records name are collected", Profile: "garbage", API: edit(editedAPI{unlisted: "REQ#"})},
	}
}

// collectUnleased deletes unreferenced bodies while a publish may be about to refer to one.
func collectUnleased(ctx context.Context, meta gc.Store, bodies store.BodyStore, _ gc.CollectOptions) (done gc.Collected, err error) {
	named := make(map[string]bool)
	for page, err := range meta.ReferencedBodies(ctx) {
		if err != nil {
			return done, err
		}
		keys, err := meta.BodyKeys(ctx, page.PK)
		if err != nil {
			return done, err
		}
		for _, key := range keys {
			named[key] = true
		}
	}
	for info, err := range bodies.List(ctx, "bodies/") {
		if err != nil {
			return done, err
		}
		if named[info.Key] {
			continue
		}
		if err := bodies.Delete(ctx, info.Key); err != nil {
			return done, err
		}
		done.Bodies++
	}
	return done, nil
}

// shortSighted ignores the bodies that versions and request records name.
type shortSighted struct{ store.MetaStore }

func (s shortSighted) BodyKeys(ctx context.Context, pk string) ([]string, error) {
	rec, err := s.Read(ctx, pk)
	if err != nil || rec.Entry == nil {
		return nil, err
	}
	return []string{rec.Entry.BodyKey}, nil
}
