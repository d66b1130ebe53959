package model

import (
	"fmt"
	"strings"
)

const tagName = "theorydb"

// tagWords lists the options for errors.
const tagWords = "the options are pk, sk, attr:name, ttl, version, created_at, updated_at, set, omitempty, json, binary, encrypted, index:Name,pk|sk[,sparse], lsi:Name,sk[,sparse] and - by itself"

// tag is the parsed tag of a field.
type tag struct {
	attribute string // empty: derived by the naming
	skip      bool

	hash, sort                         bool // of the table
	ttl, version, createdAt, updatedAt bool
	set, omitEmpty                     bool
	json, binary, encrypted            bool
	indexes                            []indexRole
}

// indexRole is the role of a field in one index.
type indexRole struct {
	name               string
	local              bool
	hash, sort, sparse bool
}

// parseTag parses comma-separated options. pk, sk and sparse apply to the index
// named last before them; before the first index, pk and sk apply to the table.
func parseTag(text string) (tag, error) {
	var t tag
	if text == "" {
		return t, nil
	}
	if text == "-" {
		t.skip = true
		return t, nil
	}
	for option := range strings.SplitSeq(text, ",") {
		if err := t.parseOption(option); err != nil {
			return t, err
		}
	}
	return t, t.check()
}

func (t *tag) parseOption(option string) error {
	word, argument, hasArgument := strings.Cut(option, ":")
	switch {
	case hasArgument:
		return t.parseNamed(word, argument)
	case len(t.indexes) > 0:
		if t.indexes[len(t.indexes)-1].setFlag(word) {
			return nil
		}
	case word == "pk":
		return once(&t.hash, word)
	case word == "sk":
		return once(&t.sort, word)
	case word == "sparse":
		return fmt.Errorf("sparse needs an index: write index:Name,pk,sparse")
	}
	if flag := t.flag(word); flag != nil {
		return once(flag, word)
	}
	return fmt.Errorf("unknown option %q in the tag %s: %s", option, tagName, tagWords)
}

func (t *tag) flag(word string) *bool {
	switch word {
	case "ttl":
		return &t.ttl
	case "version":
		return &t.version
	case "created_at":
		return &t.createdAt
	case "updated_at":
		return &t.updatedAt
	case "set":
		return &t.set
	case "omitempty":
		return &t.omitEmpty
	case "json":
		return &t.json
	case "binary":
		return &t.binary
	case "encrypted":
		return &t.encrypted
	}
	return nil
}

func once(flag *bool, word string) error {
	if *flag {
		return fmt.Errorf("option %s appears twice in the tag %s", word, tagName)
	}
	*flag = true
	return nil
}

func (t *tag) parseNamed(word, argument string) error {
	switch word {
	case "attr":
		if argument == "" || t.attribute != "" {
			return fmt.Errorf("attr: takes one name, as in attr:s3_key")
		}
		t.attribute = argument
		return nil
	case "index", "lsi":
		if argument == "" {
			return fmt.Errorf("%s: takes the name of the index, as in %s:ByUser,sk", word, word)
		}
		t.indexes = append(t.indexes, indexRole{name: argument, local: word == "lsi"})
		return nil
	case "naming":
		return fmt.Errorf("naming: applies to a whole struct: write _ struct{} `%s:\"naming:%s\"`", tagName, argument)
	}
	return fmt.Errorf("unknown option %q in the tag %s: %s", word+":"+argument, tagName, tagWords)
}

// setFlag sets the flag that a word names. It reports whether the word is an
// option of an index.
func (r *indexRole) setFlag(word string) bool {
	switch word {
	case "pk":
		r.hash = true
	case "sk":
		r.sort = true
	case "sparse":
		r.sparse = true
	default:
		return false
	}
	return true
}

// check returns an error if options exclude each other.
func (t *tag) check() error {
	if n := count(t.set, t.json, t.binary); n > 1 {
		return fmt.Errorf("set, json and binary exclude each other: keep one")
	}
	if t.hash && t.sort {
		return fmt.Errorf("pk and sk exclude each other: keep one")
	}
	if count(t.ttl, t.version, t.createdAt, t.updatedAt) > 1 {
		return fmt.Errorf("ttl, version, created_at and updated_at exclude each other: keep one")
	}
	if t.encrypted && (t.hash || t.sort || len(t.indexes) > 0) {
		return fmt.Errorf("a key of the table or of an index cannot be encrypted, because DynamoDB compares it: remove encrypted")
	}
	if special := t.set || t.json || t.encrypted; special && (t.ttl || t.version || t.createdAt || t.updatedAt) {
		return fmt.Errorf("ttl, version, created_at and updated_at exclude set, json and encrypted")
	}
	for _, r := range t.indexes {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *indexRole) check() error {
	switch {
	case r.local && r.hash:
		return fmt.Errorf("a local secondary index has the partition key of its table: write lsi:%s,sk", r.name)
	case r.local && !r.sort:
		return fmt.Errorf("lsi:%s lacks the role of the field: write lsi:%s,sk", r.name, r.name)
	case r.hash == r.sort:
		return fmt.Errorf("index:%s needs exactly one role: write index:%s,pk or index:%s,sk", r.name, r.name, r.name)
	}
	return nil
}

func count(flags ...bool) int {
	n := 0
	for _, flag := range flags {
		if flag {
			n++
		}
	}
	return n
}

// parseNaming parses the tag of a blank field.
func parseNaming(text string) (naming, error) {
	word, argument, _ := strings.Cut(text, ":")
	if n, ok := namings[argument]; ok && word == "naming" {
		return n, nil
	}
	return 0, fmt.Errorf("tag %q of a blank field: write naming:snake_case or naming:camelCase", text)
}
