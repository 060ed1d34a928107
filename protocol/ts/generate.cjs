// Reads {"schemas":{name:schema}} on stdin, writes the TypeScript interfaces of all payloads to stdout.
"use strict";

const { pathToFileURL } = require("node:url");

// toRef turns a reference between files into one inside the bundle.
function toRef(file, ref, titles) {
  const [where, pointer] = ref.split("#/$defs/");
  const owner = where === "" ? file : where.replace(/\.json$/, "");
  return "#/$defs/" + titles(owner, pointer);
}

function walk(value, visit) {
  if (Array.isArray(value)) return value.map((item) => walk(item, visit));
  if (value === null || typeof value !== "object") return value;
  const copy = {};
  for (const [key, item] of Object.entries(value)) copy[key] = walk(item, visit);
  return visit(copy);
}

const upper = (text) => text[0].toUpperCase() + text.slice(1);

// bundle puts all schemas under $defs of one, so that a shape has one name however many payloads use it.
function bundle(schemas) {
  const name = (file, def) => schemas[file].$defs[def].title || upper(def);
  const defs = {};
  for (const [file, schema] of Object.entries(schemas)) {
    const local = (node) => (node.$ref ? { ...node, $ref: toRef(file, node.$ref, name) } : node);
    const { $defs = {}, $id, $schema, ...whole } = schema;
    for (const [def, body] of Object.entries($defs)) {
      if (defs[name(file, def)]) throw new Error(`${name(file, def)} is defined twice`);
      defs[name(file, def)] = walk(body, local);
    }
    if (file === "common") continue;
    if (defs[whole.title]) throw new Error(`${whole.title} is defined twice`);
    defs[whole.title] = walk(whole, local);
  }
  // The order of the interfaces must not depend on who refers to whom first.
  const sorted = Object.fromEntries(Object.entries(defs).sort(([a], [b]) => (a < b ? -1 : 1)));
  const properties = Object.fromEntries(Object.keys(sorted).map((key) => [key, { $ref: `#/$defs/${key}` }]));
  return { title: "Payloads", type: "object", additionalProperties: false, required: Object.keys(sorted), properties, $defs: sorted };
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const { schemas } = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  const { compile } = await import(pathToFileURL(require.resolve("json-schema-to-typescript")).href);
  const types = await compile(bundle(schemas), "Payloads", {
    bannerComment: "",
    enableConstEnums: false,
    format: true,
    style: { printWidth: 120 },
  });
  process.stdout.write(types);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
