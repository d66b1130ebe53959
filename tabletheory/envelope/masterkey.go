package envelope

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// maxIDSize is the maximum length of a master key's id, in bytes.
const maxIDSize = 64

// masterKey is a key of a [KeyFile].
type masterKey struct {
	id   string
	aead cipher.AEAD // generates its nonces and prepends them
}

// newMasterLine returns a new master key as a line of a key file.
func newMasterLine() string {
	key := make([]byte, dataKeySize)
	rand.Read(key)
	defer clear(key)
	return rand.Text() + " " + base64.StdEncoding.EncodeToString(key) + "\n"
}

// parseMasterKeys parses a key file. Errors give the line number but do not quote the
// line, which may contain a key.
func parseMasterKeys(text []byte) ([]masterKey, error) {
	var keys []masterKey
	seen := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		if isComment(lines.Text()) {
			continue
		}
		key, err := parseMasterLine(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if seen[key.id] != 0 {
			return nil, fmt.Errorf("line %d: same id as line %d: every key needs its own id", number, seen[key.id])
		}
		seen[key.id] = number
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in the file: restore it from a backup, or, if nothing was encrypted with it, delete it to create a new one")
	}
	return keys, nil
}

func isComment(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

func parseMasterLine(line string) (masterKey, error) {
	fields := strings.Fields(line)
	if len(fields) != 2 || !isID(fields[0]) {
		return masterKey{}, fmt.Errorf("expected an id (1 to %d letters, digits, - and _), a space, and a key of %d bytes in base64", maxIDSize, dataKeySize)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(fields[1])
	defer clear(key)
	if err != nil || len(key) != dataKeySize {
		return masterKey{}, fmt.Errorf("key %s is not %d bytes in base64: restore the line from a backup", fields[0], dataKeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return masterKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return masterKey{id: fields[0], aead: aead}, err
}

func isID(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return s != "" && len(s) <= maxIDSize && strings.Trim(s, letters) == ""
}

// seal seals a data key; see the package comment.
func (k masterKey) seal(plain []byte) []byte {
	header := append([]byte{byte(len(k.id))}, k.id...)
	return k.aead.Seal(header, nil, plain, header)
}

// open opens the part of a sealed data key after its header.
func (k masterKey) open(header, sealed []byte) ([]byte, error) {
	plain, err := k.aead.Open(nil, nil, sealed, header)
	if err != nil {
		return nil, fmt.Errorf("data key: %w", ErrTampered)
	}
	return plain, nil
}

// splitSealed splits a sealed data key into its header, the id in the header, and the
// rest.
func splitSealed(sealed []byte) (header []byte, id string, rest []byte, err error) {
	if len(sealed) < 1 || len(sealed) != 1+int(sealed[0])+nonceSize+dataKeySize+tagSize {
		return nil, "", nil, fmt.Errorf("%w: the data key was not sealed by a key file", ErrMalformed)
	}
	header, rest = sealed[:1+sealed[0]], sealed[1+sealed[0]:]
	if id = string(header[1:]); !isID(id) {
		return nil, "", nil, fmt.Errorf("%w: the data key was not sealed by a key file", ErrMalformed)
	}
	return header, id, rest, nil
}
