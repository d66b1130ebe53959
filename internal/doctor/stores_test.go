package doctor_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/doctor"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/s3body"
)

// table returns a client of an engine with a sound table.
func table(t *testing.T, opts ...localdynamotest.Option) (*dynamodb.Client, string) {
	t.Helper()
	client := localdynamotest.New(t, opts...)
	if err := dynamostore.CreateTable(t.Context(), client, "pages"); err != nil {
		t.Fatal(err)
	}
	return client, "pages"
}

func TestBrokenTables(t *testing.T) {
	t.Parallel()
	create := func(t *testing.T, hash string) *dynamodb.Client {
		t.Helper()
		client := localdynamotest.New(t)
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("pages"), BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &hash, AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		mustFind(t, doctor.Fault, doctor.Table(localdynamotest.New(t), "pages"), "table pages:", "isr table create --table pages")
	})
	t.Run("wrong keys", func(t *testing.T) {
		t.Parallel()
		check := doctor.Table(create(t, "id"), "pages")
		mustFind(t, doctor.Fault, check, "its keys must be pk (string, hash), sk (string, range) (found id (string, hash), sk (string, range))", "use another table name")
		mustFind(t, doctor.Fault, check, "TTL is disabled")
	})
	t.Run("TTL off", func(t *testing.T) {
		t.Parallel()
		mustFind(t, doctor.Fault, doctor.Table(create(t, "pk"), "pages"), "TTL is disabled", "isr table create --table pages")
	})
	t.Run("no server", func(t *testing.T) {
		t.Parallel()
		client := dynamodb.New(dynamodb.Options{Region: "eu-west-1", BaseEndpoint: aws.String(closed(t)), Credentials: credentials.NewStaticCredentialsProvider("id", "key", ""), RetryMaxAttempts: 1})
		mustFind(t, doctor.Fault, doctor.Table(client, "pages"), "DynamoDB does not answer", "--dynamodb-endpoint")
	})
}

// Permissions are tried by requests that change nothing, and a denial names the action to add.
func TestMissingPermissionsOfTheTable(t *testing.T) {
	t.Parallel()
	for operation, test := range map[string]struct {
		action   string
		severity doctor.Severity
		explicit bool
	}{
		"GetItem":            {"dynamodb:GetItem", doctor.Fault, false},
		"BatchGetItem":       {"dynamodb:BatchGetItem", doctor.Fault, false},
		"Query":              {"dynamodb:Query", doctor.Fault, false},
		"PutItem":            {"dynamodb:PutItem", doctor.Fault, true},
		"UpdateItem":         {"dynamodb:UpdateItem", doctor.Fault, false},
		"DeleteItem":         {"dynamodb:DeleteItem", doctor.Fault, false},
		"TransactWriteItems": {"dynamodb:ConditionCheckItem", doctor.Fault, false},
		"Scan":               {"dynamodb:Scan", doctor.Warning, false},
		"DescribeTable":      {"dynamodb:DescribeTable", doctor.Fault, false},
		"DescribeTimeToLive": {"dynamodb:DescribeTimeToLive", doctor.Warning, false},
	} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			ready := false
			client, name := table(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, apply func()) error {
				mu.Lock()
				defer mu.Unlock()
				if !ready || call.Operation != operation {
					apply()
					return nil
				}
				because := "no identity-based policy allows the " + test.action + " action"
				if test.explicit {
					because = "with an explicit deny in a service control policy"
				}
				return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "User: arn:aws:sts::123456789012:assumed-role/isr/i-1 is not authorized to perform: " + test.action +
					" on resource: arn:aws:dynamodb:eu-west-1:123456789012:table/pages because " + because}
			}))
			mu.Lock()
			ready = true
			mu.Unlock()
			do := `add "` + test.action + `" to the actions`
			if test.explicit {
				do = `remove the Deny of "` + test.action + `"`
			}
			mustFind(t, test.severity, doctor.Table(client, name), "the permission "+test.action+" is missing", do)
			out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &name})
			if operation != "Scan" && (err != nil || len(out.Items) != 0) {
				t.Errorf("the table has %d rows, %v", len(out.Items), err)
			}
		})
	}
}

// A bucketServer answers like S3 for one bucket. Real servers do not have all the settings
// that are examined here; TestBucketOfAServer uses one.
type bucketServer struct {
	deny                                  string // method and query of requests that are denied: "PUT", "GET ?versioning"
	missing, versioned, expires, isPublic bool
	overwrites                            bool

	mu      sync.Mutex
	objects map[string][]byte // guarded by mu
}

func (b *bucketServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>Access Denied</Message></Error>", code)
	}
	method, kind := r.Method, ""
	for _, name := range []string{"versioning", "lifecycle", "publicAccessBlock", "policyStatus", "list-type"} {
		if r.URL.Query().Has(name) {
			kind = " ?" + name
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.missing:
		refuse(404, "NoSuchBucket")
	case b.deny != "" && b.deny == method+kind:
		refuse(403, "AccessDenied")
	case kind == " ?versioning" && b.versioned:
		_, _ = io.WriteString(w, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
	case kind == " ?versioning":
		_, _ = io.WriteString(w, "<VersioningConfiguration/>")
	case kind == " ?lifecycle" && b.expires:
		_, _ = io.WriteString(w, "<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status><Filter/><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>")
	case kind == " ?lifecycle":
		refuse(404, "NoSuchLifecycleConfiguration")
	case kind == " ?policyStatus":
		_, _ = fmt.Fprintf(w, "<PolicyStatus><IsPublic>%v</IsPublic></PolicyStatus>", b.isPublic)
	case kind == " ?publicAccessBlock" && b.isPublic:
		refuse(404, "NoSuchPublicAccessBlockConfiguration")
	case kind == " ?publicAccessBlock":
		_, _ = io.WriteString(w, "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>")
	case kind == " ?list-type":
		_, _ = io.WriteString(w, "<ListBucketResult/>")
	case method == http.MethodPut:
		if _, exists := b.objects[r.URL.Path]; exists && r.Header.Get("If-None-Match") == "*" && !b.overwrites {
			refuse(412, "PreconditionFailed")
			return
		}
		text, _ := io.ReadAll(r.Body)
		if b.objects == nil {
			b.objects = make(map[string][]byte)
		}
		b.objects[r.URL.Path] = text
	case method == http.MethodDelete:
		delete(b.objects, r.URL.Path)
		w.WriteHeader(204)
	default:
		_, _ = w.Write(b.objects[r.URL.Path])
	}
}

// s3Of returns a client of a server with the bucket pages.
func s3Of(t *testing.T, h http.Handler) (*s3.Client, *s3body.Store) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return clientOf(t, server.URL, "access", "secret", "pages")
}

func clientOf(t *testing.T, endpoint, id, secret, bucket string) (*s3.Client, *s3body.Store) {
	t.Helper()
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, RetryMaxAttempts: 1, Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
		// The bodies of this server are sent as they are, without chunks and trailers.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
	bodies, err := s3body.New(client, bucket, s3body.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return client, bodies
}

func TestBrokenBuckets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server   *bucketServer
		severity doctor.Severity
		want     []string
	}{
		"missing":         {&bucketServer{missing: true}, doctor.Fault, []string{"the bucket does not exist", "create it"}},
		"no writes":       {&bucketServer{deny: "PUT"}, doctor.Fault, []string{"permission is missing", "s3:PutObject"}},
		"no reads":        {&bucketServer{deny: "GET"}, doctor.Fault, []string{"permission is missing", "s3:GetObject"}},
		"no list":         {&bucketServer{deny: "GET ?list-type"}, doctor.Warning, []string{`add "s3:ListBucket"`}},
		"no deletes":      {&bucketServer{deny: "DELETE"}, doctor.Warning, []string{`add "s3:DeleteObject"`}},
		"overwrites":      {&bucketServer{overwrites: true}, doctor.Fault, []string{"ignores If-None-Match"}},
		"versioned":       {&bucketServer{versioned: true}, doctor.Warning, []string{"versioning is on", "Status=Suspended"}},
		"expires":         {&bucketServer{expires: true}, doctor.Fault, []string{`the lifecycle rule "old" deletes objects by age`}},
		"public":          {&bucketServer{isPublic: true}, doctor.Fault, []string{"its policy makes it public", "put-public-access-block"}},
		"public access":   {&bucketServer{isPublic: true}, doctor.Warning, []string{"public access is not blocked"}},
		"settings denied": {&bucketServer{deny: "GET ?versioning"}, doctor.Note, []string{"not permitted: s3:GetBucketVersioning"}},
		"uploads":         {&bucketServer{}, doctor.Note, []string{"no lifecycle rule aborts incomplete multipart uploads"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, bodies := s3Of(t, test.server)
			mustFind(t, test.severity, doctor.Bucket(client, bodies, "pages"), test.want...)
			for object := range test.server.objects {
				if object != "/pages/isr-check" {
					t.Errorf("the object %s is left", object)
				}
			}
		})
	}
}

func TestBucketOfAServer(t *testing.T) {
	t.Parallel()
	endpoint := isrtest.Engine(t, "ISR_TEST_S3", "S3 server")
	name := fmt.Sprintf("doctor-%d", time.Now().UnixNano())
	client, bodies := clientOf(t, endpoint, os.Getenv("ISR_TEST_S3_ACCESS_KEY"), os.Getenv("ISR_TEST_S3_SECRET_KEY"), name)
	mustFind(t, doctor.Fault, doctor.Bucket(client, bodies, name), "the bucket does not exist")
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	text, r := run(t, doctor.Bucket(client, bodies, name))
	if r.Count(doctor.Fault) != 0 || !strings.Contains(text, "protected from overwriting") && r.Count(doctor.Warning) == 0 {
		t.Error(text)
	}
}
