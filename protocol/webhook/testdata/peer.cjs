// The Node side of TestNode: reads one JSON object on stdin, {secret, verify: {headers, body, ...}[], sign: {id, at, body}[]},
// and answers what npm's standardwebhooks says to it.
"use strict";

const { Webhook } = require("standardwebhooks");

const chunks = [];
process.stdin.on("data", (chunk) => chunks.push(chunk));
process.stdin.on("end", () => {
  const { secret, verify, sign } = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  const webhook = new Webhook(secret);
  const verified = verify.map(({ headers, body }) => {
    try {
      webhook.verify(body, headers);
      return true;
    } catch {
      return false;
    }
  });
  const signatures = sign.map(({ id, at, body }) => webhook.sign(id, new Date(at * 1000), body));
  process.stdout.write(JSON.stringify({ verified, signatures }));
});
