// Runs a piece of script against a page in a real Chromium and prints what it returns as JSON.
//
// Usage: node look.cjs URL < SCRIPT
// Environment: CHROMIUM (path of the browser), WIDTH, SCHEME (light or dark).
//
// The script is the body of an async function of page (playwright's), tell (prints the word "ready", for whoever waits for
// it) and errors (faults of the page so far: exceptions, console errors and answers of 400 and more).
'use strict'

const { chromium } = require('playwright-core')
const { readFileSync } = require('node:fs')

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--autoplay-policy=no-user-gesture-required']
const TIMEOUT = 120_000

async function main() {
  const script = readFileSync(0, 'utf8')
  const AsyncFunction = main.constructor
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS, timeout: TIMEOUT })
  try {
    const page = await browser.newPage({
      viewport: { width: Number(process.env.WIDTH || 1280), height: 900 },
      colorScheme: process.env.SCHEME || 'light'
    })
    page.setDefaultTimeout(TIMEOUT)
    const errors = []
    page.on('pageerror', (error) => errors.push(error.message))
    // A connection that the browser had opened ahead may be closed by the server before it is used; what is lost with it, the script misses.
    page.on('console', (message) => {
      if (message.type() === 'error' && !message.text().includes('ERR_SOCKET_NOT_CONNECTED')) errors.push(message.text())
    })
    page.on('response', (response) => { if (response.status() >= 400) errors.push(`${response.status()} ${response.url()}`) })
    await page.goto(process.argv[2], { waitUntil: 'load' })
    const tell = () => process.stdout.write('ready\n')
    const got = await new AsyncFunction('page', 'tell', 'errors', script)(page, tell, errors)
    process.stdout.write(JSON.stringify({ got, errors }) + '\n')
  } finally {
    await browser.close()
  }
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
