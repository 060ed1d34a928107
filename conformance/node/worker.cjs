// A Node BullMQ worker. Its handler works for a given time, off the event loop (the renewal timer goes on ticking) or on it (nothing
// else in the process can run, as with a native call or a hot loop inside the handler).
//
// Usage: node worker.cjs bullmq6|bullmq5
// Environment: REDIS_URL, PREFIX, QUEUE, NAME, LOCK_MS, STALLED_MS, WORK_MS, MAX_STALLED (1), BLOCKING=1.
//
// It tells what happens as JSON lines: {"event":"ready"|"start"|"end"|"completed"|"failed"|"error"|"stalled",…}. End of stdin closes it.
'use strict'

const { Worker } = require(process.argv[2])
const { connection } = require('./connection.cjs')

const env = process.env
const workMs = Number(env.WORK_MS)

function say(event, fields) {
  process.stdout.write(JSON.stringify({ event, at: Date.now(), ...fields }) + '\n')
}

// occupy holds the thread, and with it the timers of the whole process, until the time is over.
function occupy(ms) {
  const end = Date.now() + ms
  let sink = 0
  while (Date.now() < end) sink = (sink + Math.sqrt(end + sink)) % 1000
  return sink
}

async function handle(job) {
  say('start', { job: job.id, attemptsStarted: job.attemptsStarted })
  if (env.BLOCKING === '1') occupy(workMs)
  else await new Promise((resolve) => setTimeout(resolve, workMs))
  say('end', { job: job.id })
  return { by: env.NAME }
}

const worker = new Worker(env.QUEUE, handle, {
  connection: connection(env.REDIS_URL),
  prefix: env.PREFIX,
  name: env.NAME,
  lockDuration: Number(env.LOCK_MS),
  stalledInterval: Number(env.STALLED_MS),
  maxStalledCount: Number(env.MAX_STALLED ?? 1)
})

worker.on('completed', (job) => say('completed', { job: job.id }))
worker.on('failed', (job, error) => say('failed', { job: job?.id, message: error.message }))
worker.on('stalled', (id) => say('stalled', { job: id }))
worker.on('error', (error) => say('error', { message: error.message }))

worker.waitUntilReady().then(() => say('ready', {}))
process.stdin.on('end', () => worker.close().then(() => process.exit(0)))
process.stdin.resume()
