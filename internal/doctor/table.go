package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/dynamostore"
)

// backups is the part of DynamoDB that embedded engines do not have.
type backups interface {
	DescribeContinuousBackups(context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error)
}

// Table examines the table. It changes nothing: permissions to write are tried by requests
// whose condition is never true, on a key that no row has.
func Table(api dynamostore.TableAPI, name string) Check {
	return Check{Name: "table", Run: func(ctx context.Context) []Finding {
		t := tableCheck{api: api, name: name}
		table, faults := dynamostore.InspectTable(ctx, api, name)
		if len(faults) == 1 && table == nil && noAnswer(faults[0]) {
			return []Finding{{
				Severity: Fault, What: "DynamoDB does not answer", Evidence: []string{faults[0].Error()},
				Do: "correct store.dynamodb_endpoint (--dynamodb-endpoint) or store.region (--region), or the network",
			}}
		}
		for _, err := range faults {
			t.found = append(t.found, t.fault(err))
			if errors.Is(err, dynamostore.ErrNoTable) {
				return t.found
			}
		}
		t.permissions(ctx)
		if _, embedded := api.(backups); embedded && table != nil {
			t.settings(ctx, table)
		}
		if !slices.ContainsFunc(t.found, func(f Finding) bool { return f.Severity == Fault || f.Severity == Warning }) {
			t.found = slices.Insert(t.found, 0, Finding{Severity: OK, What: name + ": keys, TTL and permissions are right"})
		}
		return t.found
	}}
}

type tableCheck struct {
	api   dynamostore.TableAPI
	name  string
	found []Finding
}

// fault makes a finding of an error of InspectTable.
func (t *tableCheck) fault(err error) Finding {
	if denied, ok := deniedAction(err); ok {
		f := denied.finding("table " + t.name)
		if denied.action == "dynamodb:DescribeTimeToLive" {
			f.Severity, f.What = Warning, f.What+", so that TTL cannot be checked; without TTL the table grows forever"
		}
		return f
	}
	var known *dynamostore.TableError
	if errors.As(err, &known) {
		return Finding{Severity: Fault, What: fmt.Sprintf("table %s: %s", t.name, known.Problem), Do: known.Do}
	}
	return Finding{Severity: Fault, What: fmt.Sprintf("table %s cannot be read", t.name), Evidence: []string{err.Error()}, Do: "see the AWS configuration: aws sts get-caller-identity"}
}

// The key of the requests that try permissions. No row of isr has it.
const (
	dryRunPK = "ISR-DOCTOR"
	dryRunSK = "DRY-RUN"
	never    = "attribute_exists(pk) AND attribute_not_exists(pk)"
)

// permissions tries each operation that isr needs.
func (t *tableCheck) permissions(ctx context.Context) {
	key := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: dryRunPK}, "sk": &types.AttributeValueMemberS{Value: dryRunSK}}
	condition := aws.String(never)
	tries := []struct {
		action string
		need   string // for what; empty for serving
		do     func() error
	}{
		{"dynamodb:GetItem", "", func() error {
			_, err := t.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.name, Key: key})
			return err
		}},
		{"dynamodb:BatchGetItem", "", func() error {
			_, err := t.api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{t.name: {Keys: []map[string]types.AttributeValue{key}}}})
			return err
		}},
		{"dynamodb:Query", "", func() error {
			_, err := t.api.Query(ctx, &dynamodb.QueryInput{
				TableName: &t.name, Limit: aws.Int32(1), KeyConditionExpression: aws.String("pk = :pk"),
				ExpressionAttributeValues: map[string]types.AttributeValue{":pk": key["pk"]},
			})
			return err
		}},
		{"dynamodb:PutItem", "", func() error {
			_, err := t.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.name, Item: key, ConditionExpression: condition})
			return err
		}},
		{"dynamodb:UpdateItem", "", func() error {
			_, err := t.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &t.name, Key: key, UpdateExpression: aws.String("REMOVE dry_run"), ConditionExpression: condition})
			return err
		}},
		{"dynamodb:DeleteItem", "", func() error {
			_, err := t.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &t.name, Key: key, ConditionExpression: condition})
			return err
		}},
		{"dynamodb:ConditionCheckItem", "", func() error {
			_, err := t.api.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
				{ConditionCheck: &types.ConditionCheck{TableName: &t.name, Key: key, ConditionExpression: condition}},
			}})
			return err
		}},
		{"dynamodb:Scan", "isr ls, isr gc and isr quarantine", func() error {
			_, err := t.api.Scan(ctx, &dynamodb.ScanInput{TableName: &t.name, Limit: aws.Int32(1)})
			return err
		}},
	}
	errs := make([]error, len(tries))
	var trying sync.WaitGroup
	for i, try := range tries {
		trying.Go(func() { errs[i] = try.do() })
	}
	trying.Wait()
	failed := make(map[string]bool)
	for i, try := range tries {
		err := errs[i]
		if err == nil || refusedByCondition(err) {
			continue
		}
		denied, ok := deniedAction(err)
		switch {
		case ok:
			denied.action = try.action
			f := denied.finding("table " + t.name)
			if try.need != "" {
				f.Severity, f.What = Warning, f.What+", which "+try.need+" need"
			}
			t.found = append(t.found, f)
		case len(t.found) > 0 && t.found[0].Severity == Fault: // such as wrong keys, which fail here again
		case !failed[err.Error()]:
			failed[err.Error()] = true
			t.found = append(t.found, Finding{Severity: Fault, What: fmt.Sprintf("table %s: %s fails", t.name, strings.TrimPrefix(try.action, "dynamodb:")), Evidence: []string{err.Error()}})
		}
	}
}

// settings reports settings that isr does not need, but an operator may want.
func (t *tableCheck) settings(ctx context.Context, table *types.TableDescription) {
	note := func(what, do string) {
		t.found = append(t.found, Finding{Severity: Note, What: "table " + t.name + ": " + what, Do: do})
	}
	if b := table.BillingModeSummary; b == nil || b.BillingMode != types.BillingModePayPerRequest {
		note("it has provisioned capacity: bursts of renders may be throttled", "watch isr_store_throttles_total, or: aws dynamodb update-table --table-name "+t.name+" --billing-mode PAY_PER_REQUEST")
	}
	if !aws.ToBool(table.DeletionProtectionEnabled) {
		note("deletion protection is off", "aws dynamodb update-table --table-name "+t.name+" --deletion-protection-enabled")
	}
	out, err := t.api.(backups).DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &t.name})
	if err != nil || out.ContinuousBackupsDescription == nil {
		return // not granted, or not AWS: isr does not need it
	}
	if p := out.ContinuousBackupsDescription.PointInTimeRecoveryDescription; p == nil || p.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled {
		note("point-in-time recovery is off: after a mistake pages are rendered again, but pins and history are lost",
			"aws dynamodb update-continuous-backups --table-name "+t.name+" --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true")
	}
}

// refusedByCondition reports whether a write was permitted, and refused by its condition.
func refusedByCondition(err error) bool {
	var single *types.ConditionalCheckFailedException
	if errors.As(err, &single) {
		return true
	}
	var canceled *types.TransactionCanceledException
	return errors.As(err, &canceled) && slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == "ConditionalCheckFailed"
	})
}

// A denial is an error of AWS about a missing permission.
type denial struct {
	action   string // "dynamodb:PutItem"
	explicit bool   // a policy denies it
}

var performs = regexp.MustCompile(`not authorized to perform: ([a-z0-9-]+:[A-Za-z0-9]+)`)

// deniedAction reads the action from AWS's text of a denial: "User: ARN is not authorized to
// perform: ACTION on resource: ARN because no identity-based policy allows the ACTION action".
func deniedAction(err error) (denial, bool) {
	var coded smithy.APIError
	if !errors.As(err, &coded) || !slices.Contains([]string{"AccessDeniedException", "AccessDenied", "UnauthorizedOperation"}, coded.ErrorCode()) {
		return denial{}, false
	}
	d := denial{action: "the action", explicit: strings.Contains(coded.ErrorMessage(), "explicit deny")}
	if m := performs.FindStringSubmatch(coded.ErrorMessage()); m != nil {
		d.action = m[1]
	}
	return d, true
}

func (d denial) finding(subject string) Finding {
	f := Finding{Severity: Fault, What: fmt.Sprintf("%s: the permission %s is missing", subject, d.action), Do: fmt.Sprintf("add %q to the actions of the role's policy (docs/fleet.md)", d.action)}
	if d.explicit {
		f.Do = fmt.Sprintf("remove the Deny of %q from the policy, the permissions boundary or the organization", d.action)
	}
	return f
}

// noAnswer reports whether no response arrived.
func noAnswer(err error) bool {
	var send *url.Error
	var network net.Error
	return errors.As(err, &send) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}
