// Opens a page of the control plane in a real Chromium and tells what a person would see: the clip playing, the skeleton on it, the state.
//
// Usage: node page.cjs URL SCREENSHOT.png
// Environment: CHROMIUM (path of the browser).
//
// Prints one JSON object:
//   {"title", "text", "errors":[…], "video":{"width","height","duration","times":[…]}, "drawn":[{"time","pixels","box":[x,y,w,h]},…]}
// times are readings of the video's clock while it plays; drawn are the skeleton's painted pixels on the canvas at moments of the clip,
// in the video's own pixels.
'use strict'

const { chromium } = require('playwright-core')

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--autoplay-policy=no-user-gesture-required']
const TIMEOUT = 120_000

// paintedPixels runs in the page. It looks at what is on the canvas right now, scaled to the video's size.
function paintedPixels() {
  const video = document.querySelector('video')
  const canvas = document.querySelector('canvas')
  const { width, height } = canvas
  const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data
  let [count, left, top, right, bottom] = [0, width, height, -1, -1]
  for (let i = 3, n = 0; i < pixels.length; i += 4, n++) {
    if (pixels[i] === 0) continue
    const [x, y] = [n % width, Math.floor(n / width)]
    count++
    left = Math.min(left, x)
    right = Math.max(right, x)
    top = Math.min(top, y)
    bottom = Math.max(bottom, y)
  }
  const [sx, sy] = [video.videoWidth / width, video.videoHeight / height]
  const box = count ? [left * sx, top * sy, (right - left + 1) * sx, (bottom - top + 1) * sy] : null
  return { time: video.currentTime, pixels: count, box }
}

// play starts the clip from the beginning and returns readings of its clock, until it has moved on.
async function play(page) {
  await page.evaluate(async () => {
    const video = document.querySelector('video')
    video.muted = true
    video.currentTime = 0
    await video.play()
  })
  const times = []
  await page.waitForFunction(() => document.querySelector('video').currentTime > 0.2, null, { timeout: TIMEOUT })
  for (let i = 0; i < 3; i++) {
    times.push(await page.evaluate(() => document.querySelector('video').currentTime))
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))
  }
  return times
}

// seek stops at a share of the clip and lets the page paint.
async function seek(page, share) {
  await page.evaluate(async (at) => {
    const video = document.querySelector('video')
    video.pause()
    const done = new Promise((resolve) => video.addEventListener('seeked', resolve, { once: true }))
    video.currentTime = video.duration * at
    await done
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
  }, share)
  return page.evaluate(paintedPixels)
}

async function look(page, url, screenshot) {
  const errors = []
  page.on('pageerror', (error) => errors.push(error.message))
  page.on('response', (response) => {
    if (response.status() >= 400 && !response.url().endsWith('/favicon.ico')) errors.push(`${response.status()} ${response.url()}`)
  })
  await page.goto(url, { waitUntil: 'load', timeout: TIMEOUT })
  await page.waitForFunction(() => document.querySelector('video')?.readyState >= 2 && document.querySelector('canvas'), null,
    { timeout: TIMEOUT })
  const video = await page.evaluate(() => {
    const { videoWidth: width, videoHeight: height, duration } = document.querySelector('video')
    return { width, height, duration }
  })
  video.times = await play(page)
  const drawn = []
  for (const share of [0.25, 0.5, 0.75]) drawn.push(await seek(page, share))
  await page.screenshot({ path: screenshot })
  return { title: await page.title(), text: await page.innerText('body'), errors, video, drawn }
}

async function main() {
  const [url, screenshot] = process.argv.slice(2)
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS, timeout: TIMEOUT })
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
    process.stdout.write(JSON.stringify(await look(page, url, screenshot)) + '\n')
  } finally {
    await browser.close()
  }
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
