"""boto3 against a running isr dynamodb.

The endpoint, region and credentials come from the usual environment variables, such
as AWS_ENDPOINT_URL_DYNAMODB. sdk_test.go starts the server and this program, and sets
ISR_TEST_VERIFIED if the server verifies signatures.
"""

import contextlib
import os
import unittest
import uuid
import zlib
from decimal import Decimal

import boto3
from boto3.dynamodb.conditions import Attr, Key
from boto3.dynamodb.types import Binary
from botocore.config import Config
from botocore.exceptions import ClientError

# Only in the legacy mode does botocore check the CRC-32 of every response. One attempt:
# a retry would hide a failure.
CONFIG = Config(retries={"mode": "legacy", "max_attempts": 0})

WAITER_CONFIG = {"Delay": 1, "MaxAttempts": 30}

# The index lists the orders of a customer by price.
SCHEMA = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "N"},
        {"AttributeName": "customer", "AttributeType": "B"},
        {"AttributeName": "price", "AttributeType": "N"},
    ],
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-price",
            "KeySchema": [
                {"AttributeName": "customer", "KeyType": "HASH"},
                {"AttributeName": "price", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
}


def unique_name():
    return f"python-{uuid.uuid4()}"


class SDKTest(unittest.TestCase):
    """Provides a resource, its client, and a table per test."""

    def setUp(self):
        self.responses = 0
        self.resource = boto3.resource("dynamodb", config=CONFIG)
        self.client = self.resource.meta.client
        self.client.meta.events.register("before-parse.dynamodb.*", self.check_response)
        self.addCleanup(self.client.close)
        self.table = self.resource.create_table(TableName=unique_name(), **SCHEMA)
        self.table.wait_until_exists(WaiterConfig=WAITER_CONFIG)
        self.addCleanup(self.table.delete)

    def check_response(self, response_dict, **_):
        """Checks the checksum and the request id of every response, including errors."""
        self.responses += 1
        headers = response_dict["headers"]
        self.assertEqual(int(headers["x-amz-crc32"]), zlib.crc32(response_dict["body"]))
        self.assertTrue(headers["x-amzn-requestid"])

    @contextlib.contextmanager
    def refused(self, code):
        """Requires that the block fails with an error code."""
        with self.assertRaises(ClientError) as caught:
            yield
        self.assertEqual(caught.exception.response["Error"]["Code"], code)


class Tables(SDKTest):
    def test_lifecycle(self):
        name = unique_name()
        made = self.client.create_table(TableName=name, Tags=[{"Key": "stage", "Value": "test"}], **SCHEMA)
        arn = made["TableDescription"]["TableArn"]
        self.client.get_waiter("table_exists").wait(TableName=name, WaiterConfig=WAITER_CONFIG)
        with self.assertRaises(self.client.exceptions.ResourceInUseException):
            self.client.create_table(TableName=name, **SCHEMA)

        described = self.client.describe_table(TableName=name)["Table"]
        self.assertEqual(described["TableStatus"], "ACTIVE")
        self.assertEqual(described["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST")
        self.assertEqual([i["IndexStatus"] for i in described["GlobalSecondaryIndexes"]], ["ACTIVE"])
        names = [n for page in self.client.get_paginator("list_tables").paginate(PaginationConfig={"PageSize": 1}) for n in page["TableNames"]]
        self.assertIn(name, names)
        self.assertIn(self.table.name, names)

        self.client.tag_resource(ResourceArn=arn, Tags=[{"Key": "owner", "Value": "zoë"}])
        self.assertEqual(self.tags(arn), {"stage": "test", "owner": "zoë"})
        self.client.untag_resource(ResourceArn=arn, TagKeys=["stage"])
        self.assertEqual(self.tags(arn), {"owner": "zoë"})

        self.client.update_table(
            TableName=name, BillingMode="PROVISIONED", ProvisionedThroughput={"ReadCapacityUnits": 3, "WriteCapacityUnits": 4},
            GlobalSecondaryIndexUpdates=[{"Update": {"IndexName": "by-price", "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}}}],
        )
        self.client.get_waiter("table_exists").wait(TableName=name, WaiterConfig=WAITER_CONFIG)
        self.assertEqual(self.client.describe_table(TableName=name)["Table"]["ProvisionedThroughput"]["WriteCapacityUnits"], 4)

        self.client.delete_table(TableName=name)
        self.client.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig=WAITER_CONFIG)
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.client.describe_table(TableName=name)

    def tags(self, arn):
        return {t["Key"]: t["Value"] for t in self.client.list_tags_of_resource(ResourceArn=arn)["Tags"]}

    def test_time_to_live(self):
        name = self.table.name
        self.client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"})
        ttl = self.client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        self.assertEqual(ttl["AttributeName"], "expires")
        self.assertIn(ttl["TimeToLiveStatus"], ("ENABLED", "ENABLING"))


class Items(SDKTest):
    def test_values(self):
        item = {
            "pk": "values",
            "sk": Decimal(1),
            "digits": Decimal("12345678901234567890123456789012345678"),
            "tiny": Decimal("-1.5e-128"),
            "empty": "",
            "text": "Größe 東京 🚲 \0 \"\\",
            "bytes": Binary(b"\x00\x01\xfe\xff"),
            "no_bytes": Binary(b""),
            "nothing": None,
            "yes": True,
            "list": [Decimal(1), "two", [False, {}], []],
            "map": {"a.b": {" ": "a blank"}},
            "names": {"a", "b", ""},
            "numbers": {Decimal(3), Decimal("20.5"), Decimal(-1)},
            "blobs": {Binary(b"\x01"), Binary(b"\x02\x03")},
        }
        self.table.put_item(Item=item)
        got = self.table.get_item(Key={"pk": "values", "sk": 1}, ConsistentRead=True)["Item"]
        self.assertEqual(got, item)
        # Lengths around buffer sizes, and characters that JSON escapes.
        for size in (1, 4095, 4096, 65537, 400_000):
            text = ("é\n\u2028\x7f" * size)[: size // 2]
            self.table.put_item(Item={"pk": "size", "sk": size, "text": text})
            self.assertEqual(self.table.get_item(Key={"pk": "size", "sk": size})["Item"]["text"], text)
        self.assertGreater(self.responses, 10)

    def test_conditions(self):
        create = {"Item": {"pk": "conditions", "sk": 1, "version": 1}, "ConditionExpression": Attr("pk").not_exists()}
        self.table.put_item(**create)
        with self.assertRaises(self.client.exceptions.ConditionalCheckFailedException) as caught:
            self.table.put_item(ReturnValuesOnConditionCheckFailure="ALL_OLD", **create)
        self.assertEqual(caught.exception.response["Error"]["Message"], "The conditional request failed")
        self.assertEqual(caught.exception.response["Item"], {"pk": {"S": "conditions"}, "sk": {"N": "1"}, "version": {"N": "1"}})
        with self.assertRaises(self.client.exceptions.ConditionalCheckFailedException) as caught:
            self.table.put_item(**create)
        self.assertNotIn("Item", caught.exception.response)

        updated = self.table.update_item(
            Key={"pk": "conditions", "sk": 1},
            UpdateExpression="SET #v = #v + :one, marks = list_append(if_not_exists(marks, :none), :mark) ADD tags :tags",
            ConditionExpression=Attr("version").eq(1),
            ExpressionAttributeNames={"#v": "version"},
            ExpressionAttributeValues={":one": 1, ":none": [], ":mark": ["new"], ":tags": {"x"}},
            ReturnValues="UPDATED_NEW",
        )
        self.assertEqual(updated["Attributes"], {"version": Decimal(2), "marks": ["new"], "tags": {"x"}})
        gone = self.table.delete_item(Key={"pk": "conditions", "sk": 1}, ReturnValues="ALL_OLD")
        self.assertEqual(gone["Attributes"]["version"], 2)
        self.assertNotIn("Item", self.table.get_item(Key={"pk": "conditions", "sk": 1}))

    def test_pagination(self):
        # batch_writer sends batches of 25, and drops overwritten duplicates.
        with self.table.batch_writer(overwrite_by_pkeys=["pk", "sk"]) as batch:
            for sk in range(60):
                for note in ("first", "second"):
                    batch.put_item(Item={"pk": "pages", "sk": sk, "customer": Binary(b"\xff\x00"), "price": Decimal(sk) / 2, "note": note})
            batch.delete_item(Key={"pk": "pages", "sk": 59})
        condition = Key("pk").eq("pages") & Key("sk").between(3, 57)
        found = [
            item["sk"]
            for page in self.client.get_paginator("query").paginate(
                TableName=self.table.name, KeyConditionExpression=condition, ScanIndexForward=False, PaginationConfig={"PageSize": 10}
            )
            for item in page["Items"]
        ]
        self.assertEqual(found, list(range(57, 2, -1)))
        self.assertEqual(self.table.query(KeyConditionExpression=condition, Select="COUNT")["Count"], 55)

        by_price = self.table.query(
            IndexName="by-price", KeyConditionExpression=Key("customer").eq(Binary(b"\xff\x00")) & Key("price").lt(Decimal("1.5")),
            FilterExpression=Attr("note").begins_with("sec") & Attr("sk").is_in([0, 2, 7]), ReturnConsumedCapacity="TOTAL",
        )
        self.assertEqual([(i["sk"], i["price"]) for i in by_price["Items"]], [(0, 0), (2, 1)])
        self.assertEqual(by_price["ScannedCount"], 3)
        self.assertEqual(by_price["ConsumedCapacity"]["CapacityUnits"], 0.5)
        scanned = self.client.get_paginator("scan").paginate(TableName=self.table.name, IndexName="by-price", PaginationConfig={"PageSize": 7})
        self.assertEqual(sum(page["Count"] for page in scanned), 59)

        name = self.table.name
        read = self.resource.batch_get_item(RequestItems={name: {"Keys": [{"pk": "pages", "sk": sk} for sk in (1, 59)], "ProjectionExpression": "note"}})
        self.assertEqual(read["Responses"], {name: [{"note": "second"}]})
        self.assertEqual(read["UnprocessedKeys"], {})

    def test_transactions(self):
        def put(sk, **more):
            return {"Put": {"TableName": self.table.name, "Item": {"pk": "transaction", "sk": sk, "value": "old"}, **more}}

        token = str(uuid.uuid4())
        for _ in range(2):  # the client token makes the second one a repetition
            self.client.transact_write_items(TransactItems=[put(1), put(2)], ClientRequestToken=token)
        absent = {"ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        with self.assertRaises(self.client.exceptions.TransactionCanceledException) as caught:
            self.client.transact_write_items(TransactItems=[put(3), put(2, **absent)])
        reasons = caught.exception.response["CancellationReasons"]
        self.assertEqual([r["Code"] for r in reasons], ["None", "ConditionalCheckFailed"])
        self.assertEqual(reasons[1]["Message"], "The conditional request failed")
        self.assertEqual(reasons[1]["Item"]["value"], {"S": "old"})
        self.assertIn("[None, ConditionalCheckFailed]", str(caught.exception))

        got = self.client.transact_get_items(
            TransactItems=[{"Get": {"TableName": self.table.name, "Key": {"pk": "transaction", "sk": sk}}} for sk in (1, 3, 2)]
        )["Responses"]
        self.assertEqual([r.get("Item", {}).get("value") for r in got], ["old", None, "old"])
        with self.assertRaises(self.client.exceptions.IdempotentParameterMismatchException):
            self.client.transact_write_items(TransactItems=[put(1)], ClientRequestToken=token)

    def test_validation_errors(self):
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.client.get_item(TableName=unique_name(), Key={"pk": "a"})
        for bad in (
            {"UpdateExpression": "SET ttl = :v", "ExpressionAttributeValues": {":v": 1}},
            {"UpdateExpression": "SET a = :v", "ExpressionAttributeValues": {":v": 1, ":unused": 2}},
            {"UpdateExpression": "SET a.b = :v, a = :v", "ExpressionAttributeValues": {":v": 1}},
            {"UpdateExpression": "SET pk = :v", "ExpressionAttributeValues": {":v": "b"}},
        ):
            with self.subTest(bad["UpdateExpression"]), self.refused("ValidationException"):
                self.table.update_item(Key={"pk": "a", "sk": 1}, **bad)
        with self.refused("ValidationException"):
            self.table.put_item(Item={"pk": "", "sk": 1})
        with self.refused("ValidationException"):
            self.table.put_item(Item={"pk": "a", "sk": 1, "text": "x" * 409_600})


if os.environ.get("ISR_TEST_VERIFIED"):

    class Signatures(SDKTest):
        def test_wrong_signatures(self):
            key = os.environ["AWS_ACCESS_KEY_ID"]
            for access, code in ((key, "InvalidSignatureException"), ("unknown", "UnrecognizedClientException")):
                unverified = boto3.client("dynamodb", config=CONFIG, aws_access_key_id=access, aws_secret_access_key="guessed")
                unverified.meta.events.register("before-parse.dynamodb.*", self.check_response)
                self.addCleanup(unverified.close)
                with self.subTest(access), self.refused(code):
                    unverified.list_tables()


if __name__ == "__main__":
    unittest.main()
