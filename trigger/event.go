package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/facetheory/isr/store"
)

// ParseEvent returns the message that the body of a queue's message asks for:
//
//   - a purge request, as POST /-/purge takes it: {"targets": [{"tag": "product-7"}], "mode": "hard"}
//   - an S3 event notification. The templates are filled with each of its records, in which
//     s3.object.key is decoded.
//   - an event of EventBridge, or any other JSON. The templates are filled with it.
//   - one of these in the envelope of SNS.
//
// Purge requests are accepted without templates, the others with templates. The message has
// the id of SNS or EventBridge, if there is one; its source is empty. A message without targets, such as the test
// event of S3, asks for nothing. Errors wrap [store.ErrInvalidInput] or [store.ErrInvalidKey].
func ParseEvent(text []byte, templates []Template) (Message, error) {
	m, err := parseEvent(text, templates, true)
	m = m.distinct()
	if err == nil && len(m.Targets) > 0 {
		err = m.valid()
	}
	return m, err
}

// An event has the members by which the kinds of events are told apart.
type event struct {
	Targets json.RawMessage `json:"targets"` // a purge request

	Event   string            `json:"Event"` // "s3:TestEvent"
	Records []json.RawMessage `json:"Records"`

	DetailType string `json:"detail-type"` // EventBridge
	ID         string `json:"id"`

	Type      string `json:"Type"` // SNS: "Notification"
	TopicArn  string `json:"TopicArn"`
	MessageID string `json:"MessageId"`
	Message   string `json:"Message"`
}

// parseEvent parses an event, in an envelope or not.
func parseEvent(text []byte, templates []Template, envelope bool) (m Message, err error) {
	if len(text) > maxBody {
		return m, fmt.Errorf("%w: the event has %d bytes; at most %d are allowed", store.ErrInvalidInput, len(text), maxBody)
	}
	payload, err := decode(text)
	if err != nil {
		return m, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
	}
	var e event
	if _, isObject := payload.(map[string]any); isObject {
		// A member of another type is one of another kind of event.
		if err := json.Unmarshal(text, &e); err != nil && !isTypeError(err) {
			return m, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
		}
	}
	switch {
	case envelope && e.Type == "Notification" && e.TopicArn != "":
		m, err = parseEvent([]byte(e.Message), templates, false)
		m.ID = e.MessageID
		return m, err
	case e.Targets != nil && len(templates) == 0:
		m.Targets, m.Hard, err = parseRequest(text)
		return m, err
	case e.Event == "s3:TestEvent":
		return m, nil
	case len(templates) == 0:
		return m, fmt.Errorf("%w: the event is not a purge request, such as {\"targets\": [{\"tag\": \"product-7\"}]}; other events need templates", store.ErrInvalidInput)
	case isS3(e.Records):
		m.Targets, err = s3Targets(e.Records, templates)
		return m, err
	}
	if e.DetailType != "" {
		m.ID = e.ID
	}
	m.Targets, err = Expand(templates, payload)
	return m, err
}

func isTypeError(err error) bool {
	var mismatch *json.UnmarshalTypeError
	return errors.As(err, &mismatch)
}

// isS3 reports whether the records come from an S3 event notification.
func isS3(records []json.RawMessage) bool {
	var first struct {
		EventSource string `json:"eventSource"`
	}
	return len(records) > 0 && json.Unmarshal(records[0], &first) == nil && first.EventSource == "aws:s3"
}

// s3Targets returns the targets of all records of an S3 event notification.
func s3Targets(records []json.RawMessage, templates []Template) (targets []store.PurgeTarget, err error) {
	for i, text := range records {
		record, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
		}
		decodeObjectKey(record)
		more, err := Expand(templates, record)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
		targets = append(targets, more...)
	}
	return targets, nil
}

// decodeObjectKey decodes s3.object.key, which S3 encodes like a form: a space is a plus.
func decodeObjectKey(record any) {
	fields, _ := record.(map[string]any)
	s3, _ := fields["s3"].(map[string]any)
	object, _ := s3["object"].(map[string]any)
	key, _ := object["key"].(string)
	if decoded, err := url.QueryUnescape(key); err == nil && key != "" {
		object["key"] = decoded
	}
}
