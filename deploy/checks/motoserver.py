"""Moto's server, for tests: AWS in a process. Its standard output is its URL, and the end of its standard input ends it.

The functions below add what moto does not know of CloudFormation, and one action that Terraform calls.
"""

import json
import sys

from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse
from moto.cloudformation import parsing
from moto.cloudformation.models import CloudFormationBackend
from moto.core.common_models import CloudFormationModel
from moto.dynamodb.models.table import Table
from moto.elbv2.models import FakeLoadBalancer, FakeTargetGroup
from moto.secretsmanager.models import secretsmanager_backends
from moto.server import ThreadedMotoServer

execute_change_set = CloudFormationBackend.execute_change_set
clean_json = parsing.clean_json
create_table = Table.create_from_cloudformation_json.__func__
load_balancer_attribute = FakeLoadBalancer.get_cfn_attribute


def execute(backend, change_set_name, stack_name=None):
    """The outputs and exports of stacks that are made by change sets, as aws cloudformation deploy does."""
    change_set = backend.describe_change_set(change_set_name)
    stack = change_set.stack
    stack.resource_map.cross_stack_resources = backend.exports
    execute_change_set(backend, change_set_name, stack_name)
    stack._parse_template()
    stack.output_map = stack._create_output_map()
    backend.exports.update((export.name, export) for export in stack.exports)


def clean(value, resources):
    """AWS::NoValue in lists."""
    cleaned = clean_json(value, resources)
    return [member for member in cleaned if member is not None] if isinstance(value, list) else cleaned


@classmethod
def table(cls, name, resource, *arguments, **options):
    """The time to live of tables."""
    made = create_table(cls, name, resource, *arguments, **options)
    if spec := resource["Properties"].get("TimeToLiveSpecification"):
        made.ttl.update(TimeToLiveStatus="ENABLED", AttributeName=spec["AttributeName"])
    return made


def attribute_of_target_group(group, name):
    if name != "TargetGroupFullName":
        raise NotImplementedError(name)
    return group.arn.split(":")[-1]


def attribute_of_load_balancer(balancer, name):
    if name == "LoadBalancerFullName":
        return balancer.arn.split(":loadbalancer/")[-1]
    return load_balancer_attribute(balancer, name)


def no_tags(_):
    """The tags of what scales, for which Terraform asks."""
    return json.dumps({"Tags": {}})


class Distribution(CloudFormationModel):
    """A distribution of CloudFront, as far as a stack sees it: its id and its domain."""

    __module__ = "moto.cloudfront.models"  # by which moto finds the service
    physical_resource_id = "E1EXAMPLE"
    type = "AWS::CloudFront::Distribution"

    @staticmethod
    def cloudformation_name_type():
        return ""

    @staticmethod
    def cloudformation_type():
        return "AWS::CloudFront::Distribution"

    @classmethod
    def create_from_cloudformation_json(cls, *_, **__):
        return cls()

    def get_cfn_attribute(self, name):
        if name != "DomainName":
            raise NotImplementedError(name)
        return "d111111abcdef8.cloudfront.net"


class Secret(CloudFormationModel):
    """A secret of Secrets Manager with a generated value."""

    __module__ = "moto.secretsmanager.models"

    def __init__(self, arn):
        self.physical_resource_id = arn

    @staticmethod
    def cloudformation_name_type():
        return "Name"

    @staticmethod
    def cloudformation_type():
        return "AWS::SecretsManager::Secret"

    @classmethod
    def create_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name, **_):
        properties = cloudformation_json["Properties"]
        rules = properties["GenerateSecretString"]
        backend = secretsmanager_backends[account_id][region_name]
        generated = backend.get_random_password(rules["PasswordLength"], "", False, rules["ExcludePunctuation"], False, False, False, True)
        value = json.loads(generated)["RandomPassword"]
        made = backend.create_secret(properties["Name"], value, None, properties["Description"], None, None, None, [], False)
        return cls(made["ARN"] if isinstance(made, dict) else json.loads(made)["ARN"])


CloudFormationBackend.execute_change_set = execute
parsing.clean_json = clean
Table.create_from_cloudformation_json = table
ApplicationAutoScalingResponse.list_tags_for_resource = no_tags
FakeTargetGroup.get_cfn_attribute = attribute_of_target_group
FakeLoadBalancer.get_cfn_attribute = attribute_of_load_balancer


def start():
    """Starts the server, and returns it and its URL."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    return server, "http://%s:%d" % server.get_host_and_port()


if __name__ == "__main__":
    server, url = start()
    print(url, flush=True)
    sys.stdin.read()
    server.stop()
