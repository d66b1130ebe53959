package simulator

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// An errand is the purpose of a call, derived from its rows. Faults are aimed at errands,
// and interleavings are counted by errand.
type errand string

const (
	acquiring   errand = "acquire"
	refreshing  errand = "refresh"
	backingOff  errand = "back-off"
	releasing   errand = "release"
	publishing  errand = "publish"
	asserting   errand = "rollback"
	settling    errand = "settlement of the log"
	purging     errand = "purge"
	readingPage errand = "read of a page"
	readingLog  errand = "read of the log"
	storing     errand = "body"
	other       errand = "other"
)

// errandOfTransaction classifies a transaction by its actions, each a verb and the sort
// key of a row.
func errandOfTransaction(actions map[string]bool) errand {
	switch {
	case actions["put LOCK"]:
		return acquiring
	case actions["update LOCK"]:
		return refreshing
	case actions["update META"] && actions["delete LOCK"]:
		return publishing
	case actions["update META"] && actions["update SEQ"]:
		return asserting
	case actions["update SEQ"] && isPurge(actions):
		return purging
	case actions["update SEQ"]:
		return settling
	}
	return other
}

func isPurge(actions map[string]bool) bool {
	for action := range actions {
		if action == "update PURGE" || strings.HasPrefix(action, "update MARK#") {
			return true
		}
	}
	return false
}

// errandOfUpdate classifies an update of one row.
func errandOfUpdate(in *dynamodb.UpdateItemInput) errand {
	if textOf(in.Key, "sk") != "LOCK" {
		return other
	}
	for _, name := range in.ExpressionAttributeNames {
		if name == "failures" {
			return backingOff
		}
	}
	if strings.Contains(aws.ToString(in.UpdateExpression), "failures") {
		return backingOff
	}
	return refreshing
}

// errandOfRead classifies a read in a partition.
func (w *world) errandOfRead(pk string) errand {
	switch {
	case pk == "PURGE":
		return readingLog
	case w.pageOf(pk) != nil:
		return readingPage
	}
	return other
}
