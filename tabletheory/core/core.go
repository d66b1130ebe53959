// Package core has the name by which FaceTheory's documents call the transaction
// builder of package tabletheory. Other programs need only tabletheory.
package core

import "github.com/facetheory/isr/tabletheory"

// TransactionBuilder is what [tabletheory.DB.TransactWrite] passes to its
// function.
type TransactionBuilder = *tabletheory.TransactionBuilder
