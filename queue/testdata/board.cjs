// bull-board on a queue, opened in a real Chromium: tells what a person sees there of the failed job, and presses its Retry button.
//   node board.cjs PACKAGE HOST PORT QUEUE WORDS SCREENSHOT.png
// WORDS: what to wait for on each of the job's tabs, as JSON {"Data": "…", …}. Environment: CHROMIUM (path of the browser).
//
// Prints one JSON object: {"counts": {"completed": 3, …}, "lonely", "tabs": {"Data": "…", …}, "retried", "errors": […]}
// counts are the badges of the states; lonely: it warns that no worker is connected; tabs and retried are texts of the job's card, before
// and after the retry.
'use strict'
const Module = require('node:module')

const [, , pack, host, port, name, words, screenshot] = process.argv
const resolve = Module._resolveFilename
Module._resolveFilename = (wanted, ...rest) => resolve.call(Module, wanted === 'bullmq' ? pack : wanted, ...rest) // installed under aliases

const { Queue } = require(pack)
const express = require('express')
const { createBullBoard } = require('@bull-board/api')
const { BullMQAdapter } = require('@bull-board/api/bullMQAdapter')
const { ExpressAdapter } = require('@bull-board/express')
const { chromium } = require('playwright-core')

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync']
const TIMEOUT = 120_000
const JOB = 'a[class^=jobLink]'
const CARD = '[class^=card]'

async function serve (queue) {
  const serverAdapter = new ExpressAdapter()
  createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter })
  const app = express()
  app.use(serverAdapter.getRouter())
  return await new Promise((resolve) => { const server = app.listen(0, '127.0.0.1', () => resolve(server)) })
}

// counts reads the badges; a state without jobs has none.
async function counts (page) {
  const found = {}
  for (const tab of await page.locator('ul[class^=statusTabs] a').all()) {
    const [label, badge] = (await tab.innerText()).split('\n')
    if (label !== 'LATEST') found[label.toLowerCase()] = Number(badge || 0)
  }
  return found
}

// press finds a button among the job's actions by its tooltip, as a person does.
async function press (page, tooltip) {
  for (const timeout of [3000, 15000, 30000]) { // a busy machine may show it late
    for (const button of await page.locator('ul[class^=jobActions] button').all()) {
      await button.hover()
      const found = await page.getByText(tooltip, { exact: true }).waitFor({ timeout }).then(() => true, () => false)
      if (found) return await button.click()
    }
  }
  throw new Error(`the job has no button ${tooltip}`)
}

async function card (page, word) {
  const shown = page.locator(CARD).filter({ hasText: word })
  await shown.first().waitFor()
  return await shown.first().innerText()
}

async function look (page, url) {
  const seen = { tabs: {} }
  await page.goto(`${url}/queue/${name}?status=failed`)
  await page.locator(JOB).waitFor()
  seen.counts = await counts(page)
  seen.lonely = await page.locator('button[class^=workersBadge]').count() > 0

  await page.locator(JOB).click()
  await page.locator(JOB).waitFor({ state: 'detached' })
  for (const [tab, word] of Object.entries(JSON.parse(words))) {
    await page.getByText(tab, { exact: true }).click()
    seen.tabs[tab] = await card(page, word)
  }

  await press(page, 'Retry')
  await page.getByRole('button', { name: 'Confirm' }).click()
  seen.retried = await card(page, 'Finished at')
  return seen
}

async function main () {
  const queue = new Queue(name, { connection: { host, port: Number(port) } })
  const server = await serve(queue)
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS, timeout: TIMEOUT })
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  const url = `http://127.0.0.1:${server.address().port}`
  const errors = []
  page.setDefaultTimeout(TIMEOUT)
  page.on('pageerror', (error) => errors.push(error.message))
  page.on('response', (response) => { if (response.status() >= 400) errors.push(`${response.status()} ${response.url()}`) })
  await page.route((to) => !to.href.startsWith(url), (route) => route.abort()) // fonts of strangers
  try {
    const seen = await look(page, url)
    process.stdout.write(JSON.stringify({ ...seen, errors }) + '\n')
  } finally {
    await page.screenshot({ path: screenshot })
    await browser.close()
    server.close()
    await queue.close()
  }
}

main().then(() => process.exit(0), (error) => {
  console.error(error)
  process.exit(1)
})
