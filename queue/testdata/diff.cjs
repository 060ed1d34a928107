// One side of the differential test: a BullMQ that does one step at a time, at the time that it is told.
//   node diff.cjs PACKAGE HOST PORT DB QUEUE
// One JSON command a line, one JSON answer a line: {"ok": value} or {"fault": message}.
'use strict'
const readline = require('node:readline')

const [, , pack, host, port, db, name] = process.argv
const { Queue, Worker, Job, UnrecoverableError } = require(pack)
let now = 0
Date.now = () => now

const connection = { host, port: Number(port), db: Number(db), maxRetriesPerRequest: null }
const queue = new Queue(name, { connection })
const worker = new Worker(name, async () => {}, {
  connection, autorun: false, name: 'w', lockDuration: 36000000, stalledInterval: 30000, maxStalledCount: 1, metrics: { maxDataPoints: 60 }
})
const back = () => worker.backend || worker.scripts
const held = new Map()

async function find (id) {
  const job = await queue.getJob(id)
  if (!job) throw new Error('no job')
  return job
}

function hold (token) {
  const job = held.get(token)
  held.delete(token)
  return job
}

const commands = {
  reset: async () => { held.clear(); return true },
  add: async ({ data, opts }) => String((await queue.add('n', data, opts)).id),
  bulk: async ({ jobs }) => (await queue.addBulk(jobs.map(({ data, opts }) => ({ name: 'n', data, opts })))).map((j) => String(j.id)),
  take: async ({ token }) => {
    const got = worker.backend ? await back().moveToActive(token, 'w') : await back().moveToActive(await worker.client, token, 'w')
    const [fields, id] = got
    if (!fields || !id) return ''
    held.set(token, Job.fromJSON(worker, fields, id))
    return String(id)
  },
  complete: async ({ token, data }) => { await hold(token).moveToCompleted(data, token, false); return true },
  fail: async ({ token, text, flag }) => {
    await hold(token).moveToFailed(flag ? new UnrecoverableError(text) : new Error(text), token, false)
    return true
  },
  later: async ({ token, n }) => { await hold(token).moveToDelayed(now + n, token); return true },
  back: async ({ token }) => { await back().moveJobFromActiveToWait(hold(token).id, token); return true },
  progress: async ({ id, data }) => { await (await find(id)).updateProgress(data); return true },
  data: async ({ id, data }) => { await (await find(id)).updateData(data); return true },
  log: async ({ id, text }) => { await queue.addJobLog(id, text, 2); return true },
  priority: async ({ id, n, flag }) => { await (await find(id)).changePriority({ priority: n, lifo: flag }); return true },
  redelay: async ({ id, n }) => { await (await find(id)).changeDelay(n); return true },
  promote: async ({ id }) => { await (await find(id)).promote(); return true },
  promoteAll: async () => { await queue.promoteJobs(); return true },
  retry: async ({ id, flag }) => {
    const job = await find(id)
    const state = await job.getState()
    if (state !== 'completed' && state !== 'failed') throw new Error('not finished') // Node tries any set
    await job.retry(state, { resetAttemptsMade: flag, resetAttemptsStarted: flag })
    return true
  },
  retryAll: async ({ state }) => { await queue.retryJobs({ state, timestamp: now }); return true },
  remove: async ({ id }) => await queue.remove(id),
  drain: async ({ flag }) => { await queue.drain(flag); return true },
  clean: async ({ n, state, limit }) => await queue.clean(n, limit, state),
  pause: async () => { await queue.pause(); return true },
  resume: async () => { await queue.resume(); return true },
  obliterate: async ({ flag }) => { await queue.obliterate({ force: flag }); return true },
  concurrency: async ({ n }) => { n ? await queue.setGlobalConcurrency(n) : await queue.removeGlobalConcurrency(); return true },
  rate: async ({ n }) => { n ? await queue.setGlobalRateLimit(n, 36000000) : await queue.removeGlobalRateLimit(); return true },
  unlimit: async () => { await queue.removeRateLimitKey(); return true },
  stalled: async () => { await back().moveStalledJobsToWait(); return true },
  state: async ({ id }) => await queue.getJobState(id),
  list: async ({ state }) => {
    const asc = state !== 'completed' && state !== 'failed'
    return (await queue.getJobs([state], 0, 99, asc)).map((j) => j.id)
  },
  perPriority: async () => await queue.getCountsPerPriority([0, 1, 2, 3]),
  metrics: async ({ state }) => {
    const m = await queue.getMetrics(state)
    return [m.meta.count, m.meta.prevTS, m.meta.prevCount, ...m.data.map(Number)]
  }
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const command = JSON.parse(line)
  now = command.now
  let answer
  try {
    answer = { ok: await commands[command.op](command) }
  } catch (err) {
    answer = { fault: String(err && err.message) }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}).on('close', async () => {
  await worker.close(true).catch(() => {})
  await queue.close().catch(() => {})
  process.exit(0)
})
queue.waitUntilReady().then(() => worker.waitUntilReady()).then(() => process.stdout.write('{"ok":"ready"}\n'))
