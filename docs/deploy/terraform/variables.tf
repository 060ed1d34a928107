variable "name" {
  type        = string
  default     = "posefleet-worker"
  description = "Name of the service and prefix of all names."
}

variable "cluster" {
  type        = string
  description = "Name of the ECS cluster."
}

variable "vpc_id" {
  type = string
}

variable "subnet_ids" {
  type        = list(string)
  description = "Private subnets with routes to ECR, S3, CloudWatch Logs, the ECS API and Redis."
}

variable "caller_security_group_id" {
  type        = string
  description = "Security group of the control plane, the only one that may call the door."
}

variable "certificate_arn" {
  type        = string
  description = "Certificate of the load balancer."
}

variable "image" {
  type        = string
  description = "The worker's image, by digest: registry/posefleet@sha256:…"
}

variable "control_url" {
  type        = string
  description = "Base URL of the control plane."

  validation {
    condition     = startswith(var.control_url, "https://")
    error_message = "The control plane is reached by https: whoever listens could read the URLs of the clips."
  }
}

variable "storage_hosts" {
  type        = string
  description = "Hosts of presigned URLs, as bucket.s3.eu-west-1.amazonaws.com."
}

variable "secret_arns" {
  type = object({
    redis_url = string
    worker    = string
    door      = string
  })
  description = "Secrets Manager ARNs of POSEFLEET_REDIS_URL, POSEFLEET_WORKER_SECRET and POSEFLEET_DOOR_SECRET."
}

variable "control_log_group" {
  type        = string
  description = "Log group of the control plane, whose census of the queue the alarms are made of."
}

variable "alarm_topic_arn" {
  type        = string
  description = "SNS topic for alarms."
}

variable "cpu" {
  type        = number
  default     = 4096
  description = "CPU units; two vCPUs an extraction."
}

variable "memory" {
  type        = number
  default     = 8192
  description = "MiB."
}

variable "slots" {
  type    = number
  default = 2
}

variable "queue_age_seconds" {
  type        = number
  default     = 300
  description = "Age of the oldest waiting job that raises an alarm."
}
