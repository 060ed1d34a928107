// A Node service that uses a queue as any BullMQ user does: it adds jobs, reads them back and listens to QueueEvents.
//
// Usage: node client.cjs bullmq6|bullmq5
// Environment: REDIS_URL, PREFIX, QUEUE.
//
// Requests come as JSON lines on stdin, {"id":1,"op":"add",…}, and are answered one line each, {"id":1,"result":…} or
// {"id":1,"error":"…"}. Events of the queue come in between as {"event":"completed","args":{…},"stream":"<id>"}. The first line is
// {"ready":true,"version":"6.7.0"}: from then on no event is missed. End of stdin ends the process.
'use strict'

const readline = require('node:readline')

const library = process.argv[2]
const { Job, Queue, QueueEvents } = require(library)
const { connection } = require('./connection.cjs')

const EVENTS = ['added', 'waiting', 'active', 'progress', 'completed', 'failed', 'stalled', 'delayed', 'drained', 'retries-exhausted']

const options = { connection: connection(process.env.REDIS_URL), prefix: process.env.PREFIX }
const queue = new Queue(process.env.QUEUE, options)
const events = new QueueEvents(process.env.QUEUE, options)

function say(message) {
  process.stdout.write(JSON.stringify(message) + '\n')
}

async function add({ jobs }) {
  const ids = []
  for (const { name, data, opts } of jobs) {
    ids.push((await queue.add(name, data, opts)).id)
  }
  return ids
}

async function read({ job: id }) {
  const job = await Job.fromId(queue, id)
  if (!job) return null
  return {
    id: job.id,
    name: job.name,
    data: job.data,
    state: await job.getState(),
    returnvalue: job.returnvalue,
    progress: job.progress,
    failedReason: job.failedReason,
    stacktrace: job.stacktrace,
    attemptsMade: job.attemptsMade,
    attemptsStarted: job.attemptsStarted,
    processedBy: job.processedBy,
    processedOn: job.processedOn,
    finishedOn: job.finishedOn,
    logs: (await queue.getJobLogs(id)).logs
  }
}

const operations = {
  add,
  read,
  counts: () => queue.getJobCounts(),
  workers: async () => (await queue.getWorkers()).map((w) => w.rawname ?? w.name),
  // wait resolves with the return value as a Node caller sees it, or rejects with the failed reason.
  wait: async ({ job: id, timeoutMs }) => (await Job.fromId(queue, id)).waitUntilFinished(events, timeoutMs)
}

async function serve(line) {
  const { id, op, ...args } = JSON.parse(line)
  try {
    say({ id, result: (await operations[op](args)) ?? null })
  } catch (error) {
    say({ id, error: error.message })
  }
}

async function main() {
  for (const event of EVENTS) {
    events.on(event, (args, stream) => say({ event, args, stream }))
  }
  await Promise.all([queue.waitUntilReady(), events.waitUntilReady()])
  say({ ready: true, version: require(`${library}/package.json`).version })

  const pending = []
  for await (const line of readline.createInterface({ input: process.stdin })) {
    pending.push(serve(line))
  }
  await Promise.all(pending)
  await Promise.all([events.close(), queue.close()])
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
