package kmskeys_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/facetheory/isr/tabletheory/envelope"
	"github.com/facetheory/isr/tabletheory/kmskeys"
)

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	fake, client := newFakeKMS(t, "key-1")
	for _, id := range []string{"key-1", arn("key-1")} {
		keys := kmskeys.New(client, id)
		sealed := seal(t, keys, str("x"))
		if edk := dataKey(t, sealed["secret"]); len(edk) != 184 {
			t.Errorf("edk has %d bytes; want 184, as from KMS", len(edk))
		}
		if err := envelope.Open(t.Context(), keys, home(), sealed, "secret"); err != nil {
			t.Error(err)
		}
	}
	if n := fake.decrypts(); n != 2 {
		t.Errorf("%d Decrypts; want 2", n)
	}
}

// TestPreviousKeys: after an alias is pointed to another key, attributes sealed by the
// previous key can be opened only if its ID is passed to New.
func TestPreviousKeys(t *testing.T) {
	t.Parallel()
	fake, client := newFakeKMS(t, "key-1", "key-2")
	fake.pointAlias("alias/app", "key-1")
	former := seal(t, kmskeys.New(client, "alias/app"), str("x"))
	fake.pointAlias("alias/app", "key-2")

	err := envelope.Open(t.Context(), kmskeys.New(client, "alias/app"), home(), item{"secret": former["secret"]}, "secret")
	if !errors.Is(err, envelope.ErrUnknownKey) || !strings.Contains(err.Error(), "pass the ID of the previous key to kmskeys.New") {
		t.Errorf("%v; want ErrUnknownKey with advice", err)
	}
	both := kmskeys.New(client, "alias/app", "key-1")
	current := seal(t, both, str("y"))
	for _, sealed := range []item{former, current} {
		if err := envelope.Open(t.Context(), both, home(), item{"secret": sealed["secret"]}, "secret"); err != nil {
			t.Error(err)
		}
	}
	if err := envelope.Open(t.Context(), kmskeys.New(client, "key-2"), home(), current, "secret"); err != nil {
		t.Errorf("sealed by the current key: %v", err)
	}
}

// TestForeignKey: data keys sealed by a key that was not passed to New are rejected, even
// if KMS would decrypt them.
func TestForeignKey(t *testing.T) {
	t.Parallel()
	_, client := newFakeKMS(t, "ours", "theirs")
	forged := seal(t, kmskeys.New(client, "theirs"), str("x"))
	err := envelope.Open(t.Context(), kmskeys.New(client, "ours"), home(), forged, "secret")
	if !errors.Is(err, envelope.ErrUnknownKey) {
		t.Errorf("%v; want ErrUnknownKey", err)
	}
}

// TestEncryptionContext: data keys sealed by the same key with another encryption context
// are rejected.
func TestEncryptionContext(t *testing.T) {
	t.Parallel()
	_, client := newFakeKMS(t, "key-1")
	out, err := client.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{
		KeyId: aws.String("key-1"), KeySpec: types.DataKeySpecAes256, EncryptionContext: map[string]string{"purpose": "another"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kmskeys.New(client, "key-1").OpenDataKey(t.Context(), out.CiphertextBlob)
	if !errors.Is(err, envelope.ErrTampered) {
		t.Errorf("%v; want ErrTampered", err)
	}
}

func TestTampered(t *testing.T) {
	t.Parallel()
	_, client := newFakeKMS(t, "key-1")
	keys := kmskeys.New(client, "key-1")
	sealed := seal(t, keys, str("x"))
	dataKey(t, sealed["secret"])[7] ^= 1
	err := envelope.Open(t.Context(), keys, home(), sealed, "secret")
	if _, ok := errors.AsType[*types.InvalidCiphertextException](err); !ok || !errors.Is(err, envelope.ErrTampered) {
		t.Errorf("%v; want ErrTampered and KMS's error", err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	fake, client := newFakeKMS(t, "key-1")
	sealed := seal(t, kmskeys.New(client, "key-1"), str("x"))
	missing := kmskeys.New(client, "key-0")
	sealing := envelope.Seal(t.Context(), missing, home(), item{"secret": str("x")}, "secret")
	for _, err := range []error{
		sealing,
		envelope.Open(t.Context(), missing, home(), item{"secret": sealed["secret"]}, "secret"),
	} {
		if _, ok := errors.AsType[*types.NotFoundException](err); !ok || !strings.Contains(err.Error(), `with the KMS key "key-0"`) {
			t.Errorf("%v; want KMS's NotFoundException and the key's name", err)
		}
	}
	keys := kmskeys.New(client, "key-1", "key-0")
	fake.failNext(failure{400, "DisabledException", "key-1 is disabled."})
	err := envelope.Open(t.Context(), keys, home(), item{"secret": sealed["secret"]}, "secret")
	if _, ok := errors.AsType[*types.DisabledException](err); !ok {
		t.Errorf("%v; want KMS's DisabledException without trying another key", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := envelope.Open(ctx, keys, home(), item{"secret": sealed["secret"]}, "secret"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want Canceled", err)
	}
}

// TestThrottling: the SDK retries throttled calls.
func TestThrottling(t *testing.T) {
	t.Parallel()
	fake, client := newFakeKMS(t, "key-1")
	keys := kmskeys.New(client, "key-1")
	throttled := failure{400, "ThrottlingException", "Rate exceeded"}
	fake.failNext(throttled)
	sealed := seal(t, keys, str("x"))
	fake.failNext(throttled)
	if err := envelope.Open(t.Context(), keys, home(), sealed, "secret"); err != nil {
		t.Error(err)
	}
	fake.failNext(throttled, throttled, throttled)
	if err := envelope.Seal(t.Context(), keys, home(), item{"secret": str("x")}, "secret"); err == nil || !strings.Contains(err.Error(), "ThrottlingException") {
		t.Errorf("%v; want ThrottlingException", err)
	}
}
