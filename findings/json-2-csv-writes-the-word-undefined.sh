#!/usr/bin/env bash
# json-2-csv 5.6.0: a field that one row has and another lacks is written as the word undefined, and null as the word
# null (emptyFieldValue, by which that could be chosen, is not set by default). A spreadsheet or a COPY takes them for
# texts. csv2json of the same library makes the null again, also of a text that said null.
# Guess: nothing between the commas.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact json-2-csv@5.6.0
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { csv2json, json2csv } from "json-2-csv";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`json-2-csv ${versionOf("json-2-csv")}, Node ${process.version}`);
const written = json2csv([{ id: "a", coins: 1 }, { id: "b", lives: null }]).split("\n");
const [back] = csv2json(json2csv([{ name: "null" }]));
console.log("guess: a,1, and b,, and a name that is still the text null");
console.log(`seen:  ${written[1]} and ${written[2]} and a name that is ${back.name === null ? "null, no text" : back.name}`);
process.exit(written[1] === "a,1,undefined" && written[2] === "b,undefined,null" && back.name === null ? 0 : 1);
JS
node look.mjs
