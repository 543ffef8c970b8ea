#!/usr/bin/env bash
# @cfworker/json-schema 4.1.6: where a `false` schema refuses a value, the error's keywordLocation is not a place
# in the schema but the place in the value, so whoever filters errors by the keywords they lie below (as for the
# branches of an anyOf) mistakes names of properties for keywords.
# Guess: keywordLocation is #/properties/score/additionalProperties, as for every other keyword of the library.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @cfworker/json-schema@4.1.6
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { validate } from "@cfworker/json-schema";

const { version } = JSON.parse(readFileSync("node_modules/@cfworker/json-schema/package.json", "utf8"));
console.log(`@cfworker/json-schema ${version}, Node ${process.version}`);
const schema = { properties: { score: { additionalProperties: false } } };
const { errors } = validate({ score: { bonus: 1 } }, schema, "2020-12", undefined, false);
for (const { keyword, keywordLocation, instanceLocation } of errors)
  console.log(`${keyword}: schema ${keywordLocation}, value ${instanceLocation}`);
const seen = errors.find(({ keyword }) => keyword === "false")?.keywordLocation;
console.log("guess: #/properties/score/additionalProperties");
console.log(`seen:  ${seen}`);
process.exit(seen === "#/score/bonus" ? 0 : 1);
JS
node look.mjs
