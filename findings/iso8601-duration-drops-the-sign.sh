#!/usr/bin/env bash
# iso8601-duration 2.1.4: a duration with a sign, such as -PT1H, is parsed without an error, and without its sign: it is
# an hour after, not before. Other libraries, and Temporal, take the sign as a part of the text.
# Guess: minus 3,600 seconds, or an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact iso8601-duration@2.1.4
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { end, parse, toSeconds } from "iso8601-duration";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`iso8601-duration ${versionOf("iso8601-duration")}, Node ${process.version}`);
const before = parse("-PT1H");
const seconds = toSeconds(before);
const moved = end(before, new Date("2026-01-01T12:00:00Z")).toISOString();
console.log("guess: -3600, 2026-01-01T11:00:00.000Z; or an error");
console.log(`seen:  ${seconds}, ${moved}`);
process.exit(seconds === 3600 && moved === "2026-01-01T13:00:00.000Z" ? 0 : 1);
JS
node look.mjs
