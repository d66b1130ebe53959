package wire_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/localdynamo/internal/answer"
	"github.com/facetheory/isr/localdynamo/wire"
)

// slowReader is a client that reads nothing until read is closed.
type slowReader struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (w *slowReader) Write(p []byte) (int, error) {
	<-w.read
	return w.ResponseRecorder.Write(p)
}

// TestResponseMemory: the responses in flight, which slow clients make last, have a bound. Those
// beyond it wait, and then get an error that SDKs retry; a write gets it before it is applied.
// Small responses go on.
func TestResponseMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, wire.Config{MaxResponseMemory: 8 << 20})
		const large = 300 << 10
		for i := range 10 {
			status, text := ask(t, h, "PutItem", fmt.Sprintf(`{"TableName":"things","Item":{"pk":{"S":"%d"},"v":{"S":"%s"}}}`, i, strings.Repeat("x", large)))
			if status != http.StatusOK {
				t.Fatal(text)
			}
		}
		read := make(chan struct{})
		var slow sync.WaitGroup
		var recorders []*httptest.ResponseRecorder
		for _, in := range [][2]string{{"Scan", `{"TableName":"things"}`}, {"GetItem", `{"TableName":"things","Key":{"pk":{"S":"1"}}}`}} {
			for range 40 {
				w := httptest.NewRecorder()
				recorders = append(recorders, w)
				slow.Go(func() { h.ServeHTTP(&slowReader{w, read}, request(in[0], strings.NewReader(in[1]))) })
			}
			// The first take the budget; all others have waited in vain by then.
			time.Sleep(2 * answer.Patience)
		}
		const throttled = `{"__type":"com.amazon.coral.availability#ThrottlingException"`
		for operation, body := range map[string]string{
			"Scan":             `{"TableName":"things"}`,
			"Query":            `{"TableName":"things","KeyConditionExpression":"pk = :k","ExpressionAttributeValues":{":k":{"S":"1"}}}`,
			"GetItem":          `{"TableName":"things","Key":{"pk":{"S":"1"}}}`,
			"BatchGetItem":     `{"RequestItems":{"things":{"Keys":[{"pk":{"S":"1"}}]}}}`,
			"TransactGetItems": `{"TransactItems":[{"Get":{"TableName":"things","Key":{"pk":{"S":"1"}}}}]}`,
			"DeleteItem":       `{"TableName":"things","Key":{"pk":{"S":"1"}},"ReturnValues":"ALL_OLD"}`,
			"UpdateItem":       `{"TableName":"things","Key":{"pk":{"S":"1"}},"UpdateExpression":"SET a = pk","ReturnValues":"ALL_NEW"}`,
			"PutItem":          `{"TableName":"things","Item":{"pk":{"S":"1"}},"ConditionExpression":"attribute_not_exists(pk)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`,
		} {
			if status, text := ask(t, h, operation, body); status != http.StatusBadRequest || !strings.HasPrefix(text, throttled) {
				t.Errorf("%s while the budget is used up: got %d %.100s", operation, status, text)
			}
		}
		for operation, body := range map[string]string{
			"GetItem": `{"TableName":"things","Key":{"pk":{"S":"1"}},"ProjectionExpression":"pk"}`,
			"Scan":    `{"TableName":"things","Select":"COUNT"}`,
			"PutItem": `{"TableName":"things","Item":{"pk":{"S":"small"}},"ReturnValues":"ALL_OLD"}`,
		} {
			if status, text := ask(t, h, operation, body); status != http.StatusOK {
				t.Errorf("small %s while the budget is used up: got %d %.100s", operation, status, text)
			}
		}
		var waited sync.WaitGroup
		waited.Go(func() {
			if status, text := ask(t, h, "GetItem", `{"TableName":"things","Key":{"pk":{"S":"1"}}}`); status != http.StatusOK || len(text) < large {
				t.Errorf("after waiting: got %d %.100s", status, text)
			}
		})
		synctest.Wait() // it waits for room
		close(read)
		waited.Wait()
		slow.Wait()
		served, bytes := 0, 0
		for _, recorder := range recorders {
			if recorder.Code == http.StatusOK {
				served++
				bytes += recorder.Body.Len()
			}
		}
		if bytes > 8<<20+served*answer.Free || bytes < 4<<20 {
			t.Errorf("%d responses of %d bytes were in flight with a budget of 8 MB", served, bytes)
		}
		if status, text := ask(t, h, "Scan", `{"TableName":"things"}`); status != http.StatusOK {
			t.Errorf("after the clients have read: got %d %.100s", status, text)
		}
	})
}
