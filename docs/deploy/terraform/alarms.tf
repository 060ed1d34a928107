# docs/operations.md says of each alarm what it means and what to do.

locals {
  runbook = "See docs/operations.md"

  # Lines of the logs that become metrics: log group, pattern, value.
  filters = {
    QueueOldestSeconds = [var.control_log_group, "{ $.msg = \"queue\" }", "$.oldest_seconds"]
    QueueDemand        = [var.control_log_group, "{ $.msg = \"queue\" }", "$.demand"]
    JobsEnded          = [aws_cloudwatch_log_group.worker.name, "{ $.msg = \"job ended\" }", "1"]
    LostLocks          = [aws_cloudwatch_log_group.worker.name, "{ $.msg = \"job ended\" && $.outcome = \"lost_lock\" }", "1"]
  }

  balancer_alarms = {
    HTTPCode_ELB_504_Count = { text = "The load balancer answers 504: nothing here should take seconds. ${local.runbook}#gateway-timeouts", of = 2, at = 1 }
    HTTPCode_ELB_502_Count = { text = "The load balancer answers 502: a worker closed a connection on it. ${local.runbook}#bad-gateways", of = 5, at = 2 }
  }
}

resource "aws_cloudwatch_log_metric_filter" "this" {
  for_each       = local.filters
  name           = "${var.name}-${each.key}"
  log_group_name = each.value[0]
  pattern        = each.value[1]

  metric_transformation {
    namespace = "posefleet"
    name      = each.key
    value     = each.value[2]
  }
}

# Per minute: a 504 is known within three minutes. There is a metric only where there was one.
resource "aws_cloudwatch_metric_alarm" "balancer" {
  for_each            = local.balancer_alarms
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.text
  alarm_actions       = [var.alarm_topic_arn]
  namespace           = "AWS/ApplicationELB"
  metric_name         = each.key
  dimensions          = { LoadBalancer = aws_lb.door.arn_suffix }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = each.value.of
  datapoints_to_alarm = each.value.at
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
}

resource "aws_cloudwatch_metric_alarm" "queue_age" {
  alarm_name          = "${var.name}-queue-age"
  alarm_description   = "A job waits too long. ${local.runbook}#queue-age"
  alarm_actions       = [var.alarm_topic_arn]
  namespace           = "posefleet"
  metric_name         = "QueueOldestSeconds"
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  threshold           = var.queue_age_seconds
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "breaching" # the census comes twice a minute: without it nobody knows
}

resource "aws_cloudwatch_metric_alarm" "no_progress" {
  alarm_name          = "${var.name}-no-progress"
  alarm_description   = "There is work, and none of it ends. ${local.runbook}#no-progress"
  alarm_actions       = [var.alarm_topic_arn]
  evaluation_periods  = 4 # of five minutes: longer than most analyses
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "stuck"
    expression  = "IF(demand > 0 AND FILL(ended, 0) == 0, 1, 0)"
    label       = "work but no ends"
    return_data = true
  }

  metric_query {
    id = "demand"

    metric {
      namespace   = "posefleet"
      metric_name = "QueueDemand"
      period      = 300
      stat        = "Minimum"
    }
  }

  metric_query {
    id = "ended"

    metric {
      namespace   = "posefleet"
      metric_name = "JobsEnded"
      period      = 300
      stat        = "Sum"
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "locks_lost" {
  alarm_name          = "${var.name}-locks-lost"
  alarm_description   = "A worker lost the lock of a job that it worked on. ${local.runbook}#locks-lost"
  alarm_actions       = [var.alarm_topic_arn]
  namespace           = "posefleet"
  metric_name         = "LostLocks"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
}
