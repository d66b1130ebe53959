//go:build linux || darwin

package localdynamo_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

var crashes = flag.Int("crashes", 16, "number of processes that TestCrashRecovery kills")

// Each worker goroutine of a child process writes its own rows, so the expected
// rows do not depend on how the workers interleave.
const (
	crashWorkers = 16
	crashRows    = 40 // per worker
)

// row is an item of the crash test. Nearly every write changes n, the range key
// of both indexes. A row without a group is not in the global index.
type row struct {
	n      int
	filler int // bytes
	group  string
}

// rows holds the rows of one worker.
type rows map[int]row

// step is one write of a worker: a transaction if it has a token, otherwise a
// single action.
type step struct {
	token   string
	actions []action
}

type action struct {
	verb  string // put, add or delete
	at    int    // number of the row
	row   row    // put: the new row; add: the filler to set
	below int    // add: the condition that n is less than this, or absent
}

// stepsOf generates the steps of a worker. A child process and its parent
// generate the same steps from the same seed.
func stepsOf(seed string, worker int) func() step {
	sum := fnv.New64a()
	sum.Write([]byte(seed))
	random := rand.New(rand.NewPCG(sum.Sum64(), uint64(worker)))
	number := 0
	return func() step {
		number++
		size := []int{1, 1, 1, 1, 2, 2, 3 + random.IntN(20)}[random.IntN(7)]
		s := step{}
		if size > 1 {
			s.token = fmt.Sprintf("%s-%d-%d", seed, worker, number)
		}
		for _, at := range random.Perm(crashRows)[:size] {
			s.actions = append(s.actions, randomAction(random, at))
		}
		return s
	}
}

func randomAction(random *rand.Rand, at int) action {
	a := action{at: at, row: row{filler: random.IntN(600)}}
	if random.IntN(20) == 0 {
		a.row.filler = random.IntN(20_000)
	}
	switch kind := random.IntN(10); {
	case kind < 3:
		a.verb = "put"
		a.row.n = random.IntN(50)
		a.row.group = []string{"", "red", "green", "blue"}[random.IntN(4)]
	case kind < 9:
		a.verb = "add"
		a.below = 10 + random.IntN(100)
	default:
		a.verb = "delete"
	}
	return a
}

// apply returns the rows after a step, and whether its conditions held.
func (r rows) apply(s step) (rows, bool) {
	next := maps.Clone(r)
	for _, a := range s.actions {
		old, found := r[a.at]
		switch a.verb {
		case "put":
			next[a.at] = a.row
		case "delete":
			delete(next, a.at)
		default:
			if found && old.n >= a.below {
				return r, false
			}
			next[a.at] = row{n: old.n + 1, filler: a.row.filler, group: old.group}
		}
	}
	return next, true
}

func crashKey(worker, at int) item {
	return key(fmt.Sprintf("worker%d", worker), fmt.Sprintf("row%02d", at))
}

func (r row) item(worker, at int) item {
	it := crashKey(worker, at)
	it["n"], it["filler"] = num(strconv.Itoa(r.n)), str(strings.Repeat("x", r.filler))
	if r.group != "" {
		it["group"] = str(r.group)
	}
	return it
}

const (
	addOne    = "ADD n :one SET filler = :filler"
	lessThan  = "attribute_not_exists(n) OR n < :below"
	indexByN  = "by-n"  // local
	indexByGN = "by-gn" // global
)

func (a action) values() item {
	return item{":one": num("1"), ":filler": str(strings.Repeat("x", a.row.filler)), ":below": num(strconv.Itoa(a.below))}
}

// execute performs a step, and reports whether its conditions held.
func (s step) execute(db *localdynamo.DB, worker int) (bool, error) {
	err := s.write(db, worker)
	var failed *types.ConditionalCheckFailedException
	var canceled *types.TransactionCanceledException
	if errors.As(err, &failed) || errors.As(err, &canceled) {
		return false, nil
	}
	return err == nil, err
}

func (s step) write(db *localdynamo.DB, worker int) error {
	ctx := context.Background()
	if s.token != "" {
		in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: &s.token}
		for _, a := range s.actions {
			in.TransactItems = append(in.TransactItems, a.inTransaction(worker))
		}
		_, err := db.TransactWriteItems(ctx, in)
		return err
	}
	var err error
	switch a := s.actions[0]; a.verb {
	case "put":
		_, err = db.PutItem(ctx, &dynamodb.PutItemInput{TableName: things, Item: a.row.item(worker, a.at)})
	case "delete":
		_, err = db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: things, Key: crashKey(worker, a.at)})
	default:
		_, err = db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: things, Key: crashKey(worker, a.at), UpdateExpression: aws.String(addOne),
			ConditionExpression: aws.String(lessThan), ExpressionAttributeValues: a.values(),
		})
	}
	return err
}

func (a action) inTransaction(worker int) types.TransactWriteItem {
	switch a.verb {
	case "put":
		return putting(a.row.item(worker, a.at), "")
	case "delete":
		return types.TransactWriteItem{Delete: &types.Delete{TableName: things, Key: crashKey(worker, a.at)}}
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: things, Key: crashKey(worker, a.at), UpdateExpression: aws.String(addOne),
		ConditionExpression: aws.String(lessThan), ExpressionAttributeValues: a.values(),
	}}
}

// writeUntilKilled runs the workers. After each acknowledged step it prints the
// worker's number.
func writeUntilKilled(path, seed string) {
	db := mustOpen(path)
	var group sync.WaitGroup
	for worker := range crashWorkers {
		line := fmt.Appendln(nil, worker)
		group.Go(func() {
			for next := stepsOf(seed, worker); ; {
				if _, err := next().execute(db, worker); err != nil {
					fatal(err)
				}
				if _, err := os.Stdout.Write(line); err != nil { // unbuffered: one write call per line
					fatal(err)
				}
			}
		})
	}
	group.Wait()
}

// tracedSteps is how many steps a traced process executes.
const tracedSteps = 16

// writeTraced runs one worker for some steps, and closes the file. Without a seed it only opens it.
func writeTraced(path, seed string) {
	db := mustOpen(path)
	if seed != "" {
		next := stepsOf(seed, 0)
		for range tracedSteps {
			if _, err := next().execute(db, 0); err != nil {
				fatal(err)
			}
			if _, err := os.Stdout.WriteString("acknowledged\n"); err != nil {
				fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		fatal(err)
	}
}

// TestCrashRecovery kills processes while they write. Acknowledged steps must
// survive; the one step per worker that was not acknowledged must be there
// completely or not at all.
func TestCrashRecovery(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db, err := localdynamo.Open(path, localdynamo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	createCrashTable(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	workers := make([]rows, crashWorkers)
	for w := range workers {
		workers[w] = rows{}
	}
	steps := 0
	for crash := range *crashes {
		seed := strconv.FormatUint(rand.Uint64(), 36)
		lines := 1 + rand.IntN(1<<(1+crash%11)) // early crashes too
		cmd, out := child(t, "writer", "", path, seedVariable+"="+seed)
		acknowledged := make([]int, crashWorkers)
		for n := 1; out.Scan(); n++ {
			w, err := strconv.Atoi(out.Text())
			if err != nil {
				t.Fatal(err)
			}
			acknowledged[w]++
			steps++
			if n == lines {
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); !wasKilled(err) {
			t.Fatalf("crash %d, seed %s: the child process exited before it was killed: %v", crash, seed, err)
		}
		afterCrash(t, path, seed, acknowledged, workers)
		if t.Failed() {
			t.Fatalf("crash %d, seed %s, after %d lines", crash, seed, lines)
		}
	}
	t.Logf("%d crashes, %d acknowledged steps", *crashes, steps)
}

func wasKilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func createCrashTable(t *testing.T, db *localdynamo.DB) {
	t.Helper()
	schema := func(hash, rng string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &rng, KeyType: types.KeyTypeRange}}
	}
	define := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	all := &types.Projection{ProjectionType: types.ProjectionTypeAll}
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: things, BillingMode: types.BillingModePayPerRequest, KeySchema: schema("pk", "sk"),
		AttributeDefinitions: []types.AttributeDefinition{
			define("pk", types.ScalarAttributeTypeS), define("sk", types.ScalarAttributeTypeS),
			define("group", types.ScalarAttributeTypeS), define("n", types.ScalarAttributeTypeN),
		},
		LocalSecondaryIndexes:  []types.LocalSecondaryIndex{{IndexName: aws.String(indexByN), KeySchema: schema("pk", "n"), Projection: all}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String(indexByGN), KeySchema: schema("group", "n"), Projection: all}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// afterCrash opens the file, compares it with the acknowledged steps, and updates
// workers to its contents.
func afterCrash(t *testing.T, path, seed string, acknowledged []int, workers []rows) {
	t.Helper()
	db, err := localdynamo.Open(path, localdynamo.Options{SweepInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for w := range workers {
		workers[w] = recoverWorker(t, db, seed, w, acknowledged[w], workers[w])
	}
	grouped := 0
	for _, r := range workers {
		for _, row := range r {
			if row.group != "" {
				grouped++
			}
		}
	}
	equal(t, countGrouped(t, db), grouped)
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// recoverWorker finds out whether the step after the acknowledged ones was
// committed. Like a client that got no reply, it retries the step if a token makes
// that safe. It returns the resulting rows.
func recoverWorker(t *testing.T, db *localdynamo.DB, seed string, worker, acknowledged int, before rows) rows {
	t.Helper()
	next := stepsOf(seed, worker)
	confirmed, last := before, step{}
	for range acknowledged {
		s := next()
		ok := false
		if confirmed, ok = confirmed.apply(s); ok && s.token != "" {
			last = s
		}
	}
	open := next()
	done, _ := confirmed.apply(open)
	found := readRows(t, db, worker)
	if !maps.Equal(found, confirmed) && !maps.Equal(found, done) {
		t.Errorf("worker %d: after %d acknowledged steps got\n%v\nwant\n%v\nor, with the next step,\n%v", worker, acknowledged, found, confirmed, done)
	}
	if last.token != "" {
		if ok, err := last.execute(db, worker); !ok || err != nil {
			t.Errorf("worker %d: retry of an acknowledged transaction: %v, %v", worker, ok, err)
		}
		equal(t, readRows(t, db, worker), found)
	}
	if open.token == "" {
		return found
	}
	if _, err := open.execute(db, worker); err != nil {
		t.Error(err)
	}
	equal(t, readRows(t, db, worker), done)
	return done
}

// readRows reads a worker's rows, and checks that the local index has the same.
func readRows(t *testing.T, db *localdynamo.DB, worker int) rows {
	t.Helper()
	read := func(index *string) rows {
		found := rows{}
		pages := dynamodb.QueryInput{
			TableName: things, IndexName: index, KeyConditionExpression: aws.String("pk = :w"),
			ExpressionAttributeValues: item{":w": crashKey(worker, 0)["pk"]},
		}
		for {
			out, err := db.Query(t.Context(), &pages)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range out.Items {
				at, r := parseRow(t, it)
				found[at] = r
			}
			if pages.ExclusiveStartKey = out.LastEvaluatedKey; pages.ExclusiveStartKey == nil {
				return found
			}
		}
	}
	found := read(nil)
	equal(t, read(aws.String(indexByN)), found)
	return found
}

func parseRow(t *testing.T, it item) (int, row) {
	t.Helper()
	text := func(name string) string {
		switch v := it[name].(type) {
		case *types.AttributeValueMemberS:
			return v.Value
		case *types.AttributeValueMemberN:
			return v.Value
		}
		return ""
	}
	at, err := strconv.Atoi(strings.TrimPrefix(text("sk"), "row"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text("n"))
	if err != nil {
		t.Fatal(err)
	}
	return at, row{n: n, filler: len(text("filler")), group: text("group")}
}

// countGrouped counts the entries in the global index.
func countGrouped(t *testing.T, db *localdynamo.DB) int {
	t.Helper()
	pages := dynamodb.ScanInput{TableName: things, IndexName: aws.String(indexByGN)}
	seen := []string{}
	for {
		out, err := db.Scan(t.Context(), &pages)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range out.Items {
			seen = append(seen, fmt.Sprint(it["pk"].(*types.AttributeValueMemberS).Value, it["sk"].(*types.AttributeValueMemberS).Value))
		}
		if pages.ExclusiveStartKey = out.LastEvaluatedKey; pages.ExclusiveStartKey == nil {
			slices.Sort(seen)
			return len(slices.Compact(seen))
		}
	}
}
