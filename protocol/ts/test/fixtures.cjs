// Checks the shared fixtures as a Node service would: ajv with the schemas of the package, and the package's own
// functions. Usage: node fixtures.cjs FIXTURES_DIR. Prints what disagrees, one line each, and how many were checked.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const Ajv = require("ajv/dist/2020").default;
const addFormats = require("ajv-formats").default;
const { schemas } = require("../schemas.js");
const protocol = require("../index.js");

const ajv = new Ajv({ allErrors: true, strict: true, allowUnionTypes: true, strictRequired: false });
addFormats(ajv);
for (const schema of Object.values(schemas)) ajv.addSchema(schema);

let checked = 0;
for (const kind of ["valid", "invalid"]) {
  for (const [name, schema] of Object.entries(schemas)) {
    if (name === "common") continue;
    const validate = ajv.getSchema(schema.$id);
    const dir = path.join(process.argv[2], kind, name);
    for (const file of fs.readdirSync(dir)) {
      const value = JSON.parse(fs.readFileSync(path.join(dir, file), "utf8"));
      checked++;
      if (validate(value) !== (kind === "valid")) console.log(`${kind}/${name}/${file}: ajv says ${ajv.errorsText(validate.errors)}`);
      if (name === "job" && /^id-/.test(file) && protocol.isValidAnalysisId(value.analysisId) !== (kind === "valid")) {
        console.log(`${kind}/${name}/${file}: isValidAnalysisId disagrees`);
      }
    }
  }
}
console.log(`checked ${checked}`);
