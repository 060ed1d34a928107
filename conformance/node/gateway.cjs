// A Node service in front of the control plane: every signed message of the worker is verified with npm standardwebhooks over the raw
// bytes that came in, and only then passed on, unchanged. What does not verify is answered 401 and never reaches the control plane.
//
// Usage: node gateway.cjs
// Environment: TARGET (base URL of the control plane), SECRET (whsec_…).
//
// The first line on stdout is {"listening":"http://127.0.0.1:PORT"}. Then one line for each signed message:
// {"method","path","webhookId","verified","reason","body","status","answer"}. End of stdin ends it.
'use strict'

const http = require('node:http')
const { Webhook } = require('standardwebhooks')

const target = new URL(process.env.TARGET)
const webhook = new Webhook(process.env.SECRET)

function say(message) {
  process.stdout.write(JSON.stringify(message) + '\n')
}

async function raw(stream) {
  const parts = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}

// signed tells which requests the contract says are signed; the rest (media, artifacts, page) have signed URLs or none.
function signed(request) {
  return request.method === 'POST' && /^\/v1\/(claims|results)\//.test(request.url)
}

function check(request, body) {
  try {
    webhook.verify(body, request.headers)
    return { verified: true }
  } catch (error) {
    return { verified: false, reason: error.message }
  }
}

function forward(request, body) {
  return new Promise((resolve, reject) => {
    const { method, url: path } = request
    const headers = { ...request.headers, host: target.host }
    const onward = http.request({ host: target.hostname, port: target.port, method, path, headers }, resolve)
    onward.on('error', reject)
    onward.end(body)
  })
}

async function relay(request, response, body) {
  const answer = await forward(request, body)
  const content = await raw(answer)
  response.writeHead(answer.statusCode, answer.headers)
  response.end(content)
  return { status: answer.statusCode, content }
}

async function handleSigned(request, response) {
  const body = await raw(request)
  const record = { method: request.method, path: request.url, webhookId: request.headers['webhook-id'], ...check(request, body) }
  record.body = JSON.parse(body.toString())
  if (!record.verified) {
    response.writeHead(401).end()
    say({ ...record, status: 401 })
    return
  }
  const { status, content } = await relay(request, response, body)
  say({ ...record, status, answer: content.toString() })
}

async function handle(request, response) {
  try {
    if (signed(request)) await handleSigned(request, response)
    else await relay(request, response, await raw(request))
  } catch (error) {
    console.error(error)
    if (!response.headersSent) response.writeHead(502)
    response.end()
  }
}

const server = http.createServer(handle)
server.listen(0, '127.0.0.1', () => say({ listening: `http://127.0.0.1:${server.address().port}` }))
process.stdin.on('end', () => {
  server.closeAllConnections()
  server.close(() => process.exit(0))
})
process.stdin.resume()
