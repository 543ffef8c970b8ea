#!/usr/bin/env bash
# cronosjs 1.7.1: with a time zone, a job of every half hour does not run in the second of the two hours that have the
# same name when clocks go back: between two runs is an hour and a half. A job of one time a day runs once that night,
# as it should.
# Guess: half an hour between any two runs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact cronosjs@1.7.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { CronosExpression } from "cronosjs";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`cronosjs ${versionOf("cronosjs")}, Node ${process.version}`);
const everyHalfHour = CronosExpression.parse("*/30 * * * *", { timezone: "Europe/Berlin" });
const times = [new Date("2026-10-24T23:00:00Z")];
while (times.length < 7) times.push(everyHalfHour.nextDate(times.at(-1)));
const minutes = times.slice(1).map((time, n) => (time - times[n]) / 60_000);
console.log("guess: 30, 30, 30, 30, 30, 30 minutes");
console.log(`seen:  ${minutes.join(", ")} minutes, ${times.map((time) => time.toISOString().slice(11, 16)).join(" ")} UTC`);
process.exit(minutes.filter((one) => one === 90).length === 1 ? 0 : 1);
JS
node look.mjs
