// The Node side of the benchmarks: BullMQ as its manual shows it. Reads one JSON command a line, answers one JSON line each.
//   node bench.cjs PACKAGE HOST PORT
'use strict'
const readline = require('node:readline')
const { performance } = require('node:perf_hooks')
const [, , pack, host, port] = process.argv
const { Queue, Worker } = require(pack)
const connection = { host, port: Number(port), maxRetriesPerRequest: null }

const commands = {
  // ms for n jobs by calls of addBulk of step jobs each
  bulk: async ({ queue: name, n, step }) => {
    const queue = new Queue(name, { connection })
    await queue.waitUntilReady()
    const began = performance.now()
    for (let at = 0; at < n; at += step) {
      const jobs = []
      for (let i = at; i < Math.min(at + step, n); i++) jobs.push({ name: 'job', data: { i } })
      await queue.addBulk(jobs)
    }
    const took = performance.now() - began
    await queue.close()
    return took
  },
  // ms from the start of a worker to the end of the n-th job
  drain: async ({ queue: name, n, concurrency }) => {
    let done = 0
    const worker = new Worker(name, async () => {}, { connection, concurrency, autorun: false })
    await worker.waitUntilReady()
    const began = performance.now()
    const took = await new Promise((resolve) => {
      worker.on('completed', () => { if (++done === n) resolve(performance.now() - began) })
      worker.run()
    })
    await worker.close()
    return took
  },
  // ms from add to the start of the processor, n times, each on an idle worker
  latency: async ({ queue: name, n, pause }) => {
    const queue = new Queue(name, { connection })
    let started
    const worker = new Worker(name, async () => { started(performance.now()) }, { connection })
    await worker.waitUntilReady()
    const times = []
    for (let i = 0; i < n; i++) {
      await new Promise((resolve) => setTimeout(resolve, pause))
      const start = new Promise((resolve) => { started = resolve })
      const began = performance.now()
      await queue.add('job', { i })
      times.push(await start - began)
    }
    await worker.close()
    await queue.close()
    return times
  }
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const command = JSON.parse(line)
  try {
    console.log(JSON.stringify({ value: await commands[command.op](command) }))
  } catch (err) {
    console.log(JSON.stringify({ error: String(err && err.stack) }))
  }
}).on('close', () => process.exit(0))
