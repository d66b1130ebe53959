"""The templates of CloudFormation and the module of Terraform: valid, safe, created once in moto, and the same."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import boto3
import hcl2
import motoserver
import pytest
import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
TEMPLATES = DEPLOY / "cloudformation"
MODULE = DEPLOY / "terraform"
BIN = pathlib.Path(sys.executable).parent
REGION, ACCOUNT = "eu-west-1", "123456789012"
SECRET = "abcdefghijklmnopqrstuvwxyz0123456789"
STACKS = ["store", "balancer", "edge", "service", "monitoring"]


# --- CloudFormation


class Loader(yaml.SafeLoader):
    """Reads the short forms of functions, such as !Ref, as their long ones."""


def function(loader, suffix, node):
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


Loader.add_multi_constructor("!", function)


def template(name):
    return yaml.load((TEMPLATES / f"{name}.yaml").read_text(), Loader)


def every(node, key):
    """Yields the values of a key anywhere in a document."""
    if isinstance(node, dict):
        for k, v in node.items():
            if k == key:
                yield v
            yield from every(v, key)
    elif isinstance(node, list):
        for member in node:
            yield from every(member, key)


def resources(name):
    return template(name)["Resources"]


def logical():
    """Returns the resources of all stacks by their logical ids, which differ."""
    found = {}
    for name in STACKS:
        for key, value in resources(name).items():
            assert key not in found, key
            found[key] = value
    return found


# --- Terraform


def blocks(kind):
    """Returns the blocks of the module of one kind, such as resource: {(type, name): body}."""
    found = {}
    for file in sorted(MODULE.glob("*.tf")):
        for block in hcl2.loads(file.read_text()).get(kind, []):
            for labels, body in block.items():
                if kind == "resource":
                    for name, inner in body.items():
                        found[labels, name] = inner
                else:
                    found[labels] = body
    return found


def plain(value):
    """Takes away the lists into which hcl2 puts each value."""
    if isinstance(value, list) and len(value) == 1:
        return plain(value[0])
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


TYPES = {
    "AWS::ApplicationAutoScaling::ScalableTarget": "aws_appautoscaling_target",
    "AWS::ApplicationAutoScaling::ScalingPolicy": "aws_appautoscaling_policy",
    "AWS::CloudWatch::Dashboard": "aws_cloudwatch_dashboard",
    "AWS::DynamoDB::Table": "aws_dynamodb_table",
    "AWS::EC2::SecurityGroup": "aws_security_group",
    "AWS::EC2::VPCEndpoint": "aws_vpc_endpoint",
    "AWS::ECS::Cluster": "aws_ecs_cluster",
    "AWS::ECS::Service": "aws_ecs_service",
    "AWS::ECS::TaskDefinition": "aws_ecs_task_definition",
    "AWS::ElasticLoadBalancingV2::Listener": "aws_lb_listener",
    "AWS::ElasticLoadBalancingV2::ListenerRule": "aws_lb_listener_rule",
    "AWS::ElasticLoadBalancingV2::LoadBalancer": "aws_lb",
    "AWS::ElasticLoadBalancingV2::TargetGroup": "aws_lb_target_group",
    "AWS::IAM::ManagedPolicy": "aws_iam_policy",
    "AWS::IAM::Role": "aws_iam_role",
    "AWS::Logs::LogGroup": "aws_cloudwatch_log_group",
    "AWS::S3::Bucket": "aws_s3_bucket",
    "AWS::S3::BucketPolicy": "aws_s3_bucket_policy",
    "AWS::SNS::Subscription": "aws_sns_topic_subscription",
    "AWS::SNS::Topic": "aws_sns_topic",
    "AWS::SQS::Queue": "aws_sqs_queue",
    "AWS::Scheduler::Schedule": "aws_scheduler_schedule",
    "AWS::SecretsManager::Secret": "aws_secretsmanager_secret",
}

# What Terraform has as resources of their own, and CloudFormation as properties, or by another name.
PARTS = {
    ("aws_cloudformation_stack", "edge"): "the stack of CloudFront",
    ("aws_cloudwatch_metric_alarm", "alarms"): "all alarms, test_alarms",
    ("aws_iam_role_policy", "execution_image"): "ExecutionImagePolicy",
    ("aws_iam_role_policy", "execution_logs"): "ExecutionRole",
    ("aws_iam_role_policy", "execution_secrets"): "ExecutionRole",
    ("aws_iam_role_policy", "operator_api"): "OperatorRole",
    ("aws_iam_role_policy", "scheduler_run"): "SchedulerRole",
    ("aws_iam_role_policy", "serving_invalidations"): "ServingInvalidationsPolicy",
    ("aws_iam_role_policy", "serving_metrics"): "ServingMetricsPolicy",
    ("aws_iam_role_policy_attachment", "collection"): "CollectionRole",
    ("aws_iam_role_policy_attachment", "operator"): "OperatorRole",
    ("aws_iam_role_policy_attachment", "serving"): "ServingRole",
    ("aws_iam_role_policy_attachment", "worker"): "WorkerRole",
    ("aws_s3_bucket_lifecycle_configuration", "bucket"): "Bucket",
    ("aws_s3_bucket_metric", "bucket"): "Bucket",
    ("aws_s3_bucket_ownership_controls", "bucket"): "Bucket",
    ("aws_s3_bucket_public_access_block", "bucket"): "Bucket",
    ("aws_s3_bucket_server_side_encryption_configuration", "bucket"): "Bucket",
    ("aws_secretsmanager_secret_version", "admin_token"): "AdminToken",
    ("aws_secretsmanager_secret_version", "peer_secret"): "PeerSecret",
    ("aws_vpc_security_group_egress_rule", "servers"): "LoadBalancerSecurityGroup",
    ("aws_vpc_security_group_egress_rule", "tasks"): "TaskSecurityGroup",
    ("aws_vpc_security_group_ingress_rule", "admins"): "AdminIngress",
    ("aws_vpc_security_group_ingress_rule", "peers"): "PeerIngress",
    ("aws_vpc_security_group_ingress_rule", "redirected"): "LoadBalancerSecurityGroup",
    ("aws_vpc_security_group_ingress_rule", "servers"): "ServerIngress, HealthIngress",
    ("aws_vpc_security_group_ingress_rule", "visitors"): "LoadBalancerSecurityGroup",
}
ELSEWHERE = {
    "AWS::CloudFront::CachePolicy", "AWS::CloudFront::Distribution", "AWS::CloudFront::OriginRequestPolicy",
    "AWS::CloudWatch::Alarm", "AWS::EC2::SecurityGroupIngress", "AWS::IAM::Policy",
}  # fmt: skip


# --- Tests that need no Terraform


def test_cfn_lint():
    subprocess.run([BIN / "cfn-lint", *sorted(TEMPLATES.glob("*.yaml"))], check=True)


def test_size():
    for file in TEMPLATES.glob("*.yaml"):
        assert file.stat().st_size <= 51_200, f"{file.name}: aws cloudformation deploy needs a bucket for larger templates"


def test_checkov(tmp_path):
    """Every check of checkov passes, except exceptions with a reason, each of which is needed."""
    exceptions = yaml.safe_load((DEPLOY / "checks" / "exceptions.yaml").read_text())
    shutil.copytree(TEMPLATES, tmp_path / "cloudformation")
    shutil.copytree(MODULE, tmp_path / "terraform", ignore=shutil.ignore_patterns(".terraform*"))
    out = subprocess.run(
        [BIN / "checkov", "-d", tmp_path, "--framework", "cloudformation", "terraform", "--compact", "--quiet", "-o", "json"],
        capture_output=True,
        text=True,
        env={**os.environ, "BC_SKIP_MAPPING": "TRUE", "LOG_LEVEL": "CRITICAL"},
    )
    failed, passed = {}, 0
    for report in json.loads(out.stdout):
        assert report["summary"]["parsing_errors"] == 0, report["results"]["parsing_errors"]
        passed += report["summary"]["passed"]
        for check in report["results"]["failed_checks"]:
            failed.setdefault(check["check_id"], []).append(f"{check['resource']}: {check['check_name']}")
    assert passed > 200
    assert {k: v for k, v in failed.items() if k not in exceptions} == {}
    assert set(exceptions) - set(failed) == set(), "exceptions that are not needed"
    assert all(len(reason) > 20 for reason in exceptions.values())


def test_same_resources():
    wanted = {(TYPES[r["Type"]], snake(name)) for name, r in logical().items() if r["Type"] not in ELSEWHERE}
    assert wanted == set(blocks("resource")) - set(PARTS)


def test_same_parameters():
    """The variables of Terraform are the parameters of the stacks, with the same defaults."""
    parameters = {}
    for name in STACKS:
        for key, p in template(name)["Parameters"].items():
            parameters.setdefault(snake(key).replace("cloud_front", "cloudfront"), p.get("Default"))
    variables = {name: plain(v) for name, v in blocks("variable").items()}
    del variables["cloudfront"]  # CloudFormation has the prefix list for it
    # Known to Terraform without a parameter.
    for derived in ("origin_domain", "distribution"):
        del parameters[derived]
    assert set(variables) == set(parameters)
    for name, value in parameters.items():
        default = variables[name].get("default")
        if isinstance(default, bool):
            default = {True: "ENABLED", False: "DISABLED"}[default]
        if isinstance(default, list):
            default = ",".join(default)
        assert str(default or "") == str(value or ""), name


def test_same_policies():
    """Each managed policy has the same statements. test_terraform compares them as they are created, too."""
    text = (MODULE / "policies.tf").read_text()
    shared = set(re.findall(r'"((?:dynamodb|s3|sqs):\w+)"', text[text.index("locals {") :]))
    for name, r in logical().items():
        if r["Type"] != "AWS::IAM::ManagedPolicy":
            continue
        block = text[text.index(f'"{snake(name)}"') :]
        block = block[: block.index("\n}\n")]
        own = set(re.findall(r'"((?:dynamodb|s3|sqs):\w+)"', block))
        wanted = {a for s in r["Properties"]["PolicyDocument"]["Statement"] for a in s["Action"]}
        assert own <= wanted <= own | shared, name


def test_same_alarms():
    ours = {}
    for r in resources("monitoring").values():
        if r["Type"] == "AWS::CloudWatch::Alarm":
            p = r["Properties"]
            assert p["TreatMissingData"] == "notBreaching"
            assert p["AlarmActions"] == p["OKActions"] == resources("monitoring")["SystemErrorsQueryAlarm"]["Properties"]["OKActions"]
            ours[p["AlarmName"]["Fn::Sub"].removeprefix("${Name}-")] = [
                p["AlarmDescription"], p["Namespace"], p["MetricName"], [d["Name"] for d in p.get("Dimensions", [])],
                p["Statistic"], p["Threshold"], p["ComparisonOperator"], p["Period"], p["EvaluationPeriods"],
            ]  # fmt: skip
    theirs = {}
    local = {k: v for block in hcl2.loads((MODULE / "monitoring.tf").read_text())["locals"] for k, v in block.items()}
    for name, a in {**plain(local["alarms"]), **plain(local["own_alarms"])}.items():
        theirs[name.strip('"')] = [
            a["description"], a["namespace"], a["metric"], [k.strip('"') for k in a["dimensions"]],
            a["statistic"], a["threshold"], a.get("comparison", "GreaterThanThreshold"), a["period"], a["periods"],
        ]  # fmt: skip
    assert len(ours) == 24
    assert ours == theirs


def test_scaling():
    """Autoscaling alone says how many servers there are: a number in the service would undo it with each change of the stack."""
    service, scaling = resources("service")["ServerService"]["Properties"], resources("service")["Scaling"]["Properties"]
    assert "DesiredCount" not in service
    assert (scaling["MinCapacity"], scaling["MaxCapacity"]) == ({"Ref": "DesiredCount"}, {"Ref": "MaxCount"})
    assert plain(blocks("resource")["aws_ecs_service", "server_service"]["lifecycle"])["ignore_changes"] == "${desired_count}"


def test_forwarded_hosts():
    """CloudFront passes no field on by which a visitor could state another host (docs/public.md), and isr would ignore it."""
    edge = resources("edge")
    assert edge["Distribution"]["Properties"]["DistributionConfig"]["DefaultCacheBehavior"]["OriginRequestPolicyId"] == {"Ref": "OriginRequestPolicy"}
    headers = edge["OriginRequestPolicy"]["Properties"]["OriginRequestPolicyConfig"]["HeadersConfig"]
    assert headers["HeaderBehavior"] == "allExcept"
    assert {"X-Forwarded-Host", "Forwarded"} <= set(headers["Headers"])
    for file in [*TEMPLATES.glob("*.yaml"), *(DEPLOY / "kubernetes").glob("*.yaml"), *MODULE.rglob("*.tf")]:
        text = file.read_text()
        assert "trust_forwarded_host" not in text.lower() and "trust-forwarded-host" not in text, file


def seconds(text):
    return int(text.removesuffix("s"))


def test_times_fit():
    """Draining, health checks, the load balancer and ECS agree, and with the defaults of isr (docs/failures.md)."""
    group, balancer = resources("balancer")["TargetGroup"]["Properties"], resources("balancer")["LoadBalancer"]["Properties"]
    container = resources("service")["ServerTask"]["Properties"]["ContainerDefinitions"][0]
    environment = {e["Name"]: e["Value"] for e in container["Environment"] if "Name" in e}
    attributes = {a["Key"]: a["Value"] for a in group["TargetGroupAttributes"] + balancer["LoadBalancerAttributes"] if "Key" in a}
    origin = resources("edge")["Distribution"]["Properties"]["DistributionConfig"]["Origins"][0]["CustomOriginConfig"]
    keep_alive = 60 * int(in_server(r"IdleTimeout: +(\d+) \* time.Minute"))
    render = seconds(in_server(r'\tRenderTimeout +cli\.Span +`default:"(\d+s)"'))
    grace = render + 5
    drain = seconds(environment["ISR_DRAIN"])
    assert group["HealthCheckTimeoutSeconds"] < group["HealthCheckIntervalSeconds"]
    assert drain > group["HealthCheckIntervalSeconds"] * group["UnhealthyThresholdCount"]
    assert drain + grace < container["StopTimeout"] <= 120  # the limit of Fargate
    assert grace < int(attributes["deregistration_delay.timeout_seconds"])
    idle = int(attributes["idle_timeout.timeout_seconds"])
    assert origin["OriginKeepaliveTimeout"] < idle < keep_alive
    assert grace < origin["OriginReadTimeout"] and grace < idle
    assert (group["HealthCheckPath"], group["HealthCheckPort"]) == ("/readyz", environment["ISR_HEALTH"].split(":")[1])


def in_server(pattern):
    """Return what the one place of the server's source that matches has in the group of the pattern."""
    sources = sorted((DEPLOY.parent / "cmd" / "isr" / "server").glob("*.go"))
    (found,) = [text for file in sources for text in re.findall(pattern, file.read_text())]
    return found


def test_environment_is_known():
    """Each ISR_ variable of a task is a flag of its command."""
    isr = os.environ.get("ISR_TEST_ISR") or pytest.fail("ISR_TEST_ISR is not set; ./test sets it")
    for task, command in {"ServerTask": "serve", "WorkerTask": "worker", "CollectionTask": "gc"}.items():
        container = resources("service")[task]["Properties"]["ContainerDefinitions"][0]
        assert container["Command"] == [command]
        usage = subprocess.run([isr, command, "--help"], check=True, capture_output=True, text=True).stdout
        for name in every(container["Environment"], "Name"):
            if name.startswith("ISR_"):
                assert f"${name})" in re.sub(r"\s+", " ", usage), f"isr {command} does not read {name}"


# --- Moto


@pytest.fixture(scope="module")
def aws():
    server, url = motoserver.start()
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_DEFAULT_REGION=REGION, AWS_REGION=REGION, AWS_ENDPOINT_URL=url)
    os.environ.pop("TF_CLI_CONFIG_FILE", None)
    yield url
    server.stop()


@pytest.fixture
def account(aws):
    """An empty account. It returns the parameters that are found in it."""
    import urllib.request

    urllib.request.urlopen(urllib.request.Request(f"{aws}/moto-api/reset", method="POST")).close()
    ec2 = boto3.client("ec2")
    vpc = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
    subnets = sorted(s["SubnetId"] for s in ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"])
    return {
        "VpcId": vpc,
        "LoadBalancerSubnets": ",".join(subnets),
        "TaskSubnets": ",".join(subnets),
        "CertificateArn": boto3.client("acm").request_certificate(DomainName="www.example.com")["CertificateArn"],
    }


SITE = {"Image": "example.com/isr:1", "Origin": "https://site.example.com", "HostNames": "www.example.com"}
SMALL = {**SITE, "DesiredCount": "1", "AlarmEmail": "ops@example.com", "Cpu": "256", "Memory": "512", "CacheMemory": "192MiB", "AssignPublicIp": "ENABLED"}
LARGE = {
    **SITE, "DesiredCount": "6", "Workers": "2", "Cpu": "2048", "Memory": "4096", "CacheMemory": "2GiB", "OriginVerify": SECRET,
    "EdgeCertificateArn": f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/abc", "AlarmTopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:alarms",
    "MaxCount": "20", "AdminNetwork": "10.0.0.0/8", "OperatorArns": f"arn:aws:iam::{ACCOUNT}:role/ops",
    "CollectorImage": "public.ecr.aws/aws-observability/aws-otel-collector:v0.43.3", "Distribution": "E1EXAMPLE", "OriginDomain": "isr.example.com",
}  # fmt: skip


@pytest.mark.parametrize("size", ["small", "large"])
def test_cloudformation(account, size):
    """Creates the stacks once."""
    parameters = {**account, **(SMALL if size == "small" else LARGE)}
    if size == "large":
        tables = boto3.client("ec2").describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [account["VpcId"]]}])["RouteTables"]
        parameters["RouteTableIds"] = ",".join(t["RouteTableId"] for t in tables)
    if size == "large":
        lists = boto3.client("ec2").describe_managed_prefix_lists(Filters=[{"Name": "prefix-list-name", "Values": ["com.amazonaws.global.cloudfront.origin-facing"]}])
        parameters["CloudFrontPrefixList"] = lists["PrefixLists"][0]["PrefixListId"]
    cloudformation = boto3.client("cloudformation")
    for name in STACKS:
        if name == "edge" and size == "small":
            continue
        body = (TEMPLATES / f"{name}.yaml").read_text()
        known = template(name)["Parameters"]
        cloudformation.create_stack(
            StackName=f"isr-{name}",
            TemplateBody=body,
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items() if k in known],
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        assert cloudformation.describe_stacks(StackName=f"isr-{name}")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"
    services = boto3.client("ecs").describe_services(cluster="isr", services=["isr-server", "isr-worker"])["services"]
    assert {s["serviceName"] for s in services} == ({"isr-server"} if size == "small" else {"isr-server", "isr-worker"})
    check_people(size)
    listener = listeners()[443]
    if size == "small":
        assert listener["DefaultActions"][0]["Type"] == "forward"
        assert listeners()[80]["DefaultActions"][0]["Type"] == "redirect"
    else:
        check_verified(listener)


def check_people(size):
    """The servers have secrets; the large installation has a role of operators."""
    task = boto3.client("ecs").describe_task_definition(taskDefinition="isr-server")["taskDefinition"]["containerDefinitions"][0]
    secrets = {s["name"]: boto3.client("secretsmanager").get_secret_value(SecretId=s["valueFrom"])["SecretString"] for s in task["secrets"]}
    assert set(secrets) == {"ISR_ADMIN_TOKEN", "ISR_PEER_SECRET"}
    assert all(len(value) >= 32 and value.isalnum() for value in secrets.values()) and len(set(secrets.values())) == 2
    iam = boto3.client("iam")
    roles = [r["RoleName"] for r in iam.list_roles()["Roles"] if "operator" in r["RoleName"]]
    assert roles == ([] if size == "small" else [f"isr-operator-{REGION}"])
    assert resources("store")["OperatorRole"]["Properties"]["ManagedPolicyArns"] == [{"Ref": "OperatorPolicy"}, {"Ref": "ChangesPolicy"}]


def listeners():
    elb = boto3.client("elbv2")
    balancer = elb.describe_load_balancers(Names=["isr"])["LoadBalancers"][0]["LoadBalancerArn"]
    return {listener["Port"]: listener for listener in elb.describe_listeners(LoadBalancerArn=balancer)["Listeners"]}


def check_verified(listener):
    """Only requests with the secret of CloudFront reach the servers."""
    rules = boto3.client("elbv2").describe_rules(ListenerArn=listener["ListenerArn"])["Rules"]
    forwards = [r for r in rules if r["Actions"][0]["Type"] == "forward"]
    assert len(rules) == 2 and len(forwards) == 1
    assert forwards[0]["Conditions"][0]["HttpHeaderConfig"] == {"HttpHeaderName": "X-Origin-Verify", "Values": [SECRET]}
    assert 80 not in listeners()


# --- Terraform itself


@pytest.fixture(scope="module")
def terraform():
    """Returns a function that runs Terraform in a copy of an example; without it, the tests are skipped, and ./test reports it."""
    plugins = os.environ.get("ISR_TEST_TERRAFORM_PLUGINS")
    if not plugins:
        pytest.skip("Terraform 1.11 with the provider for AWS 5.100: validate and apply; the static comparison with CloudFormation has run")

    def run(folder, *arguments):
        done = subprocess.run(["terraform", *arguments, *([] if arguments[0] == "show" else ["-no-color"])], cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def prepare(tmp_path, example):
        shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns(".terraform*"))
        folder = tmp_path / "deploy" / "terraform" / "examples" / example
        run(folder, "init", "-input=false", f"-plugin-dir={plugins}")
        return folder

    return prepare, run


@pytest.mark.parametrize("example", ["small", "large"])
def test_terraform_validate(terraform, aws, tmp_path, example):
    prepare, run = terraform
    run(DEPLOY / "terraform", "fmt", "-check", "-recursive")
    assert "valid" in run(prepare(tmp_path, example), "validate")


def test_terraform_apply(terraform, account, tmp_path):
    """Creates the large example once, and compares what was created with the templates."""
    prepare, run = terraform
    folder = prepare(tmp_path, "large")
    # Moto takes the configuration of a bucket's metrics for another bucket.
    (tmp_path / "deploy/terraform/store_override.tf").write_text('resource "aws_s3_bucket_metric" "bucket" {\n  count = 0\n}\n')
    subnets = json.dumps(account["TaskSubnets"].split(","))
    variables = {
        "image": LARGE["Image"], "origin": LARGE["Origin"], "host_names": '["www.example.com"]', "vpc_id": account["VpcId"], "origin_verify": SECRET,
        "public_subnets": subnets, "private_subnets": subnets, "certificate_arn": account["CertificateArn"],
        "edge_certificate_arn": LARGE["EdgeCertificateArn"], "alarm_topic_arn": LARGE["AlarmTopicArn"],
        "operator_arns": json.dumps([LARGE["OperatorArns"]]),
    }  # fmt: skip
    run(folder, "apply", "-input=false", "-auto-approve", *(f"-var={k}={v}" for k, v in variables.items()))
    check_verified(listeners()[443])
    state = json.loads(run(folder, "show", "-json"))
    created = {(r["type"], r["name"]): r["values"] for r in state["values"]["root_module"]["child_modules"][0]["resources"] if r["mode"] == "managed"}
    compare(created)


def compare(created):
    """Compares resources of Terraform's state with the properties in the templates."""
    ours = logical()

    def pair(name):
        return ours[name]["Properties"], created[TYPES[ours[name]["Type"]], snake(name)]

    table, theirs = pair("Table")
    assert theirs["billing_mode"] == table["BillingMode"]
    assert theirs["deletion_protection_enabled"] is table["DeletionProtectionEnabled"] is True
    assert theirs["ttl"][0]["enabled"] is table["TimeToLiveSpecification"]["Enabled"] is True
    assert theirs["ttl"][0]["attribute_name"] == table["TimeToLiveSpecification"]["AttributeName"]
    assert theirs["point_in_time_recovery"][0]["enabled"] is table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert [theirs["hash_key"], theirs["range_key"]] == [k["AttributeName"] for k in table["KeySchema"]]

    bucket = ours["Bucket"]["Properties"]
    block = created["aws_s3_bucket_public_access_block", "bucket"]
    assert all(block[snake(k)] is v is True for k, v in bucket["PublicAccessBlockConfiguration"].items())
    rule = created["aws_s3_bucket_lifecycle_configuration", "bucket"]["rule"][0]
    assert len(bucket["LifecycleConfiguration"]["Rules"]) == 1 and "VersioningConfiguration" not in bucket
    assert rule["abort_incomplete_multipart_upload"][0]["days_after_initiation"] == bucket["LifecycleConfiguration"]["Rules"][0]["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
    assert not rule["expiration"]
    assert json.loads(created["aws_s3_bucket_policy", "bucket_policy"]["policy"])["Statement"][0]["Condition"] == ours["BucketPolicy"]["Properties"]["PolicyDocument"]["Statement"][0]["Condition"]

    attributes = {
        "FifoQueue": ("fifo_queue", False), "DeduplicationScope": ("deduplication_scope", "queue"), "FifoThroughputLimit": ("fifo_throughput_limit", "perQueue"),
        "VisibilityTimeout": ("visibility_timeout_seconds", 30), "ReceiveMessageWaitTimeSeconds": ("receive_wait_time_seconds", 0),
        "MessageRetentionPeriod": ("message_retention_seconds", 345600), "SqsManagedSseEnabled": ("sqs_managed_sse_enabled", False),
    }  # fmt: skip
    for name in ("RegenerationQueue", "RegenerationDeadLetters", "PurgeQueue", "PurgeDeadLetters"):
        queue, theirs = pair(name)
        assert theirs["name"] == queue["QueueName"]["Fn::Sub"].replace("${Name}", "isr")
        for key, (attribute, default) in attributes.items():
            if queue.get("FifoQueue") or not key.startswith(("Ded", "Fifo")):
                assert (theirs[attribute] or default) == queue.get(key, default), (name, key)
        if "RedrivePolicy" in queue:
            assert json.loads(theirs["redrive_policy"])["maxReceiveCount"] == queue["RedrivePolicy"]["maxReceiveCount"]

    for name in ("ServingPolicy", "WorkerPolicy", "CollectionPolicy", "OperatorPolicy", "ChangesPolicy"):
        policy, theirs = pair(name)
        assert statements(json.loads(theirs["policy"])) == statements(policy["PolicyDocument"]), name

    group, theirs = pair("TargetGroup")
    check = theirs["health_check"][0]
    assert [check["interval"], check["timeout"], check["healthy_threshold"], check["unhealthy_threshold"], check["path"], check["port"]] == [
        group["HealthCheckIntervalSeconds"], group["HealthCheckTimeoutSeconds"], group["HealthyThresholdCount"], group["UnhealthyThresholdCount"],
        group["HealthCheckPath"], group["HealthCheckPort"],
    ]  # fmt: skip
    assert {"Key": "deregistration_delay.timeout_seconds", "Value": theirs["deregistration_delay"]} in group["TargetGroupAttributes"]
    balancer, theirs = pair("LoadBalancer")
    assert {"Key": "idle_timeout.timeout_seconds", "Value": str(theirs["idle_timeout"])} in balancer["LoadBalancerAttributes"]
    assert theirs["drop_invalid_header_fields"] and theirs["preserve_host_header"] and theirs["enable_deletion_protection"]
    listener, theirs = pair("Listener")
    assert theirs["ssl_policy"] == listener["SslPolicy"]

    for name in ("ServerTask", "WorkerTask", "CollectionTask"):
        task, theirs = pair(name)
        containers = {c["Name"]: c for c in flat(task["ContainerDefinitions"])}
        for container in json.loads(theirs["container_definitions"]):
            wanted = containers.pop(container["name"])
            assert container.get("command") == wanted.get("Command")
            assert container.get("user") == wanted.get("User")
            assert container.get("stopTimeout") == wanted.get("StopTimeout")
            assert [p["containerPort"] for p in container.get("portMappings", [])] == [p["ContainerPort"] for p in wanted.get("PortMappings", [])]
            assert [s["name"] for s in container.get("secrets", [])] == [s["Name"] for s in wanted.get("Secrets", [])]
            assert container["readonlyRootFilesystem"] is wanted["ReadonlyRootFilesystem"] is True
            assert {e["name"] for e in container["environment"]} == set(every(wanted["Environment"], "Name")), name
            for e in flat(wanted["Environment"]):
                if isinstance(e["Value"], str):
                    assert {"name": e["Name"], "value": e["Value"]} in container["environment"]
        assert not containers
    for name in ("ServerService", "WorkerService"):
        service, theirs = pair(name)
        assert theirs["deployment_minimum_healthy_percent"] == service["DeploymentConfiguration"]["MinimumHealthyPercent"]
        assert theirs["deployment_circuit_breaker"] == [{"enable": True, "rollback": True}]
    for name in ("ScalingByCpu", "ScalingByConnections"):
        policy, theirs = pair(name)
        policy, theirs = policy["TargetTrackingScalingPolicyConfiguration"], theirs["target_tracking_scaling_policy_configuration"][0]
        assert [theirs["scale_in_cooldown"], theirs["scale_out_cooldown"]] == [policy["ScaleInCooldown"], policy["ScaleOutCooldown"]]
        assert [m["id"] for s in theirs["customized_metric_specification"] for m in s["metrics"]] == list(every(policy, "Id"))
        assert theirs["target_value"] == (2000 if "Ref" in str(policy["TargetValue"]) else policy["TargetValue"])
    target = created["aws_appautoscaling_target", "scaling"]
    assert (target["min_capacity"], target["max_capacity"], target["resource_id"]) == (6, 20, "service/isr/isr-server")
    timer, theirs = pair("CollectionTimer")
    assert theirs["target"][0]["retry_policy"] == [snaked(timer["Target"]["RetryPolicy"])]
    dashboard = created["aws_cloudwatch_dashboard", "dashboard"]["dashboard_body"]
    assert shape(json.loads(dashboard)) == shape(json.loads(ours["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][0]))


def flat(members):
    """Returns the members of a list, also those in a branch of Fn::If."""
    return [b for m in members for b in (m["Fn::If"][1:] if "Fn::If" in m else [m]) if b != {"Ref": "AWS::NoValue"}]


def snaked(properties):
    return {snake(k): v for k, v in properties.items()}


def statements(document):
    """Returns what a policy allows, by Sid: actions, and the ends of resources."""
    found = {}
    for s in document["Statement"]:
        text = json.dumps(s["Resource"])
        kind = next(k for k in ("Table", "Bucket", "PurgeQueue", "RegenerationQueue") if k in text or k in named(text))
        found[s["Sid"]] = [sorted(s["Action"]), kind, re.search(r"(/[\w*/-]+)?\"?\}?$", text)[1] if kind == "Bucket" else None, s["Effect"]]
    return found


def named(text):
    for part, kind in {":table/": "Table", "-purges": "PurgeQueue", "-regeneration": "RegenerationQueue", ":s3:": "Bucket"}.items():
        if part in text:
            return [kind]
    return []


def shape(dashboard):
    """Returns a dashboard without the names of resources."""
    return [[w["x"], w["y"], w["properties"]["title"], w["properties"]["stat"], [[m for m in metric if str(m)[0] not in "$i" and "isr" not in str(m) and "Name}" not in str(m) and "/" not in str(m)] for metric in w["properties"]["metrics"]]] for w in dashboard["widgets"]]
