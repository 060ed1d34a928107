// A BullMQ client for the tests: reads one JSON command a line, answers one JSON line each.
//   node bull.cjs PACKAGE HOST PORT QUEUE
'use strict'
const readline = require('node:readline')
const { AsyncLocalStorage } = require('node:async_hooks')
const { randomBytes } = require('node:crypto')

const [, , pack, host, port, name] = process.argv
const { Queue, Worker, QueueEvents, FlowProducer } = require(pack)
const connection = { host, port: Number(port), maxRetriesPerRequest: null }
const queue = new Queue(name, { connection })
const open = [queue]
const seen = []

// A telemetry for BullMQ with W3C trace contexts: a context is a traceparent, and a span is one more of the same trace.
const traces = new AsyncLocalStorage()
const hex = (bytes) => randomBytes(bytes).toString('hex')
const telemetry = {
  tracer: {
    startSpan: (name, options, parent = traces.getStore()) => {
      const trace = parent ? parent.split('-')[1] : hex(16)
      const own = `00-${trace}-${hex(8)}-01`
      return { setSpanOnContext: () => own, setAttribute () {}, setAttributes () {}, addEvent () {}, recordException () {}, end () {} }
    }
  },
  contextManager: {
    with: (context, fn) => traces.run(context, fn),
    active: () => traces.getStore(),
    getMetadata: (context) => JSON.stringify({ traceparent: context }),
    fromMetadata: (context, metadata) => JSON.parse(metadata).traceparent
  }
}
let worker

// What the worker does with a job is said by its data.
async function work (job) {
  await job.updateProgress({ done: 0.5 })
  await job.log('by node')
  if (job.data && job.data.hang) await new Promise(() => {})
  if (job.data && job.data.failures > job.attemptsMade) throw new Error('not yet')
  return { by: 'node', n: job.data ? job.data.n : null, children: await job.getChildrenValues(), trace: traces.getStore() }
}

const commands = {
  add: async ({ job, data, opts }) => (await queue.add(job, data, opts)).id,
  flow: async ({ tree, options }) => {
    const flows = new FlowProducer({ connection })
    open.push(flows)
    return (await flows.add(tree, options)).job.id
  },
  addDefaults: async ({ defaults, job, data, opts }) => {
    const other = new Queue(name, { connection, defaultJobOptions: defaults })
    open.push(other)
    return (await other.add(job, data, opts)).id
  },
  addTraced: async ({ job, data, opts }) => {
    const traced = new Queue(name, { connection, telemetry })
    open.push(traced)
    return (await traced.add(job, data, opts)).id
  },
  work: async ({ opts, traced }) => {
    worker = new Worker(name, work, { connection, name: 'node', ...opts, ...(traced && { telemetry }) })
    worker.on('error', () => {})
    open.push(worker)
    await worker.waitUntilReady()
    return true
  },
  rest: async () => { await worker.close(); return true },
  listen: async () => {
    const events = new QueueEvents(name, { connection, lastEventId: '0' })
    open.push(events)
    for (const e of ['added', 'waiting', 'active', 'completed', 'failed', 'progress', 'delayed', 'stalled', 'removed', 'drained', 'paused',
      'resumed', 'duplicated', 'deduplicated', 'retries-exhausted', 'waiting-children', 'cleaned']) {
      events.on(e, (args, id) => seen.push({ event: e, ...args, at: id }))
    }
    await events.waitUntilReady()
    return true
  },
  events: async () => seen,
  job: async ({ id }) => {
    const job = await queue.getJob(id)
    if (!job) return null
    return {
      state: await job.getState(), name: job.name, data: job.data, returnvalue: job.returnvalue, progress: job.progress,
      failedReason: job.failedReason, attemptsMade: job.attemptsMade, attemptsStarted: job.attemptsStarted,
      stacktrace: job.stacktrace, stalledCounter: job.stalledCounter, processedBy: job.processedBy,
      logs: (await queue.getJobLogs(id)).logs, opts: job.opts, finished: job.finishedOn > 0
    }
  },
  upsert: async ({ id, repeat, template }) => (await queue.upsertJobScheduler(id, repeat, template)).id,
  counts: async () => await queue.getJobCounts(),
  prometheus: async ({ labels }) => await queue.exportPrometheusMetrics(labels),
  removeUnprocessedChildren: async ({ id }) => { await (await queue.getJob(id)).removeUnprocessedChildren() },
  workers: async () => (await queue.getWorkers()).map((w) => w.rawname || w.name),
  dedupOwner: async ({ id }) => (await queue.getDeduplicationJobId(id)) || '',
  endDedup: async ({ id }) => await queue.removeDeduplicationKey(id),
  pause: async () => { await queue.pause(); return true },
  resume: async () => { await queue.resume(); return true },
  remove: async ({ id }) => { await (await queue.getJob(id)).remove(); return true },
  retry: async ({ id }) => { await (await queue.getJob(id)).retry(); return true }
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const command = JSON.parse(line)
  let answer
  try {
    answer = { value: await commands[command.op](command) }
  } catch (err) {
    answer = { error: String(err && err.message) }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}).on('close', async () => {
  for (const o of open.reverse()) await o.close().catch(() => {})
  process.exit(0)
})
