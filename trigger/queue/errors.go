package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// advise adds to an error of SQS what to do about it. Errors of a context stay as they are.
func advise(err error) error {
	var missing *types.QueueDoesNotExist
	var coded smithy.APIError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &missing):
		return fmt.Errorf("the queue does not exist; create it, or correct its URL: %w", err)
	case !errors.As(err, &coded):
		return fmt.Errorf("SQS cannot be asked; check the URL of the queue, the network and the AWS credentials: %w", err)
	case slices.Contains([]string{"AccessDenied", "AccessDeniedException"}, coded.ErrorCode()):
		return fmt.Errorf("a permission is missing; add the action to the role, or its account to the policy of the queue: %w", err)
	case slices.Contains([]string{"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSignatureException", "ExpiredToken", "ExpiredTokenException"}, coded.ErrorCode()):
		return fmt.Errorf("AWS does not accept the credentials; see them with aws sts get-caller-identity: %w", err)
	}
	return err
}
