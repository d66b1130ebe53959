package tabletheory_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/envelope"
)

// Customer keeps secrets in encrypted fields.
type Customer struct {
	ID   string `theorydb:"pk"`
	Name string
	IBAN string `theorydb:"encrypted"`
}

// In a real program TableName would read an environment variable.
func (Customer) TableName() string { return "customers" }

// Encrypted fields need a provider of keys: a key file for development, or, with
// kmskeys.New(kms.NewFromConfig(config), "alias/customers"), AWS KMS.
func ExampleWithKeyProvider() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	keys, err := envelope.OpenKeyFile(filepath.Join(folder, "keys"))
	if err != nil {
		log.Fatal(err)
	}
	api := localdynamo.OpenMemory(localdynamo.Options{})
	defer api.Close()
	db := tabletheory.New(api, tabletheory.WithKeyProvider(keys))
	if err := db.EnsureTable(context.Background(), Customer{}); err != nil {
		log.Fatal(err)
	}

	if err := db.Model(&Customer{ID: "c-1", Name: "Ada", IBAN: "DE02120300000000202051"}).Create(); err != nil {
		log.Fatal(err)
	}
	if err := keys.Rotate(); err != nil { // existing items stay readable
		log.Fatal(err)
	}
	var customer Customer
	if err := db.Model(&Customer{}).Where("ID", "=", "c-1").First(&customer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(customer.Name, customer.IBAN)
	// Output: Ada DE02120300000000202051
}
