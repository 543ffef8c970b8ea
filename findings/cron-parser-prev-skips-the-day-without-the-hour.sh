#!/usr/bin/env bash
# cron-parser 5.10.6: on the day on which clocks skip an hour, a daily job in that hour is moved to the next one by
# next(), and left out by prev(). What was due last and what is due next then disagree about that day: a catch-up after
# an outage, which asks prev(), forgets the run that next() would have made.
# Guess: both name the same moments.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact cron-parser@5.10.6
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { CronExpressionParser } from "cron-parser";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`cron-parser ${versionOf("cron-parser")}, Node ${process.version}`);
const from = (iso) => CronExpressionParser.parse("30 2 * * *", { tz: "Europe/Berlin", currentDate: new Date(iso) });
const [ahead, back] = [from("2026-03-28T12:00:00Z"), from("2026-03-30T12:00:00Z")];
const next = [ahead.next(), ahead.next()].map((date) => date.toISOString());
const prev = [back.prev(), back.prev()].map((date) => date.toISOString()).toReversed();
console.log(`guess: ${next.join(" and ")}, from both sides`);
console.log(`seen:  next ${next.join(", ")}; prev ${prev.join(", ")}`);
process.exit(next[0] === "2026-03-29T01:30:00.000Z" && prev[0] === "2026-03-28T01:30:00.000Z" ? 0 : 1);
JS
node look.mjs
