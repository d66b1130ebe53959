package envelope_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/tabletheory/envelope"
)

// values compares attribute values.
func values() cmp.Option {
	return cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{},
		types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{},
		types.AttributeValueMemberBS{}, types.AttributeValueMemberL{}, types.AttributeValueMemberM{})
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	plain := item{
		"string": str("geheim €"), "empty": str(""), "number": num("-12.5"), "binary": bin([]byte{0, 255}), "null": null(),
		"true": &types.AttributeValueMemberBOOL{Value: true}, "false": &types.AttributeValueMemberBOOL{},
		"strings": &types.AttributeValueMemberSS{Value: []string{"a", "b"}}, "numbers": &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
		"binaries": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		"list":     list(str("x"), &types.AttributeValueMemberL{Value: []types.AttributeValue{}}, num("1")), "map": obj(item{"a": obj(item{}), "b": null()}),
	}
	names := slices.Collect(maps.Keys(plain))
	stored := maps.Clone(plain)
	if err := envelope.Seal(t.Context(), keys, home(), stored, append(names, "absent")...); err != nil {
		t.Fatal(err)
	}
	for name, v := range stored {
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok || len(m.Value) != 4 {
			t.Errorf("%s is stored as %#v; want a map of 4 members", name, v)
		}
	}
	if err := envelope.Open(t.Context(), keys, home(), stored, append(names, "absent")...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, stored, values()); diff != "" {
		t.Errorf("Open returned another value (- sealed, + opened): %s", diff)
	}
}

// TestDataKeyPerWrite: a write generates one data key, reading its attributes opens one,
// and a write without encrypted attributes generates none.
func TestDataKeyPerWrite(t *testing.T) {
	t.Parallel()
	file, _ := newKeyFile(t)
	keys := &countingProvider{KeyProvider: file}
	a, b := item{"x": str("1"), "y": str("2")}, item{"z": str("3")}
	for _, attributes := range []item{a, b, {"plain": str("4")}} {
		if err := envelope.Seal(t.Context(), keys, home(), attributes, "x", "y", "z"); err != nil {
			t.Fatal(err)
		}
	}
	if keys.created != 2 {
		t.Errorf("%d data keys created; want 2", keys.created)
	}
	nonces := map[string]bool{}
	for _, v := range []types.AttributeValue{a["x"], a["y"], b["z"]} {
		nonces[string(member(t, v, "nonce"))] = true
	}
	if len(nonces) != 3 {
		t.Errorf("%d nonces for 3 attributes", len(nonces))
	}
	maps.Copy(a, b)
	if err := envelope.Open(t.Context(), keys, home(), a, "x", "y", "z"); err != nil {
		t.Fatal(err)
	}
	if keys.opened != 2 {
		t.Errorf("%d data keys opened; want 2", keys.opened)
	}
}

func member(t testing.TB, v types.AttributeValue, name string) []byte {
	t.Helper()
	return v.(*types.AttributeValueMemberM).Value[name].(*types.AttributeValueMemberB).Value
}

// TestOtherLocation: an attribute copied to another location cannot be opened.
func TestOtherLocation(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	key := func(name string, v types.AttributeValue) envelope.KeyAttribute {
		return envelope.KeyAttribute{Name: name, Value: v}
	}
	pk, sk := home().Key[0], home().Key[1]
	for about, location := range map[string]envelope.Location{
		"another table":         {Table: "others", Key: home().Key},
		"another partition key": {Table: "users", Key: []envelope.KeyAttribute{key("pk", str("USER#2")), sk}},
		"another sort key":      {Table: "users", Key: []envelope.KeyAttribute{pk, key("sk", str("PROFILE2"))}},
		"no sort key":           {Table: "users", Key: []envelope.KeyAttribute{pk}},
		"swapped keys":          {Table: "users", Key: []envelope.KeyAttribute{sk, pk}},
		"another key name":      {Table: "users", Key: []envelope.KeyAttribute{key("id", pk.Value), sk}},
		"another key type":      {Table: "users", Key: []envelope.KeyAttribute{key("pk", bin([]byte("USER#1"))), sk}},
		"a shifted boundary":    {Table: "users", Key: []envelope.KeyAttribute{key("pkS", str("USER#1")), sk}},
	} {
		sealed := seal(t, keys, str("x"))
		err := envelope.Open(t.Context(), keys, location, sealed, "secret")
		if !errors.Is(err, envelope.ErrTampered) {
			t.Errorf("%s: %v; want ErrTampered", about, err)
		}
	}
	sealed := seal(t, keys, str("x"))
	err := envelope.Open(t.Context(), keys, home(), item{"other": sealed["secret"]}, "other")
	if !errors.Is(err, envelope.ErrTampered) {
		t.Errorf("another attribute: %v; want ErrTampered", err)
	}
}

// TestEquivalentLocations: a table's ARN and name, and different texts of a number, give
// the same location.
func TestEquivalentLocations(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	location := func(table, number string) envelope.Location {
		return envelope.Location{Table: table, Key: []envelope.KeyAttribute{{Name: "n", Value: num(number)}}}
	}
	stored := item{"secret": str("x")}
	if err := envelope.Seal(t.Context(), keys, location("users", "1.0"), stored, "secret"); err != nil {
		t.Fatal(err)
	}
	arn := "arn:aws:dynamodb:eu-central-1:123456789012:table/users"
	if err := envelope.Open(t.Context(), keys, location(arn, "1"), stored, "secret"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(item{"secret": str("x")}, stored, values()); diff != "" {
		t.Error(diff)
	}
}

// TestTampered: changing any byte of a stored attribute is detected.
func TestTampered(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	sealed := seal(t, keys, str("x"))
	for _, name := range []string{"edk", "nonce", "ct"} {
		bytes := member(t, sealed["secret"], name)
		for i := range bytes {
			bytes[i] ^= 1
			stored := maps.Clone(sealed)
			err := envelope.Open(t.Context(), keys, home(), stored, "secret")
			// A change in the header of edk can also yield an unknown or malformed id.
			known := errors.Is(err, envelope.ErrTampered) ||
				name == "edk" && (errors.Is(err, envelope.ErrUnknownKey) || errors.Is(err, envelope.ErrMalformed))
			if !known {
				t.Errorf("byte %d of %s: %v; want ErrTampered", i, name, err)
			}
			if stored["secret"] != sealed["secret"] {
				t.Errorf("byte %d of %s: the item was modified", i, name)
			}
			bytes[i] ^= 1
		}
	}
	if err := envelope.Open(t.Context(), keys, home(), sealed, "secret"); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	for about, change := range map[string]func(item){
		"no version":            func(m item) { delete(m, "v") },
		"a later version":       func(m item) { m["v"] = num("2") },
		"version is a string":   func(m item) { m["v"] = str("1") },
		"an invalid version":    func(m item) { m["v"] = num("one") },
		"no nonce":              func(m item) { delete(m, "nonce") },
		"a short nonce":         func(m item) { m["nonce"] = bin(make([]byte, 11)) },
		"a long nonce":          func(m item) { m["nonce"] = bin(make([]byte, 16)) },
		"nonce is a string":     func(m item) { m["nonce"] = str("123456789012") },
		"no ct":                 func(m item) { delete(m, "ct") },
		"ct without tag":        func(m item) { m["ct"] = bin(make([]byte, 15)) },
		"ct above 400 KB":       func(m item) { m["ct"] = bin(make([]byte, 400<<10+1)) },
		"an empty data key":     func(m item) { m["edk"] = bin(nil) },
		"a data key above 6 KB": func(m item) { m["edk"] = bin(make([]byte, 6145)) },
		"data key is a string":  func(m item) { m["edk"] = str("x") },
		"a foreign data key":    func(m item) { m["edk"] = bin(make([]byte, 200)) },
		"a fifth member":        func(m item) { m["alg"] = str("none") },
	} {
		sealed := seal(t, keys, str("x"))
		change(sealed["secret"].(*types.AttributeValueMemberM).Value)
		err := envelope.Open(t.Context(), keys, home(), sealed, "secret")
		if !errors.Is(err, envelope.ErrMalformed) {
			t.Errorf("%s: %v; want ErrMalformed", about, err)
		}
	}
}

// TestNotEncrypted: plaintext values are rejected. Otherwise an attacker with write
// access to the table could plant them.
func TestNotEncrypted(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	for _, v := range []types.AttributeValue{str("x"), null(), obj(item{}), obj(item{"v": num("1")}), nil} {
		err := envelope.Open(t.Context(), keys, home(), item{"secret": v}, "secret")
		if !errors.Is(err, envelope.ErrNotEncrypted) {
			t.Errorf("%#v: %v; want ErrNotEncrypted", v, err)
		}
	}
}

// TestErrorsNameLocation: errors name the table, the item and the attribute.
func TestErrorsNameLocation(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	location := envelope.Location{Table: "users", Key: []envelope.KeyAttribute{{Name: "id", Value: bin([]byte{0xab})}, {Name: "n", Value: num("7")}}}
	err := envelope.Open(t.Context(), keys, location, item{"secret": str("x")}, "secret")
	const want = `envelope: decrypt attribute "secret" of item {id=0xab, n=7} of table "users": the attribute is not encrypted: `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s…", err, want)
	}
	err = envelope.Seal(t.Context(), keys, home(), item{"secret": num("x")}, "secret")
	const wanted = `envelope: encrypt attribute "secret" of item {pk="USER#1", sk="PROFILE"} of table "users": "x" is not a number`
	if err == nil || err.Error() != wanted {
		t.Errorf("%v; want %s", err, wanted)
	}
}

// TestAllOrNothing: if one attribute fails, none is changed.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	mixed := item{"a": str("x"), "b": num("no number")}
	before := maps.Clone(mixed)
	if err := envelope.Seal(t.Context(), keys, home(), mixed, "a", "b"); err == nil || !maps.Equal(mixed, before) {
		t.Errorf("seal: %v, %v", err, mixed)
	}
	mixed = item{"a": str("x"), "b": str("y")}
	if err := envelope.Seal(t.Context(), keys, home(), mixed, "a"); err != nil {
		t.Fatal(err)
	}
	before = maps.Clone(mixed)
	if err := envelope.Open(t.Context(), keys, home(), mixed, "a", "b"); !errors.Is(err, envelope.ErrNotEncrypted) || !maps.Equal(mixed, before) {
		t.Errorf("open: %v, %v", err, mixed)
	}
}

func TestInvalidLocation(t *testing.T) {
	t.Parallel()
	keys, _ := newKeyFile(t)
	pk, sk := home().Key[0], home().Key[1]
	for about, location := range map[string]envelope.Location{
		"no table":           {Key: home().Key},
		"no key":             {Table: "users"},
		"three keys":         {Table: "users", Key: []envelope.KeyAttribute{pk, sk, {Name: "x", Value: str("x")}}},
		"a list as key":      {Table: "users", Key: []envelope.KeyAttribute{{Name: "pk", Value: list()}}},
		"no value":           {Table: "users", Key: []envelope.KeyAttribute{{Name: "pk"}}},
		"an invalid number":  {Table: "users", Key: []envelope.KeyAttribute{{Name: "pk", Value: num("x")}}},
		"a key not in UTF-8": {Table: "users", Key: []envelope.KeyAttribute{{Name: "pk", Value: str("\xff")}}},
		"the key itself":     {Table: "users", Key: []envelope.KeyAttribute{{Name: "secret", Value: str("x")}}},
	} {
		if err := envelope.Seal(t.Context(), keys, location, item{"secret": str("x")}, "secret"); err == nil {
			t.Errorf("%s: sealed", about)
		}
	}
}

// TestBadProvider: a provider that breaks its contract does not weaken the encryption,
// and its errors are wrapped.
func TestBadProvider(t *testing.T) {
	t.Parallel()
	good, _ := newKeyFile(t)
	broken := errors.New("no connection")
	for about, keys := range map[string]envelope.KeyProvider{
		"no key":            fixed{sealed: []byte("x")},
		"a key of 16":       fixed{plain: make([]byte, 16), sealed: []byte("x")},
		"an unsealed key":   fixed{plain: make([]byte, 32)},
		"a huge sealed key": fixed{plain: make([]byte, 32), sealed: make([]byte, 6145)},
		"an error":          fixed{err: broken},
	} {
		stored := item{"secret": str("x")}
		err := envelope.Seal(t.Context(), keys, home(), stored, "secret")
		if err == nil || stored["secret"].(*types.AttributeValueMemberS).Value != "x" {
			t.Errorf("%s: %v, %v", about, err, stored)
		}
		if errors.Is(keys.(fixed).err, broken) && !errors.Is(err, broken) {
			t.Errorf("%s: %v does not wrap the provider's error", about, err)
		}
	}
	sealed := seal(t, good, str("x"))
	for _, keys := range []fixed{{}, {plain: make([]byte, 16)}, {err: broken}} {
		if err := envelope.Open(t.Context(), keys, home(), sealed, "secret"); err == nil {
			t.Errorf("%v: opened", keys)
		}
	}
	if err := envelope.Open(t.Context(), fixed{plain: make([]byte, 32)}, home(), sealed, "secret"); !errors.Is(err, envelope.ErrTampered) {
		t.Errorf("the wrong data key: %v; want ErrTampered", err)
	}
}

// recordingProvider records the plain keys that it returns.
type recordingProvider struct {
	*envelope.KeyFile
	plain [][]byte
}

func (k *recordingProvider) NewDataKey(ctx context.Context) (plain, sealed []byte, err error) {
	plain, sealed, err = k.KeyFile.NewDataKey(ctx)
	k.plain = append(k.plain, plain)
	return plain, sealed, err
}

func (k *recordingProvider) OpenDataKey(ctx context.Context, sealed []byte) ([]byte, error) {
	plain, err := k.KeyFile.OpenDataKey(ctx, sealed)
	k.plain = append(k.plain, plain)
	return plain, err
}

func TestPlainKeysAreWiped(t *testing.T) {
	t.Parallel()
	file, _ := newKeyFile(t)
	keys := &recordingProvider{KeyFile: file}
	sealed := seal(t, keys, str("x"))
	if err := envelope.Open(t.Context(), keys, home(), sealed, "secret"); err != nil {
		t.Fatal(err)
	}
	for _, plain := range keys.plain {
		if len(plain) != 32 || slices.ContainsFunc(plain, func(b byte) bool { return b != 0 }) {
			t.Errorf("a data key is not wiped: %x", plain)
		}
	}
	if len(keys.plain) != 2 {
		t.Errorf("the provider returned %d keys; want 2", len(keys.plain))
	}
}
