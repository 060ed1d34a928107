# The worker service on Fargate behind an internal load balancer. Cluster, network, Redis, control plane and secrets exist already. The
# desired count belongs to whoever scales the fleet. Alarms are in alarms.tf.

terraform {
  required_version = ">= 1.6"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  arn = "arn:${data.aws_partition.current.partition}"
  own = "${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}"
}

resource "aws_cloudwatch_log_group" "worker" {
  name              = "/ecs/${var.name}"
  retention_in_days = 30
}

# ---- who may do what

data "aws_iam_policy_document" "tasks" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
  }
}

# Of the agent: pulls the image, reads the secrets, writes the log.
data "aws_iam_policy_document" "start" {
  statement {
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"] # has no resource
  }

  statement {
    actions   = ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"]
    resources = ["${local.arn}:ecr:${local.own}:repository/*"]
  }

  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.worker.arn}:*"]
  }

  statement {
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [var.secret_arns.redis_url, var.secret_arns.worker, var.secret_arns.door]
  }
}

resource "aws_iam_role" "execution" {
  name_prefix        = "${var.name}-start-"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
}

resource "aws_iam_role_policy" "start" {
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.start.json
}

# Of the worker itself: nothing but protection of its own tasks; clips and documents come by presigned URLs.
data "aws_iam_policy_document" "protection" {
  statement {
    actions   = ["ecs:GetTaskProtection", "ecs:UpdateTaskProtection"]
    resources = ["${local.arn}:ecs:${local.own}:task/${var.cluster}/*"]
  }
}

resource "aws_iam_role" "task" {
  name_prefix        = "${var.name}-task-"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
}

resource "aws_iam_role_policy" "protection" {
  role   = aws_iam_role.task.id
  policy = data.aws_iam_policy_document.protection.json
}

resource "aws_security_group" "balancer" {
  name_prefix = "${var.name}-balancer-"
  description = "Load balancer of the posefleet workers"
  vpc_id      = var.vpc_id

  ingress {
    protocol        = "tcp"
    from_port       = 443
    to_port         = 443
    security_groups = [var.caller_security_group_id]
  }

  egress {
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_security_group" "worker" {
  name_prefix = "${var.name}-"
  description = "posefleet workers"
  vpc_id      = var.vpc_id

  ingress {
    protocol        = "tcp"
    from_port       = 8080
    to_port         = 8080
    security_groups = [aws_security_group.balancer.id]
  }

  ingress { # health only; no rule forwards to it
    protocol        = "tcp"
    from_port       = 9090
    to_port         = 9090
    security_groups = [aws_security_group.balancer.id]
  }

  egress {
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    cidr_blocks = ["0.0.0.0/0"]
  }
}

# ---- the door

resource "aws_lb" "door" {
  name_prefix                = "pose-"
  internal                   = true
  load_balancer_type         = "application"
  subnets                    = var.subnet_ids
  security_groups            = [aws_security_group.balancer.id]
  drop_invalid_header_fields = true

  # In words, so that nobody relies on a default: the door answers within seconds, and the workers keep idle connections longer (75 s).
  idle_timeout = 60
}

resource "aws_lb_target_group" "workers" {
  name_prefix                   = "pose-"
  vpc_id                        = var.vpc_id
  target_type                   = "ip"
  protocol                      = "HTTP"
  port                          = 8080
  deregistration_delay          = 10 # every request is over in seconds
  load_balancing_algorithm_type = "least_outstanding_requests"

  health_check {
    port                = "9090"
    path                = "/healthz" # alive, also while busy or draining: an unhealthy task is killed, protected or not
    interval            = 15
    timeout             = 10
    healthy_threshold   = 2
    unhealthy_threshold = 5
  }
}

resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.door.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.workers.arn
  }
}

# ---- the service

resource "aws_ecs_task_definition" "worker" {
  family                   = var.name
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.task.arn

  ephemeral_storage {
    size_in_gib = 40
  }

  container_definitions = jsonencode([{
    name            = "worker"
    image           = var.image
    essential       = true
    user            = "10001:10001" # owns nothing but its scratch folder in the image
    stopTimeout     = 120           # the longest that Fargate grants; the drain takes 85 s of it
    linuxParameters = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
    portMappings    = [{ containerPort = 8080 }, { containerPort = 9090 }]

    environment = [
      { name = "POSEFLEET_CONTROL_URL", value = var.control_url },
      { name = "POSEFLEET_STORAGE_HOSTS", value = var.storage_hosts },
      { name = "POSEFLEET_SLOTS", value = tostring(var.slots) },
      { name = "POSEFLEET_WORK_DIR", value = "/var/lib/posefleet" },
      { name = "POSEFLEET_DRAIN_TIMEOUT", value = "85s" },
      { name = "POSEFLEET_TASK_PROTECTION", value = "auto" },
    ]

    secrets = [
      { name = "POSEFLEET_REDIS_URL", valueFrom = var.secret_arns.redis_url },
      { name = "POSEFLEET_WORKER_SECRET", valueFrom = var.secret_arns.worker },
      { name = "POSEFLEET_DOOR_SECRET", valueFrom = var.secret_arns.door },
    ]

    healthCheck = {
      command     = ["CMD", "/usr/local/bin/posefleet", "healthcheck"]
      interval    = 15
      timeout     = 10
      retries     = 5
      startPeriod = 60
    }

    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.worker.name
        awslogs-region        = data.aws_region.current.name
        awslogs-stream-prefix = "worker"
      }
    }
  }])
}

resource "aws_ecs_service" "worker" {
  name                               = var.name
  cluster                            = var.cluster
  task_definition                    = aws_ecs_task_definition.worker.arn
  launch_type                        = "FARGATE"
  health_check_grace_period_seconds  = 60
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200 # protected old tasks count as well: with less there would be no room for new ones
  depends_on                         = [aws_lb_listener.https]

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = [aws_security_group.worker.id]
    assign_public_ip = false
  }

  load_balancer {
    container_name   = "worker"
    container_port   = 8080
    target_group_arn = aws_lb_target_group.workers.arn
  }

  lifecycle {
    ignore_changes = [desired_count]
  }
}

output "door_url" {
  value       = "https://${aws_lb.door.dns_name}"
  description = "Base URL of the workers' HTTP door."
}
