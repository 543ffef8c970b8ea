#!/usr/bin/env bash
# croner 11.0.1: half past two on the night on which clocks go from two to three does not exist. The pattern of that
# minute runs at three, and the same minute given as a date runs at half past three: who replaces a one-off date by a
# pattern, or the other way round, gets another moment. A pattern of several minutes of that hour does not run at all.
# Guess: the date, the pattern and the list of minutes begin at the same moment.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact croner@11.0.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { Cron } from "croner";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`croner ${versionOf("croner")}, Node ${process.version}`);
const first = (pattern) =>
  new Cron(pattern, { timezone: "Europe/Berlin", paused: true }).nextRun(new Date("2027-03-27T12:00:00Z"))?.toISOString();
const [byPattern, byDate, byMinutes] = [first("30 2 * * *"), first("2027-03-28T02:30:00"), first("*/15 2 * * *")];
console.log("guess: one moment, on 28 March, three times");
console.log(`seen:  ${byPattern} by the pattern, ${byDate} by the date, ${byMinutes} by */15`);
const expected = ["2027-03-28T01:00:00.000Z", "2027-03-28T01:30:00.000Z", "2027-03-29T00:00:00.000Z"];
process.exit([byPattern, byDate, byMinutes].join() === expected.join() ? 0 : 1);
JS
node look.mjs
