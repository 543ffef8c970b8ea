#!/usr/bin/env bash
# apache-arrow 21.2.0: vectorFromArray takes null for no value, and undefined, in a list of numbers, for NaN, which is a
# value: it is not counted as null, and sums and averages over the column become NaN. What a file for a warehouse gets
# depends on whether a field was null or left out.
# Guess: both are no value.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact apache-arrow@21.2.0
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { vectorFromArray } from "apache-arrow";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`apache-arrow ${versionOf("apache-arrow")}, Node ${process.version}`);
const column = vectorFromArray([1, null, undefined, 4]);
const values = [...column];
console.log("guess: 1, null, null, 4 with 2 nulls");
console.log(`seen:  ${values.map(String).join(", ")} with ${column.nullCount} null`);
process.exit(values[1] === null && Number.isNaN(values[2]) && column.nullCount === 1 ? 0 : 1);
JS
node look.mjs
