#!/usr/bin/env bash
# rrule 2.8.1: a daily rule with TZID at half past two, on the day on which that half hour does not exist (clocks go
# from two to three), gives half past one: RFC 5545 reads such a time by the offset before the change, which is half
# past three. Reminders of that day come before anybody expects them.
# Guess: 2026-03-29T01:30:00.000Z, half past three in Berlin.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact rrule@2.8.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import rrule from "rrule";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`rrule ${versionOf("rrule")}, Node ${process.version}`);
const rule = rrule.rrulestr("DTSTART;TZID=Europe/Berlin:20260328T023000\nRRULE:FREQ=DAILY;COUNT=3");
const seen = rule.all().map((date) => date.toISOString());
console.log("guess: 2026-03-28T01:30:00.000Z, 2026-03-29T01:30:00.000Z, 2026-03-30T00:30:00.000Z");
console.log(`seen:  ${seen.join(", ")}`);
process.exit(seen[1] === "2026-03-29T00:30:00.000Z" && seen[2] === "2026-03-30T00:30:00.000Z" ? 0 : 1);
JS
node look.mjs
