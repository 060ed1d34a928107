// The connection options of BullMQ for a redis:// URL.
'use strict'

exports.connection = (text) => {
  const url = new URL(text)
  return { host: url.hostname, port: Number(url.port || 6379), maxRetriesPerRequest: null }
}
