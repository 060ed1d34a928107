// Opens an extractor's report in a real Chromium without a network and tells what a person would see: the clip playing, the skeleton on it,
// the angles' curves, and whether all of it fits.
//
// Usage: node report.cjs FILE-URL
// Environment: CHROMIUM (path of the browser).
//
// Prints one JSON object:
//   {"title", "errors":[…], "requests":[…], "drawn", "frames", "times":[…], "skeleton":[…],
//    "curves":[{"name","pixels","said"}], "remark", "keys":[…], "wide":{"light","dark"}}
// requests are those for anything but the report itself and what it holds; drawn and frames are the player's own counts; skeleton are painted pixels
// at three moments; remark is the text above the curves; keys is whether the video stood still, before and after two presses of the space bar; wide is by how many pixels the page is wider than a phone of 360.
'use strict'

const { chromium } = require('playwright-core')

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--autoplay-policy=no-user-gesture-required']
const TIMEOUT = 120_000

// painted runs in the page: how many pixels of a canvas are not transparent.
function painted(canvas) {
  if (!canvas.width || !canvas.height) return 0
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
  let count = 0
  for (let i = 3; i < pixels.length; i += 4) if (pixels[i] !== 0) count++
  return count
}

async function play(page) {
  await page.click('#play', { timeout: 1000 }).catch(() => page.evaluate(() => document.querySelector('video').play()))
  const times = []
  for (const past of [0.1, 0.3, 0.6]) {
    await page.waitForFunction((t) => document.querySelector('video').currentTime > t, past, { timeout: TIMEOUT })
    times.push(await page.evaluate(() => document.querySelector('video').currentTime))
  }
  await page.evaluate(() => document.querySelector('video').pause())
  return times
}

async function seek(page, share) {
  await page.evaluate(async (at) => {
    const video = document.querySelector('video')
    const done = new Promise((resolve) => video.addEventListener('seeked', resolve, { once: true }))
    video.currentTime = video.duration * at
    await done
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
  }, share)
  return page.$eval('#skeleton', painted)
}

// keys plays and pauses by the space bar, and goes a frame on by an arrow, the focus being nowhere.
async function keys(page) {
  const paused = () => page.evaluate(() => document.querySelector('video').paused)
  const turns = (to) => page.waitForFunction((to) => document.querySelector('video').paused === to, to, { timeout: TIMEOUT })
  await page.evaluate(() => { document.activeElement.blur(); document.querySelector('video').currentTime = 0 })
  const said = [await paused()]
  for (const to of [false, true]) {
    await page.keyboard.press(' ')
    await turns(to)
    said.push(await paused())
  }
  const frame = () => page.$eval('#skeleton', (c) => Number(c.dataset.frame))
  const before = await frame()
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('ArrowRight')
  await page.waitForFunction((before) => Number(document.querySelector('#skeleton').dataset.frame) > before, before, { timeout: TIMEOUT })
  return said
}

async function curves(page) {
  const all = []
  for (const figure of await page.$$('#curves figure:not([hidden])')) {
    all.push({
      name: await figure.getAttribute('data-angle'),
      pixels: await figure.$eval('canvas', painted),
      said: (await figure.$$eval('output', (outs) => outs.map((o) => o.textContent))).join(' ')
    })
  }
  return all
}

async function width(browser, url, colorScheme) {
  const page = await browser.newPage({ viewport: { width: 360, height: 740 }, colorScheme })
  await page.goto(url, { waitUntil: 'load', timeout: TIMEOUT })
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  await page.close()
  return over
}

async function main() {
  const url = process.argv[2]
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS, timeout: TIMEOUT })
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
    const errors = []
    const requests = []
    page.on('pageerror', (error) => errors.push(error.message))
    page.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()) })
    page.on('request', (r) => { if (r.url() !== url && !/^(data|blob):/.test(r.url())) requests.push(r.url()) })
    await page.goto(url, { waitUntil: 'load', timeout: TIMEOUT })
    await page.waitForFunction(() => document.querySelector('video').readyState >= 2, null, { timeout: TIMEOUT })
    const seen = { title: await page.title(), errors, requests, times: await play(page), skeleton: [] }
    for (const share of [0.25, 0.5, 0.75]) seen.skeleton.push(await seek(page, share))
    Object.assign(seen, await page.$eval('#skeleton', (c) => ({ frames: Number(c.dataset.frames), drawn: Number(c.dataset.drawn) })))
    seen.curves = await curves(page)
    seen.remark = await page.$eval('#angles-note', (p) => p.textContent)
    seen.keys = await keys(page)
    seen.wide = { light: await width(browser, url, 'light'), dark: await width(browser, url, 'dark') }
    process.stdout.write(JSON.stringify(seen) + '\n')
  } finally {
    await browser.close()
  }
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
