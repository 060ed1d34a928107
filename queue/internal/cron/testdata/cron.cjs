// Asks cron-parser: reads one JSON question a line, answers one JSON line each.
//   node cron.cjs PACKAGE-THAT-HAS-IT
'use strict'
const readline = require('node:readline')
const { createRequire } = require('node:module')
const { CronExpressionParser } = createRequire(require.resolve(process.argv[2]))('cron-parser')

// Each time is found from the one before as if by a new process, since that is how schedules go on.
function chain ({ pattern, tz, from, count, seed }) {
  const times = []
  for (let at = from; times.length < count;) {
    const parsed = CronExpressionParser.parse(pattern, { tz, hashSeed: seed, currentDate: new Date(at) })
    try {
      at = parsed.next().getTime()
    } catch {
      break
    }
    times.push(at)
  }
  return times
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  let answer
  try {
    answer = { times: chain(JSON.parse(line)) }
  } catch (err) {
    answer = { error: String(err && err.message) }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
})
