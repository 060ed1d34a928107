// A Node service that dispatches analyses the way an orchestrator does: BullMQ's Queue.add with the analysis id as the job id, so that a
// second dispatch of the same analysis is no second job. Arguments: the analysis ids. Environment: REDIS_URL, PREFIX, QUEUE.
// Prints {"version":"…","jobs":["…"]}.
const { Queue } = require('bullmq6')
const { version } = require('bullmq6/package.json')

async function main() {
  const url = new URL(process.env.REDIS_URL)
  const connection = {
    host: url.hostname,
    port: Number(url.port || 6379),
    username: decodeURIComponent(url.username) || undefined,
    password: decodeURIComponent(url.password) || undefined,
    db: Number(url.pathname.slice(1) || 0),
    tls: url.protocol === 'rediss:' ? {} : undefined
  }
  const queue = new Queue(process.env.QUEUE, { connection, prefix: process.env.PREFIX })
  const jobs = []
  for (const analysisId of process.argv.slice(2)) {
    const job = await queue.add('analysis', { v: 1, analysisId }, { jobId: analysisId, attempts: 3, backoff: { type: 'exponential', delay: 1000 } })
    jobs.push(job.id)
  }
  await queue.close()
  process.stdout.write(JSON.stringify({ version, jobs }) + '\n')
}

main().catch((error) => {
  console.error(error.message)
  process.exit(1)
})
