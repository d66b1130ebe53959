package envelope_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/tabletheory/envelope"
)

var update = flag.Bool("update", false, "write the answers of the test vectors instead of checking them")

// vectors is spec/vectors/encryption.json; see spec/README.md.
type vectors struct {
	Attributes []attributeVector `json:"attributes"`
	Refused    []refusedVector   `json:"refused"`
	Plaintexts []plaintextVector `json:"plaintexts"`
	KeyFiles   []keyFileVector   `json:"key_files"`
}

// place is the location of a vector's attribute, and its data key.
type place struct {
	Table     string    `json:"table"`
	Key       []keyPart `json:"key"`
	Attribute string    `json:"attribute"`
	DataKey   string    `json:"data_key"`
}

type keyPart struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

type attributeVector struct {
	Name string `json:"name"`
	place
	Value          json.RawMessage `json:"value"`
	AdditionalData string          `json:"additional_data"`
	Plaintext      string          `json:"plaintext"`
	Stored         struct {
		M struct {
			V struct {
				N string
			} `json:"v"`
			EDK   binary `json:"edk"`
			Nonce binary `json:"nonce"`
			CT    binary `json:"ct"`
		}
	} `json:"stored"`
}

type binary struct{ B []byte }

type refusedVector struct {
	Name string `json:"name"`
	place
	Stored json.RawMessage `json:"stored"`
	Error  string          `json:"error"`
}

type plaintextVector struct {
	Name      string `json:"name"`
	Plaintext string `json:"plaintext"`
	Canonical string `json:"canonical,omitempty"`
	Error     string `json:"error,omitempty"`
}

type keyFileVector struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	EDK     []byte `json:"edk"`
	DataKey string `json:"data_key,omitempty"`
	Error   string `json:"error,omitempty"`
}

func TestVectors(t *testing.T) {
	t.Parallel()
	const path = "../../spec/vectors/encryption.json"
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(stored, &v); err != nil {
		t.Fatal(err)
	}
	v.answer(t)
	text := new(bytes.Buffer)
	e := json.NewEncoder(text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(stored), text.String()); d != "" {
		t.Errorf("%s differs from the code (-file +code); if the change is intended, run go test ./tabletheory/envelope -run TestVectors -update:\n%s", path, d)
	}
}

// answer computes the answers of all vectors.
func (v *vectors) answer(t *testing.T) {
	t.Helper()
	for i := range v.Attributes {
		v.Attributes[i].answer(t)
	}
	for i := range v.Refused {
		r := &v.Refused[i]
		r.Error = vocabulary.ErrorName(r.open(t, item{r.Attribute: parsed(t, r.Stored)}))
	}
	for i := range v.Plaintexts {
		v.Plaintexts[i].answer(t)
	}
	for i := range v.KeyFiles {
		v.KeyFiles[i].answer(t)
	}
}

// answer encrypts the value with the nonce of the file, and opens the result.
func (v *attributeVector) answer(t *testing.T) {
	t.Helper()
	ad, err := v.location(t).AdditionalData(v.Attribute)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	plaintext, err := envelope.AppendValue(nil, parsed(t, v.Value), 1)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	block, err := aes.NewCipher(unhex(t, v.DataKey))
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	v.AdditionalData, v.Plaintext = hex.EncodeToString(ad), string(plaintext)
	v.Stored.M.CT.B = aead.Seal(nil, v.Stored.M.Nonce.B, plaintext, ad)
	v.readBack(t)
}

// readBack checks that opening the stored attribute returns the value.
func (v *attributeVector) readBack(t *testing.T) {
	t.Helper()
	m := v.Stored.M
	stored := item{v.Attribute: obj(item{"v": num(m.V.N), "edk": bin(m.EDK.B), "nonce": bin(m.Nonce.B), "ct": bin(m.CT.B)})}
	if err := v.open(t, stored); err != nil {
		t.Errorf("%s: %v", v.Name, err)
		return
	}
	again, err := envelope.AppendValue(nil, stored[v.Attribute], 1)
	if string(again) != v.Plaintext || err != nil {
		t.Errorf("%s: opened %s, %v; want %s", v.Name, again, err, v.Plaintext)
	}
}

func (v *plaintextVector) answer(t *testing.T) {
	t.Helper()
	v.Canonical, v.Error = "", ""
	value, err := envelope.ParseValue([]byte(v.Plaintext))
	if err != nil {
		v.Error = "MalformedRow"
		return
	}
	canonical, err := envelope.AppendValue(nil, value, 1)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	v.Canonical = string(canonical)
}

func (v *keyFileVector) answer(t *testing.T) {
	t.Helper()
	v.DataKey, v.Error = "", ""
	keys, err := envelope.OpenKeyFile(writeKeyFile(t, v.Text))
	if err != nil {
		v.Error = "InvalidInput"
		return
	}
	key, err := keys.OpenDataKey(t.Context(), v.EDK)
	v.DataKey, v.Error = hex.EncodeToString(key), vocabulary.ErrorName(err)
}

// open opens the attribute of an item at the place with its data key.
func (p *place) open(t *testing.T, stored item) error {
	t.Helper()
	return envelope.Open(t.Context(), fixed{plain: unhex(t, p.DataKey)}, p.location(t), stored, p.Attribute)
}

func (p *place) location(t *testing.T) envelope.Location {
	t.Helper()
	location := envelope.Location{Table: p.Table}
	for _, key := range p.Key {
		location.Key = append(location.Key, envelope.KeyAttribute{Name: key.Name, Value: parsed(t, key.Value)})
	}
	return location
}

func parsed(t *testing.T, text []byte) types.AttributeValue {
	t.Helper()
	v, err := envelope.ParseValue(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
